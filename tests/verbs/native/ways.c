// SPDX-License-Identifier: Apache-2.0
/*
 * A program that loads libibverbs itself, and maybe makes a process that shares its memory.
 *
 *     ways LIBRARY dlvsym|dlsym|dlmopen|vfork|posix_spawn
 *
 * Finds its functions by version, as NCCL does, by name alone, or in a namespace of the loader's
 * that has nothing else; connects a queue pair, prints
 * "connected", waits for a line; posts, prints what came of it, waits for another line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER 17
#define POSTS 40

static int post_all(struct ibv_qp *qp)
{
	struct ibv_sge sge = {.length = 4096};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_cq cq = {.context = qp->context};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	for (int index = 0; index < POSTS; index++)
		if (ibv_post_send(qp, &wr, &bad) || ibv_poll_cq(&cq, 1, &wc) != 1)
			return 0;
	return 1;
}

/* A child that runs in our memory until it becomes another program, which ends well. */
static int has_child(int spawned)
{
	char name[] = "true", *words[] = {name, NULL};
	int status = -1;
	pid_t child;

	if (spawned) {
		if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ))
			return 0;
	} else {
		child = vfork();
		if (!child) {
			execv("/bin/true", words);
			_exit(1);
		}
	}
	return child > 0 && waitpid(child, &status, 0) == child && !status;
}

int main(int argc, char **argv)
{
	int apart = argc > 2 && !strcmp(argv[2], "dlmopen");
	void *library = apart	 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_LOCAL)
			: argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)
				   : NULL;
	int by_name = library && !strcmp(argv[2], "dlsym"), good = 1;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct ibv_qp *(*fake_qp)(struct ibv_context *, uint32_t);
	struct ibv_context *(*fake_context)(void);
	struct ibv_qp *qp;

	if (!library)
		return 2;
	fake_context = dlsym(library, "fake_context");
	fake_qp = dlsym(library, "fake_qp");
	modify = by_name ? dlsym(library, "ibv_modify_qp")
			 : dlvsym(library, "ibv_modify_qp", "IBVERBS_1.1");
	*(unsigned *)dlsym(library, "fake_completed") = NUMBER;
	qp = fake_qp(fake_context(), NUMBER);
	modify(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.is_global = 1;
	memcpy(attr.ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x12\0\1", 16);
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	attr.qp_state = IBV_QPS_RTS;
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	puts("connected");
	fflush(stdout);
	getchar();
	if (!strcmp(argv[2], "vfork") || !strcmp(argv[2], "posix_spawn"))
		good = has_child(*argv[2] == 'p');
	puts(post_all(qp) && good ? "good" : "bad");
	fflush(stdout);
	getchar();
	return 0;
}
