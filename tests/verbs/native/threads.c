// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that post at once: the shim's own sources, with time and semaphores in the test's hand.
 *
 *     threads pacer       what is reserved and counted is what was posted, to the byte
 *     threads iterations  so it is when an iteration begins under several threads
 *     threads steady      no iteration begins when one of them was held up after it saw the time
 *     threads turns       who waits for a link waits once, for all, with no lock held
 *     threads ends        a wait ends at once when the link is none of ours any more
 *     threads extended    by the extended interface, too, none waits with the provider's lock
 *     threads bursts      who waits for its burst to begin has no link yet
 *     threads signals     who is held back is so for as long as planned, whatever signals come
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long fake_sleep(const struct timespec *nap);

#define syscall(call, clock, flags, nap, left) fake_sleep(nap)
#include "shim_gate.c"
#undef syscall
#include "shim_turn.c"

#define THREADS 8
#define POSTS 20000
#define ROUNDS 5000
#define BYTES 1000
#define START_NS 1000000000ull
#define LONG_BYTES BYTES
#include "stand_ins.h"

/* A provider that locks its queue from start to complete, and refuses what has no bytes. */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int has_queue;
static uint64_t queued;

static void queue_start(struct ibv_qp_ex *ex)
{
	(void)ex;
	pthread_mutex_lock(&queue);
	has_queue = 1;
}

static void queue_end(struct ibv_qp_ex *ex)
{
	(void)ex;
	has_queue = 0;
	pthread_mutex_unlock(&queue);
}

static int queue_complete(struct ibv_qp_ex *ex)
{
	int error = pair.ex_bytes ? 0 : ENOMEM;

	queue_end(ex);
	return error;
}

static void queue_sge(struct ibv_qp_ex *ex, uint32_t key, uint64_t address, uint32_t length)
{
	(void)ex, (void)key, (void)address;
	queued += length;
}

static void queue_sges(struct ibv_qp_ex *ex, size_t number, const struct ibv_sge *list)
{
	(void)ex, (void)number, (void)list;
}

static struct ibv_qp_ex extended = {
	.wr_flags = IBV_SEND_SIGNALED, .wr_start = queue_start, .wr_complete = queue_complete,
	.wr_abort = queue_end, .wr_set_sge = queue_sge, .wr_set_sge_list = queue_sges};

static struct ibv_qp_ex *to_extended(struct ibv_qp *qp)
{
	(void)qp;
	return &extended;
}

/* Time goes on when somebody sleeps, and when the test says so. */
static _Atomic uint64_t fake_ns = START_NS, fake_step_ns;
static pthread_barrier_t barrier;

uint64_t shim_now_ns(void)
{
	return atomic_fetch_add(&fake_ns, fake_step_ns);
}

static _Thread_local int signals; /* that come while it sleeps */

static long fake_sleep(const struct timespec *until)
{
	CHECK(!has_queue);
	if (signals) {
		signals--;
		errno = EINTR;
		return -1;
	}
	later(&fake_ns, (uint64_t)until->tv_sec * 1000000000ull + (uint64_t)until->tv_nsec);
	return 0;
}

static void *post_many(void *unused)
{
	pthread_barrier_wait(&barrier);
	for (int index = 0; index < POSTS; index++)
		before_post(&pair, BYTES, 0);
	return unused;
}

static void *post_in_rounds(void *unused)
{
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			atomic_fetch_add(&fake_ns, 5000000); /* a silence */
		pthread_barrier_wait(&barrier);
		before_post(&pair, BYTES, 0);
		pthread_barrier_wait(&barrier);
		CHECK(counts.iteration == THREADS * BYTES);
		CHECK(count.iteration == THREADS * BYTES);
		CHECK(counts.iterations == round);
	}
	return unused;
}

static void *take_turn(void *unused)
{
	shim_turn_wait(&pair, BYTES);
	return unused;
}

/* Two requests of one post; then one that is given up, and one that is refused. */
static void *post_extended(void *unused)
{
	extended.wr_start(&extended);
	extended.wr_set_sge(&extended, 0, 0, BYTES);
	extended.wr_set_sge(&extended, 0, 0, BYTES);
	CHECK(!extended.wr_complete(&extended));
	extended.wr_start(&extended);
	extended.wr_abort(&extended);
	extended.wr_start(&extended);
	CHECK(extended.wr_complete(&extended) == ENOMEM);
	return unused;
}

static void *end_turns(void *unused)
{
	part(&gates[0]);
	return unused;
}

static pthread_t threads[THREADS];

static void begin(void *(*what)(void *), int first, int last)
{
	for (int index = first; index < last; index++)
		pthread_create(&threads[index], NULL, what, NULL);
}

