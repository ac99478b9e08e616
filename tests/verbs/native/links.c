// SPDX-License-Identifier: Apache-2.0
/*
 * When a job gives back its PCIe link: the shim's own sources, with the semaphore in the test's hand.
 *
 *     links silent    what completes while there is no agent is under way no more
 *     links gone      nor what a queue pair had under way that has failed, or is destroyed
 *     links moved     nor what it had under way when its device got another link
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim_gate.c"
#include "shim_turn.c"

#define LONG_BYTES 1000
#include "stand_ins.h"

uint64_t shim_now_ns(void)
{
	return 1000000000ull;
}

/* Whether the link is free once something more was posted and has completed. */
static int is_left(void)
{
	sem.left = 0;
	shim_turn_posted(&pair, 1);
	shim_turn_completed(&pair, 1);
	return sem.left;
}

static void silent(void)
{
	shim_turn_posted(&pair, 1);
	shim_turn_plan(NULL); /* no heartbeat */
	shim_turn_completed(&pair, 1);
	shim_turn_posted(&pair, 2);
	shim_turn_completed(&pair, 2);
	CHECK(!sem.left);
	shim_turns = 1;
	CHECK(is_left());
}

static void gone(void)
{
	const struct ibv_wc lost = {.status = IBV_WC_RETRY_EXC_ERR};
	const struct ibv_wc flushed = {.status = IBV_WC_WR_FLUSH_ERR};
	const struct ibv_cq cq = {.context = NULL};

	shim_turn_posted(&pair, 3);
	failed(&cq, &lost);
	CHECK(sem.left && is_left());
	shim_turn_posted(&pair, 1); /* before the job has seen that */
	failed(&cq, &flushed);
	CHECK(count.errors == 1 && is_left());
	shim_turn_posted(&pair, 2);
	shim_gate_unhook(&pair);
	CHECK(is_left());
	gates[0].outstanding = 1; /* another one's goes on */
	shim_turn_posted(&pair, 1);
	shim_gate_unhook(&pair);
	CHECK(gates[0].outstanding == 1 && !is_left());
}

static void moved(void)
{
	struct hcc_rdma_job job = {
		.flags = HCC_RDMA_GATE, .gates = 2,
		.gate = {{.device = "a", .link = 0}, {.device = "b", .link = 0}}};
	static struct hcc_sem other;

	strcpy(count.device, "a");
	gates[1].sem = &other;
	gates[1].link = 1;
	shim_turn_posted(&pair, 2);
	job.gate[0].link = 1; /* of the other device it stays */
	shim_turn_plan(&job);
	CHECK(pair.gate == 2 && sem.left && !gates[0].outstanding);
	shim_turn_completed(&pair, 2);
	shim_turn_posted(&pair, 1);
	shim_turn_completed(&pair, 1);
	CHECK(other.left && !gates[1].outstanding && !pair.at_link);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	gates[0].sem = &sem;
	pair.gate = shim_turns = 1;
	if (!strcmp(what, "silent"))
		silent();
	else if (!strcmp(what, "gone"))
		gone();
	else if (!strcmp(what, "moved"))
		moved();
	else
		return 2;
	puts("good");
	return 0;
}
