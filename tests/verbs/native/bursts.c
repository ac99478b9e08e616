// SPDX-License-Identifier: Apache-2.0
/*
 * Bursts and the gate before them: the shim's own source, with time and the plan in the test's hand.
 *
 *     bursts phases     begin and end are told; a burst waits at a closed gate, until it opens
 *     bursts bounds     nor for longer than a period or two seconds; nobody without a heartbeat
 *     bursts pattern    nobody who is not known, or whose bytes differ, or who comes late
 *     bursts under-way  what is under way is no silence; what has failed is not under way
 *     bursts arming     who is disarmed goes on, who is armed again is learned anew
 *     bursts threads    one of many begins, all wait, one goes on for all, no byte is lost
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long fake_sleep(const struct timespec *nap);

#define syscall(call, clock, flags, nap, left) fake_sleep(nap)
#include "shim_burst.c"
#undef syscall

#define THREADS 8
#define ROUNDS 500
#define BYTES 1000
#define MS 1000000ull
#define SILENCE_NS (10 * MS)
#define PERIOD_NS (100 * MS)
#define START_NS 1000000000ull
#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

/* What other sources have. */
static struct hcc_rdma_counts counts;
struct hcc_rdma_counts *_Atomic shim_counts = &counts;
static struct hcc_rdma_job job;
static struct shim_qp pairs[2];
static _Atomic int alive = 1;

const struct hcc_rdma_job *shim_entry(void)
{
	return &job;
}

int shim_alive(void)
{
	return alive;
}

void shim_each(void (*visit)(struct shim_qp *))
{
	visit(&pairs[0]);
	visit(&pairs[1]);
}

int shim_any(int (*is)(const struct shim_qp *))
{
	return is(&pairs[0]) || is(&pairs[1]);
}

/* Time goes on when somebody sleeps, and when the test says so. */
static _Atomic uint64_t fake_ns = START_NS;
static _Atomic uint64_t event_ns; /* 0: nothing happens */
static void (*event)(void);

uint64_t shim_now_ns(void)
{
	return fake_ns;
}

static long fake_sleep(const struct timespec *nap)
{
	uint64_t at = event_ns;

	CHECK(nap->tv_nsec > 0 && nap->tv_nsec <= (long)NAP_NS);
	pthread_mutex_lock(&pattern.lock); /* nobody sleeps with it: this would not come back */
	pthread_mutex_unlock(&pattern.lock);
	if (atomic_fetch_add(&fake_ns, (uint64_t)nap->tv_nsec) + (uint64_t)nap->tv_nsec >= at && at)
		event();
	return 0;
}

static void open_gate(void)
{
	job.closed_until_ns = 0;
}

static void stop_heart(void)
{
	alive = 0;
}

static void disarm(void)
{
	job.burst_period_ns = 0;
	job.closed_until_ns = 0;
}

static void at(uint64_t ns, void (*what)(void))
{
	event = what;
	event_ns = ns;
}

static void arm(void)
{
	job.burst_silence_ns = SILENCE_NS;
	job.burst_period_ns = PERIOD_NS;
	shim_burst_look();
	CHECK(shim_bursts);
}

static int phase(void)
{
	return phase_of(counts.burst);
}

static uint64_t since(void)
{
	return word(counts.burst, HCC_RDMA_IDLE);
}

static int post(struct shim_qp *one, uint64_t bytes)
{
	uint64_t now = fake_ns;
	int waited = shim_burst_wait(now);

	shim_burst_posted(one, bytes, 1, waited ? fake_ns : now);
	return waited;
}

static void complete(struct shim_qp *one)
{
	shim_burst_completed(one, 1, fake_ns);
}

/* Compute, then send in four pieces; returns whether the burst waited. */
static int iterate(uint64_t bytes)
{
	int waited = 0;

	fake_ns += 50 * MS;
	for (int piece = 0; piece < 4; piece++) {
		waited |= post(&pairs[0], bytes / 4);
		fake_ns += MS;
		complete(&pairs[0]);
	}
	return waited;
}

/* Its bursts are alike, and known. */
static void learn_it(void)
{
	arm();
	for (int index = 0; index < 4; index++)
		CHECK(!iterate(BYTES));
	CHECK(phase() == HCC_RDMA_IDLE);
}

static void close_gate(uint64_t for_ns)
{
	job.closed_until_ns = fake_ns + for_ns;
}

static void phases(void)
{
	uint64_t began;

	learn_it();
	CHECK(counts.bursts == 4 && !counts.holds);
	CHECK(since() == (fake_ns & ~3ull)); /* it ended with the last completion */
	fake_ns += 50 * MS;
	began = fake_ns;
	CHECK(!shim_burst_wait(began));
	begin(began); /* another thread has seen the same silence */
	CHECK(counts.bursts == 5);
	CHECK(!post(&pairs[0], BYTES / 2));
	CHECK(phase() == HCC_RDMA_SENDING && since() == (began & ~3ull));
	close_gate(PERIOD_NS); /* who sends is not stopped */
	CHECK(!post(&pairs[0], BYTES / 2));
	complete(&pairs[0]);
	CHECK(phase() == HCC_RDMA_SENDING);
	complete(&pairs[0]);
	CHECK(phase() == HCC_RDMA_IDLE);
	job.closed_until_ns = fake_ns + 50 * MS + 20 * MS;
	at(fake_ns + 50 * MS + 7 * MS, open_gate);
	CHECK(iterate(BYTES));
	CHECK(counts.holds == 1 && counts.held_ns / MS == 7);
	CHECK(phase() == HCC_RDMA_IDLE);
	job.closed_until_ns = fake_ns + 50 * MS + 20 * MS; /* the deadline passes by itself */
	event_ns = 0;
	CHECK(iterate(BYTES));
	CHECK(counts.holds == 2 && counts.held_ns / MS == 27);
	CHECK(counts.bursts == 7);
	fake_ns += 50 * MS;
	close_gate(2 * SILENCE_NS);
	CHECK(shim_burst_wait(fake_ns));
	begin(fake_ns); /* another thread takes the wait for no silence */
	CHECK(counts.bursts == 8);
}