static void finish(void)
{
	for (int index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
}

static void pacer(void)
{
	rate = 1000000000; /* so many bytes a second: a nanosecond each */
	iteration_bytes = 0; /* unknown: always the last point of F */
	for (uint32_t index = 0; index < HCC_RDMA_F_POINTS; index++)
		f_milli[index] = 1000;
	pacing = HCC_RDMA_RATE;
	begin(post_many, 0, THREADS);
	finish();
	CHECK(next_post == START_NS + (uint64_t)THREADS * POSTS * BYTES);
	CHECK(counts.iteration == (uint64_t)THREADS * POSTS * BYTES);
	CHECK(count.bytes == (uint64_t)THREADS * POSTS * BYTES);
	CHECK(counts.iterations == 1);
}

static void interrupted(void)
{
	rate = 1000000000;
	iteration_bytes = 0;
	f_milli[HCC_RDMA_F_POINTS - 1] = 1000;
	pacing = HCC_RDMA_RATE;
	for (int index = 0; index < THREADS; index++) {
		signals = index;
		before_post(&pair, BYTES, 0);
	}
	CHECK(fake_ns == START_NS + (THREADS - 1) * BYTES);
	CHECK(counts.paced_ns == (THREADS - 1) * BYTES);
}

static void steady(void)
{
	fake_step_ns = 1000;
	begin(post_many, 0, THREADS);
	finish();
	CHECK(counts.iterations == 1);
	CHECK(counts.iteration == (uint64_t)THREADS * POSTS * BYTES);
}

/* All of them wait: one for the link, the others with it. */
static void wait_together(void)
{
	gates[0].sem = &sem;
	pair.gate = shim_turns = 1;
	begin(take_turn, 0, 1);
	while (!sem.waits)
		usleep(1000);
	begin(take_turn, 1, THREADS);
	for (uint64_t there = 0; there < (THREADS - 1) * BYTES; usleep(1000)) {
		pthread_mutex_lock(&gates[0].lock);
		there = gates[0].bytes;
		pthread_mutex_unlock(&gates[0].lock);
	}
}

static void turns(void)
{
	wait_together();
	join(0, 5); /* the plan changes: it neither waits nor changes what somebody uses */
	CHECK(sem.level == 0);
	shim_turn_posted(&pair, 1);
	shim_turn_completed(&pair, 1); /* nor does who polls */
	released = 1;
	finish();
	CHECK(sem.waits == 1 && !sem.left && sem.level == 5);
	shim_turn_posted(&pair, 1);
	shim_turn_completed(&pair, 1);
	CHECK(sem.left);
}

static void ends(void)
{
	pthread_t plan;

	wait_together();
	pthread_create(&plan, NULL, end_turns, NULL);
	pthread_join(plan, NULL);
	CHECK(sem.parted == 1 && !gates[0].sem);
	finish();
	CHECK(sem.waits == 1);
}

static void by_extended_interface(void)
{
	rate = 1000000000;
	for (uint32_t index = 0; index < HCC_RDMA_F_POINTS; index++)
		f_milli[index] = 1000;
	pacing = HCC_RDMA_RATE;
	shim_real.to_ex = to_extended;
	hook_ex(&pair);
	gates[0].sem = &sem;
	pair.gate = shim_turns = 1;
	begin(post_extended, 0, 1);
	while (!sem.waits)
		usleep(1000);
	CHECK(!pthread_mutex_trylock(&queue));
	pthread_mutex_unlock(&queue);
	begin(post_extended, 1, THREADS);
	while (gates[0].outstanding < THREADS)
		usleep(1000);
	released = 1;
	finish();
	CHECK(sem.waits == 1);
	CHECK(queued == THREADS * 2 * BYTES && pair.count->bytes == queued);
	CHECK(gates[0].outstanding == 2 * THREADS);
	CHECK(next_post >= START_NS + queued);
}

static void bursts(void)
{
	shim_bursts = 1;
	shim_real.to_ex = to_extended;
	hook_ex(&pair);
	gates[0].sem = &sem;
	pair.gate = shim_turns = 1;
	released = 1;
	before_post(&pair, BYTES, 1);
	CHECK(gates[0].outstanding == 1);
	shim_turn_completed(&pair, 1);
	extended.wr_start(&extended);
	CHECK(gates[0].outstanding == 1 && burst_waits == 2);
	extended.wr_abort(&extended);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	pthread_barrier_init(&barrier, NULL, THREADS);
	if (!strcmp(what, "pacer"))
		pacer();
	else if (!strcmp(what, "iterations"))
		begin(post_in_rounds, 0, THREADS), finish();
	else if (!strcmp(what, "steady"))
		steady();
	else if (!strcmp(what, "turns"))
		turns();
	else if (!strcmp(what, "ends"))
		ends();
	else if (!strcmp(what, "extended"))
		by_extended_interface();
	else if (!strcmp(what, "bursts"))
		bursts();
	else if (!strcmp(what, "signals"))
		interrupted();
	else
		return 2;
	puts("good");
	return 0;
}
