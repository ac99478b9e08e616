// SPDX-License-Identifier: Apache-2.0
/*
 * Bursts: the part of an iteration in which the job sends.  The agent is told when one begins and
 * ends, and the first posts of one wait while its gate is closed, because another job sends.
 *
 * The gate is a deadline in the plan, and without heartbeat it counts as open, so nothing has to
 * be undone for the job.  Until the agent arms it nothing is counted here.  Nobody waits with a
 * lock.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIN_TRUST 2 /* bursts in a row that were like the one before, until one is held */
#define MAX_TRUST 8
#define SLACK_SHIFT 6 /* a burst has ended when all but 1/64 of its bytes are completed */
#define NAP_NS 500000ull /* between two looks at the gate */
#define MAX_HOLD_NS 2000000000ull /* whatever the plan says */

_Atomic int shim_bursts;

static _Atomic uint64_t silence_ns, period_ns; /* as the plan has them */
static _Atomic uint64_t active_ns; /* when something was posted or completed last */
static _Atomic uint64_t posted;    /* bytes since the burst began */
static _Atomic uint64_t usual;     /* bytes of the last one; 0: unknown */

/* What is learned at the begin of each burst. */
static struct {
	pthread_mutex_t lock; /* of what follows; nobody waits while holding it */
	uint64_t began_ns;
	uint32_t trust; /* bursts in a row that were like the one before */
} pattern = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* From one time to another; 0 where that is not later: threads look at the clock in any order. */
static uint64_t elapsed(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

static void active(uint64_t now)
{
	uint64_t before = atomic_load(&active_ns);

	while (before < now && !atomic_compare_exchange_weak(&active_ns, &before, now))
		;
}

static uint64_t word(uint64_t now, enum hcc_rdma_phase phase)
{
	return (now & ~(uint64_t)HCC_RDMA_PHASE) | phase;
}

static int phase_of(uint64_t burst)
{
	return (int)(burst & HCC_RDMA_PHASE);
}

/* Add or take from a count that is never below 0: some may have been posted before we looked. */
static int64_t add(struct shim_qp *one, int64_t count)
{
	int64_t left = atomic_fetch_add(&one->outstanding, count) + count;

	if (left < 0 && atomic_compare_exchange_strong(&one->outstanding, &left, 0))
		return 0;
	return left;
}

/* Whether completions are to come. */
static int is_busy(const struct shim_qp *one)
{
	return atomic_load(&one->outstanding) > 0;
}

static void forget_one(struct shim_qp *one)
{
	atomic_store(&one->outstanding, 0);
}

/* The gate has been armed: what went before is not known, nor when an iteration begins. */
static void begin_anew(void)
{
	uint64_t now = shim_now_ns();

	pthread_mutex_lock(&pattern.lock);
	pattern.trust = 0;
	pattern.began_ns = now;
	atomic_store(&usual, 0);
	atomic_store(&posted, 0);
	shim_each(forget_one);
	active(now);
	atomic_store(&shim_counts->burst, word(now, HCC_RDMA_IDLE));
	pthread_mutex_unlock(&pattern.lock);
}

void shim_burst_forget(void)
{
	atomic_store(&shim_bursts, 0); /* no lock: another thread may have had it */
}

void shim_burst_look(void)
{
	const struct hcc_rdma_job *ours = shim_entry();
	uint64_t period = ours ? atomic_load(&ours->burst_period_ns) : 0;

	if (!period || !shim_alive()) {
		atomic_store(&shim_bursts, 0);
		return;
	}
	atomic_store(&period_ns, period);
	atomic_store(&silence_ns, atomic_load(&ours->burst_silence_ns));
	if (!atomic_load(&shim_bursts)) {
		begin_anew();
		atomic_store(&shim_bursts, 1);
	}
}

/* For how long the gate stays closed, ns; 0: it is open. */
static uint64_t closed_for(uint64_t now)
{
	const struct hcc_rdma_job *ours = shim_entry(); /* anew: others come and go */
	uint64_t left = ours ? elapsed(now, atomic_load(&ours->closed_until_ns)) : 0;

	return left && shim_alive() ? left : 0;
}

/* Learn from the burst that is over; returns whether the next one may be held. */
static int learn(uint64_t bytes, uint64_t now)
{
	uint64_t before = atomic_load(&usual), lasted = elapsed(pattern.began_ns, now);
	uint64_t differ = bytes > before ? bytes - before : before - bytes;

	if (before && differ <= before / 8)
		pattern.trust += pattern.trust < MAX_TRUST;
	else
		pattern.trust = pattern.trust > 4 ? pattern.trust - 4 : 0;
	atomic_store(&usual, bytes);
	pattern.began_ns = now;
	/* What comes after a longer time may be a checkpoint. */
	return pattern.trust >= MIN_TRUST && lasted / 2 <= atomic_load(&period_ns);
}

static void begin(uint64_t now)
{
	struct hcc_rdma_counts *counts = shim_counts;

	pthread_mutex_lock(&pattern.lock);
	/* Another thread may have begun it meanwhile. */
	if (elapsed(atomic_load(&active_ns), now) > atomic_load(&silence_ns) &&
	    phase_of(atomic_load(&counts->burst)) != HCC_RDMA_HELD && !shim_any(is_busy)) {
		int held = learn(atomic_exchange(&posted, 0), now) && closed_for(now);

		atomic_fetch_add(&counts->bursts, 1);
		if (held)
			atomic_fetch_add(&counts->holds, 1);
		atomic_store(&counts->burst, word(now, held ? HCC_RDMA_HELD : HCC_RDMA_SENDING));
		active(now);
	}
	pthread_mutex_unlock(&pattern.lock);
}

/* Wait, in steps, for the gate to open; the first that sees it goes on for all. */
static void hold(void)
{
	struct hcc_rdma_counts *counts = shim_counts;

	for (;;) {
		uint64_t burst = atomic_load(&counts->burst), now = shim_now_ns();
		uint64_t held = elapsed(word(burst, HCC_RDMA_IDLE), now), left = closed_for(now);
		struct timespec nap = {.tv_nsec = (long)(left < NAP_NS ? left : NAP_NS)};

		if (phase_of(burst) != HCC_RDMA_HELD)
			return;
		if (left && held < atomic_load(&period_ns) && held < MAX_HOLD_NS) {
			/* Not the C library's: a post is no place at which a thread may be cancelled. */
			syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL);
			continue;
		}
		active(now); /* first: nobody may take the wait for a silence */
		if (atomic_compare_exchange_strong(&counts->burst, &burst, word(now, HCC_RDMA_SENDING)))
			atomic_fetch_add(&counts->held_ns, held);
	}
}

