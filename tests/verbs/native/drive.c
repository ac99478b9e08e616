// SPDX-License-Identifier: Apache-2.0
/*
 * A program that knows nothing of hostcc: makes queue pairs, posts and polls, ends them.
 *
 *     drive SECONDS THREADS     prints an empty line when a queue pair is connected; at the
 *                               end ns per post and poll, and what the stand-in saw
 *
 * SIGTERM is an earlier end.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern unsigned long fake_posted, fake_polled, fake_moves, fake_errors;
struct ibv_context *fake_context(void);
struct ibv_qp *fake_qp(struct ibv_context *context, uint32_t number);

static struct ibv_context *context;
static double seconds;
static unsigned long rounds;
static volatile sig_atomic_t told_to_end;

static void on_term(int number)
{
	(void)number;
	told_to_end = 1;
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void life_of_a_pair(uint32_t number, double until)
{
	struct ibv_qp *qp = fake_qp(context, number);
	struct ibv_cq cq = {.context = context};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_sge sge = {.length = 4096};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.is_global = 1;
	memcpy(attr.ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x12\0\1", 16);
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN))
		exit(3);
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		exit(4);
	putchar('\n');
	fflush(stdout);
	do {
		for (int round = 0; round < 1000; round++) {
			if (ibv_post_send(qp, &wr, &bad))
				exit(5);
			if (ibv_poll_cq(&cq, 1, &wc) != 1)
				exit(6);
		}
		__atomic_fetch_add(&rounds, 1000, __ATOMIC_RELAXED);
	} while (!told_to_end && now() < until);
	if (ibv_destroy_qp(qp))
		exit(7);
}

static void *live(void *argument)
{
	uint32_t number = 17 + (uint32_t)(uintptr_t)argument * 1000;
	double end = now() + seconds;

	while (!told_to_end && now() < end)
		life_of_a_pair(number++, now() + seconds / 4);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t thread[16];
	double began;

	signal(SIGTERM, on_term);
	seconds = atof(argv[1]);
	context = fake_context();
	began = now();
	for (intptr_t index = 0; index < threads; index++)
		pthread_create(&thread[index], NULL, live, (void *)index);
	for (int index = 0; index < threads; index++)
		pthread_join(thread[index], NULL);
	printf("{\"ns\": %.2f, \"posted\": %lu, \"polled\": %lu, \"moves\": %lu, \"errors\": %lu}\n",
	       (now() - began) * 1e9 * threads / (double)rounds, fake_posted, fake_polled, fake_moves,
	       fake_errors);
	return 0;
}
