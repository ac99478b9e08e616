// SPDX-License-Identifier: Apache-2.0
/*
 * A program in which connections come and go, with the shim's own sources in it: one thread makes
 * queue pairs and posts, another one destroys them, as threads of a connection manager do, and a
 * third one polls.  At its end queue pairs are left, and their devices are closed while the shim's
 * thread still runs.
 *
 *     lives ROUNDS     prints "connected" for the first queue pair, at the end "good"
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAKERS 3
#define POSTS 20
#define LEFT 4 /* queue pairs at the end, each on a device of its own */
#define LAST_US 100000

struct ibv_context *fake_context(void);
struct ibv_qp *fake_qp(struct ibv_context *context, uint32_t number);

static struct ibv_context *shared, *left[LEFT];
static struct ibv_qp *_Atomic ended[MAKERS]; /* to be destroyed; NULL: that was done */
static _Atomic int done;
static int rounds;

/* libibverbs' inline functions, but for the sanitizer: the shim changes what they read. */
static int post(struct ibv_qp *qp)
{
	struct ibv_sge sge = {.length = 4096};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	return __atomic_load_n(&qp->context->ops.post_send, __ATOMIC_ACQUIRE)(qp, &wr, &bad);
}

static int poll(struct ibv_context *context)
{
	struct ibv_cq cq = {.context = context};
	struct ibv_wc wc;

	return __atomic_load_n(&context->ops.poll_cq, __ATOMIC_ACQUIRE)(&cq, 1, &wc);
}

static struct ibv_qp *connected(struct ibv_context *context, uint32_t number)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp *qp = fake_qp(context, number);
	int bad;

	bad = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.is_global = 1;
	memcpy(attr.ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x12\0\1", 16);
	bad |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	attr.qp_state = IBV_QPS_RTS;
	bad |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	if (bad)
		exit(3);
	return qp;
}

static void *make(void *argument)
{
	uint32_t place = (uint32_t)(uintptr_t)argument;

	for (int round = 0; round < rounds; round++) {
		uint32_t number = 1 + place + (uint32_t)round % 700 * MAKERS;
		struct ibv_qp *qp = connected(round % 2 ? shared : fake_context(), number);

		for (int index = 0; index < POSTS; index++)
			if (post(qp))
				exit(4);
		ended[place] = qp;
		while (ended[place])
			usleep(100);
	}
	return NULL;
}

static void *destroy(void *unused)
{
	while (!done) {
		for (int place = 0; place < MAKERS; place++) {
			struct ibv_qp *qp = ended[place];
			struct ibv_context *context;

			if (!qp)
				continue;
			context = qp->context;
			if (ibv_destroy_qp(qp))
				exit(5);
			if (context != shared && (poll(context) != 1 || ibv_close_device(context)))
				exit(6);
			ended[place] = NULL;
		}
		usleep(100);
	}
	return unused;
}

static void *look(void *unused)
{
	while (!done)
		if (poll(shared) != 1)
			exit(7);
	return unused;
}

/* As librdmacm does. */
__attribute__((destructor)) static void close_what_is_left(void)
{
	for (int index = 0; index < LEFT && left[index]; index++)
		ibv_close_device(left[index]);
	usleep(LAST_US);
}

int main(int argc, char **argv)
{
	pthread_t makers[MAKERS], others[2];

	rounds = argc > 1 ? atoi(argv[1]) : 1;
	shared = fake_context();
	for (uint32_t index = 0; index < LEFT; index++) {
		left[index] = fake_context();
		connected(left[index], 5000 + index);
	}
	puts("connected");
	fflush(stdout);
	pthread_create(&others[0], NULL, destroy, NULL);
	pthread_create(&others[1], NULL, look, NULL);
	for (uintptr_t index = 0; index < MAKERS; index++)
		pthread_create(&makers[index], NULL, make, (void *)index);
	for (int index = 0; index < MAKERS; index++)
		pthread_join(makers[index], NULL);
	done = 1;
	for (int index = 0; index < 2; index++)
		pthread_join(others[index], NULL);
	puts("good");
	return 0;
}
