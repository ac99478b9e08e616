// SPDX-License-Identifier: Apache-2.0
/*
 * When a job gives back its PCIe link: the shim's own sources, with the semaphore in the test's hand.
 *
 *     links silent    what completes while there is no agent is under way no more
 *     links gone      nor what a queue pair had under way that has failed, or is destroyed
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	gates[0].sem = &sem;
	pair.gate = shim_turns = 1;
	if (!strcmp(what, "silent"))
		silent();
	else if (!strcmp(what, "gone"))
		gone();
	else
		return 2;
	puts("good");
	return 0;
}