static void bounds(void)
{
	learn_it();
	close_gate(10 * PERIOD_NS);
	CHECK(iterate(BYTES));
	CHECK(counts.held_ns == PERIOD_NS);
	job.burst_period_ns = 5000 * MS;
	shim_burst_look();
	close_gate(10000 * MS);
	CHECK(iterate(BYTES));
	CHECK(counts.held_ns - PERIOD_NS == MAX_HOLD_NS);
	close_gate(1000 * MS);
	at(fake_ns + 50 * MS + 3 * MS, stop_heart);
	CHECK(iterate(BYTES));
	CHECK((counts.held_ns - PERIOD_NS - MAX_HOLD_NS) / MS == 3);
	CHECK(!iterate(BYTES)); /* closed, but there is no heartbeat */
	CHECK(counts.holds == 3);
	shim_burst_look();
	CHECK(!shim_bursts);
}

static void pattern_of_a_job(void)
{
	arm();
	for (int index = 0; index < 3; index++) {
		close_gate(PERIOD_NS);
		CHECK(!iterate(BYTES)); /* not known yet */
	}
	close_gate(PERIOD_NS);
	CHECK(iterate(BYTES));
	fake_ns += 2 * PERIOD_NS;
	close_gate(PERIOD_NS);
	CHECK(!iterate(BYTES)); /* after a checkpoint, maybe */
	close_gate(PERIOD_NS);
	CHECK(iterate(BYTES));
	for (int index = 0; index < 8; index++) {
		open_gate();
		iterate(BYTES * (index % 2 ? 1 : 2));
		close_gate(PERIOD_NS);
	}
	CHECK(!iterate(BYTES));
}

static void under_way(void)
{
	learn_it();
	fake_ns += 50 * MS;
	CHECK(!post(&pairs[0], BYTES / 2) && !post(&pairs[1], BYTES / 4));
	CHECK(counts.bursts == 5);
	fake_ns += 2 * SILENCE_NS; /* one message takes long */
	close_gate(PERIOD_NS);
	CHECK(!post(&pairs[0], BYTES / 4));
	CHECK(counts.bursts == 5);
	complete(&pairs[0]);
	complete(&pairs[0]);
	CHECK(phase() == HCC_RDMA_SENDING); /* the other queue pair is not done */
	shim_burst_failed(&pairs[1]);
	fake_ns += 2 * SILENCE_NS;
	CHECK(post(&pairs[0], BYTES)); /* what failed before is nothing to wait for */
	CHECK(counts.bursts == 6);
	shim_burst_refused(&pairs[0], BYTES, 1);
	CHECK(!pairs[0].outstanding && !posted);
	complete(&pairs[0]); /* of a send that was posted before there was an agent */
	CHECK(!pairs[0].outstanding);
}

static void arming(void)
{
	CHECK(!iterate(BYTES) && !counts.bursts); /* nothing is counted before */
	learn_it();
	close_gate(PERIOD_NS);
	at(fake_ns + 50 * MS + 5 * MS, disarm);
	CHECK(iterate(BYTES));
	CHECK(counts.held_ns / MS == 5);
	post(&pairs[0], BYTES);
	shim_burst_look();
	CHECK(!shim_bursts);
	complete(&pairs[0]); /* when nobody counts */
	arm();
	CHECK(phase() == HCC_RDMA_IDLE && !pairs[0].outstanding);
	close_gate(PERIOD_NS);
	CHECK(!iterate(BYTES));
	shim_burst_forget(); /* a child of fork */
	CHECK(!iterate(BYTES) && !shim_bursts);
}

static pthread_barrier_t barrier;

static void *post_in_rounds(void *unused)
{
	struct shim_qp *one = &pairs[(uintptr_t)unused % 2];

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
			fake_ns += 50 * MS;
			close_gate(2 * MS);
		}
		pthread_barrier_wait(&barrier);
		post(one, BYTES); /* who comes late finds the gate open again */
		pthread_barrier_wait(&barrier);
		CHECK(phase() == HCC_RDMA_SENDING && counts.bursts == round);
		CHECK(posted == THREADS * BYTES);
		pthread_barrier_wait(&barrier);
		complete(one);
		pthread_barrier_wait(&barrier);
		CHECK(!pairs[0].outstanding && !pairs[1].outstanding);
		CHECK(round < 2 || phase() == HCC_RDMA_IDLE);
	}
	return unused;
}

static void many(void)
{
	pthread_t threads[THREADS];

	arm();
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uintptr_t index = 0; index < THREADS; index++)
		pthread_create(&threads[index], NULL, post_in_rounds, (void *)index);
	for (int index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
	CHECK(counts.holds == ROUNDS - 3);
	CHECK(counts.held_ns >= counts.holds * 2 * MS);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "phases"))
		phases();
	else if (!strcmp(what, "bounds"))
		bounds();
	else if (!strcmp(what, "pattern"))
		pattern_of_a_job();
	else if (!strcmp(what, "under-way"))
		under_way();
	else if (!strcmp(what, "arming"))
		arming();
	else if (!strcmp(what, "threads"))
		many();
	else
		return 2;
	puts("good");
	return 0;
}