int shim_burst_wait(uint64_t now)
{
	if (!atomic_load_explicit(&shim_bursts, memory_order_relaxed))
		return 0;
	if (elapsed(atomic_load(&active_ns), now) > atomic_load(&silence_ns))
		begin(now);
	if (phase_of(atomic_load(&shim_counts->burst)) != HCC_RDMA_HELD)
		return 0;
	hold();
	return 1;
}

void shim_burst_posted(struct shim_qp *one, uint64_t bytes, int64_t signalled, uint64_t now)
{
	if (!atomic_load_explicit(&shim_bursts, memory_order_relaxed))
		return;
	if (signalled)
		add(one, signalled);
	if (bytes) {
		atomic_fetch_add(&posted, bytes);
		active(now);
	}
}

void shim_burst_refused(struct shim_qp *one, uint64_t bytes, int64_t signalled)
{
	uint64_t now = atomic_load(&posted);

	if (!atomic_load_explicit(&shim_bursts, memory_order_relaxed))
		return;
	add(one, -signalled);
	while (now >= bytes && !atomic_compare_exchange_weak(&posted, &now, now - bytes))
		;
}

void shim_burst_failed(struct shim_qp *one)
{
	forget_one(one);
}

void shim_burst_completed(struct shim_qp *one, int64_t count, uint64_t now)
{
	uint64_t burst, bytes;

	if (!atomic_load_explicit(&shim_bursts, memory_order_relaxed))
		return;
	active(now);
	bytes = atomic_load(&usual);
	if (add(one, -count) > 0 || !bytes || atomic_load(&posted) < bytes - (bytes >> SLACK_SHIFT))
		return;
	burst = atomic_load(&shim_counts->burst);
	if (phase_of(burst) == HCC_RDMA_SENDING && !shim_any(is_busy))
		atomic_compare_exchange_strong(&shim_counts->burst, &burst, word(now, HCC_RDMA_IDLE));
}
