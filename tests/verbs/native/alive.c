// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a living agent is taken for none when its heartbeat comes while somebody looks: plan.c
 * itself, with time in the test's hand.  Prints "good" where it is not.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

static int fake_clock(clockid_t clock, struct timespec *now);

#define clock_gettime fake_clock
#include "plan.c"
#undef clock_gettime

#include <stdio.h>

#define BEAT_NS 500000000ull
#define LOOKS 10

static struct hcc_rdma_plan plan = {.stale_us = 1500000};
static uint64_t time_ns = 1000 * BEAT_NS;

/* The agent beats right after each look at the clock. */
static int fake_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	time_ns += BEAT_NS;
	now->tv_sec = (time_t)(time_ns / 1000000000ull);
	now->tv_nsec = (long)(time_ns % 1000000000ull);
	plan.beat = time_ns + 1;
	return 0;
}

int main(void)
{
	const struct hcc_plan_map map = {.plan = &plan};
	int alive = 0;

	plan.beat = time_ns;
	for (int look = 0; look < LOOKS; look++)
		alive += hcc_plan_alive(&map);
	time_ns += 4 * BEAT_NS; /* none for so long */
	puts(alive == LOOKS && !hcc_plan_alive(&map) ? "good" : "bad");
	return 0;
}
