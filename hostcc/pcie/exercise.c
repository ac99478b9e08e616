// SPDX-License-Identifier: Apache-2.0
/*
 * What benchmarks and tests do with semaphores at full speed: turns, and a copy engine.
 *
 * The engine stands for a PCIe link on machines without one to spare: a token bucket in
 * shared memory that every process draws on, first come first served, like DMA requests.
 */
#include <string.h>

#include "semaphore.h"
#include "semaphore_os.h"

#define SPIN_NS 60000ull

struct exercise_job {
	uint64_t rate;       /* of the engine, bytes per second */
	uint64_t message;    /* bytes */
	uint64_t messages;   /* in a burst */
	uint64_t compute_ns; /* between bursts */
	uint64_t until_ns;   /* CLOCK_MONOTONIC at which to stop */
	uint64_t sent;       /* result: bytes */
	uint64_t bursts;     /* result: whole ones */
};

static void sleep_until(uint64_t when)
{
	uint64_t now = hcc_os_now();

	if (when > now + SPIN_NS) {
		uint64_t target = when - SPIN_NS;
		struct timespec at = {.tv_sec = (time_t)(target / 1000000000ull),
				      .tv_nsec = (long)(target % 1000000000ull)};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	while (hcc_os_now() < when)
		;
}

static void copy(_Atomic uint64_t *engine, uint64_t bytes, uint64_t rate)
{
	uint64_t takes = (uint64_t)((double)bytes * 1e9 / (double)rate), busy, start;

	busy = atomic_load(engine);
	do {
		uint64_t now = hcc_os_now();

		start = busy > now ? busy : now;
	} while (!atomic_compare_exchange_weak(engine, &busy, start + takes));
	sleep_until(start + takes);
}

/* Bursts of messages through the engine, gated by `sem` where there is one. */
void hcc_exercise_job(struct hcc_sem *sem, _Atomic uint64_t *engine, struct exercise_job *job)
{
	while (hcc_os_now() < job->until_ns) {
		for (uint64_t index = 0; index < job->messages; index++) {
			if (sem && !index)
				hcc_sem_enter(sem);
			copy(engine, job->message, job->rate);
			job->sent += job->message;
			if (hcc_os_now() >= job->until_ns)
				break;
			if (sem && index + 1 < job->messages)
				hcc_sem_boundary(sem, job->message);
		}
		if (sem)
			hcc_sem_leave(sem);
		job->bursts++;
		if (job->compute_ns)
			sleep_until(hcc_os_now() + job->compute_ns);
	}
}

/* Two processes that wake each other: what a hand-over costs at least, without semaphores. */
struct exercise_bells {
	_Atomic uint32_t bell[2];
	_Atomic uint64_t rung;
};

/* `turns` turns of `hold_ns` of the one of them: how long after the ring each began; the last
 * rings of both may be in vain. */
void hcc_exercise_wakes(struct exercise_bells *bells, uint32_t self, uint64_t turns,
			uint64_t hold_ns, uint64_t *after)
{
	for (uint64_t index = 0; index < turns; index++) {
		uint32_t turn = (uint32_t)index + (self ? 1 : 0);
		_Atomic uint32_t *own = &bells->bell[self];
		uint32_t seen;

		while ((seen = atomic_load(own)) < turn)
			hcc_os_wait(own, seen, 100000000ull);
		after[index] = turn ? hcc_os_now() - atomic_load(&bells->rung) : 0;
		sleep_until(hcc_os_now() + hold_ns);
		atomic_store(&bells->rung, hcc_os_now());
		atomic_fetch_add(&bells->bell[!self], 1);
		hcc_os_wake(&bells->bell[!self]);
	}
}

/* Nanoseconds of one enter and leave, nobody else being there. */
double hcc_exercise_cost(struct hcc_sem *sem, uint64_t rounds)
{
	uint64_t began = hcc_os_now();

	for (uint64_t index = 0; index < rounds; index++) {
		hcc_sem_enter(sem);
		hcc_sem_leave(sem);
	}
	return (double)(hcc_os_now() - began) / (double)rounds;
}

/* Nanoseconds of one boundary while holding, nobody else being there. */
double hcc_exercise_boundary(struct hcc_sem *sem, uint64_t rounds)
{
	uint64_t began;

	hcc_sem_enter(sem);
	began = hcc_os_now();
	for (uint64_t index = 0; index < rounds; index++)
		hcc_sem_boundary(sem, 1);
	began = hcc_os_now() - began;
	hcc_sem_leave(sem);
	return (double)began / (double)rounds;
}

/*
 * `turns` turns of `hold_ns` with `gap_ns` between: how long each waited, and how long after
 * the one before had left (its mark in `last_use`) it began; 0 where it did not wait.
 */
void hcc_exercise_turns(struct hcc_sem *sem, struct hcc_sem_link *link, uint32_t before,
			uint64_t turns, uint64_t hold_ns, uint64_t gap_ns, uint64_t *waited,
			uint64_t *after)
{
	for (uint64_t index = 0; index < turns; index++) {
		uint64_t asked = hcc_os_now(), now, left;

		hcc_sem_enter(sem);
		now = hcc_os_now();
		left = atomic_load(&link->last_use[before % HCC_SEM_LEVELS]);
		waited[index] = now - asked;
		after[index] = left > asked && left < now ? now - left : 0;
		sleep_until(now + hold_ns);
		hcc_sem_leave(sem);
		if (gap_ns)
			sleep_until(hcc_os_now() + gap_ns);
	}
}
