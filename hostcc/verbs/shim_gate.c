// SPDX-License-Identifier: Apache-2.0
/*
 * Posts and completions of the job's queue pairs: bytes per queue pair and iteration, the
 * rate scaled by F(bytes_ratio), and when it is a queue pair's turn (shim_turn.c).
 *
 * libibverbs calls its providers through tables of functions; the entries that post and poll
 * are replaced in the job's own copies, and only once an agent has a plan for it.
 */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_PAUSE_NS 10000000ull /* longest delay of a post by F */
#define MAX_TRANSFER_NS 1e12     /* longest time that bytes count for: rates may be garbage */
#define MANY_SGES 1024

/* The plan's values, read by every post. */
static _Atomic uint32_t pacing, silence_us = 1000, f_milli[HCC_RDMA_F_POINTS];
static _Atomic uint64_t rate, iteration_bytes;
static _Atomic uint64_t last_post, next_post;

void shim_gate_plan(const struct hcc_rdma_job *job)
{
	if (!job) {
		atomic_store(&pacing, 0);
		shim_turn_plan(NULL);
		return;
	}
	atomic_store(&silence_us, job->silence_us ? job->silence_us : 1000);
	atomic_store(&rate, job->rate);
	atomic_store(&iteration_bytes, job->iteration_bytes);
	for (uint32_t index = 0; index < HCC_RDMA_F_POINTS; index++)
		atomic_store(&f_milli[index], job->f_milli[index]);
	atomic_store(&pacing, job->flags & HCC_RDMA_RATE);
	shim_turn_plan(job);
}

static void pause_until(uint64_t when, uint64_t now)
{
	uint64_t ns = when - now < MAX_PAUSE_NS ? when - now : MAX_PAUSE_NS, end = now + ns;
	const struct timespec until = {.tv_sec = (time_t)(end / 1000000000ull),
				       .tv_nsec = (long)(end % 1000000000ull)};

	/* Not the C library's: a post is no place at which a thread may be cancelled. */
	while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) &&
	       errno == EINTR)
		; /* by a signal, as a profiler sends many of */
	atomic_fetch_add_explicit(&shim_counts->paced_ns, ns, memory_order_relaxed);
}

/* F at the share of the iteration's bytes that was sent: linear between the plan's points. */
static uint64_t rate_now(uint64_t sent)
{
	uint64_t total = atomic_load(&iteration_bytes);
	uint64_t full = HCC_RDMA_F_POINTS - 1, place, milli;
	double ratio = total && sent < total ? (double)sent / (double)total : 1.0;
	double at = ratio * (double)full;

	place = (uint64_t)at < full ? (uint64_t)at : full - 1;
	milli = (uint64_t)((double)atomic_load(&f_milli[place]) * (1.0 - (at - (double)place)) +
			   (double)atomic_load(&f_milli[place + 1]) * (at - (double)place));
	if (milli < 10)
		milli = 10;
	if (milli > 100000)
		milli = 100000;
	return (uint64_t)((double)atomic_load(&rate) * (double)milli / 1000.0);
}

/* The later of two times of different threads stays; what was there before. */
static uint64_t later(_Atomic uint64_t *time, uint64_t to)
{
	uint64_t before = atomic_load(time);

	while (before < to && !atomic_compare_exchange_weak(time, &before, to))
		;
	return before;
}

/* Take away what was counted earlier; what others count meanwhile stays. */
static void take(_Atomic uint64_t *count, uint64_t bytes)
{
	uint64_t now = atomic_load(count);

	while (!atomic_compare_exchange_weak(count, &now, now > bytes ? now - bytes : 0))
		;
}

/* Reserve the time that bytes take at the plan's rate; returns its beginning, `now` the time. */
static uint64_t reserve(uint64_t bytes, uint64_t speed, uint64_t *now)
{
	uint64_t next = atomic_load(&next_post), start;
	double takes = (double)bytes * 1e9 / (double)speed;

	if (takes > MAX_TRANSFER_NS)
		takes = MAX_TRANSFER_NS;
	do {
		*now = shim_now_ns(); /* after `next`: an older time would give back what others took */
		start = next > *now ? next : *now;
		if (start > *now + MAX_PAUSE_NS)
			start = *now + MAX_PAUSE_NS;
	} while (!atomic_compare_exchange_weak(&next_post, &next, start + (uint64_t)takes));
	return start;
}

/* Count bytes that are about to be posted; returns what this iteration had before, `at` the time. */
static uint64_t count_posted(struct shim_qp *one, uint64_t bytes, uint64_t *at)
{
	/* In this order: what is posted after another thread's look at the clock stays counted. */
	uint64_t all = atomic_load(&shim_counts->iteration);
	uint64_t own = atomic_load(&one->count->iteration);
	uint64_t now = shim_now_ns(), last = later(&last_post, now);

	if (now > last && now - last > atomic_load(&silence_us) * 1000ull) {
		take(&shim_counts->iteration, all);
		take(&one->count->iteration, own);
		atomic_fetch_add_explicit(&shim_counts->iterations, 1, memory_order_relaxed);
	}
	*at = now;
	atomic_fetch_add_explicit(&one->count->bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&one->count->iteration, bytes, memory_order_relaxed);
	return atomic_fetch_add(&shim_counts->iteration, bytes);
}

/* Before bytes are posted: count them, hold them back as the plan says; returns the time then. */
static uint64_t before_post(struct shim_qp *one, uint64_t bytes, int64_t signalled)
{
	uint64_t now, sent = count_posted(one, bytes, &now), speed, start;
	int paced = atomic_load_explicit(&pacing, memory_order_relaxed) != 0;

	if (bytes && shim_burst_wait(now))
		later(&last_post, now = shim_now_ns());
	/* Not before: who waits has no link.  Nor later: its turn is not to end before the post. */
	shim_turn_posted(one, signalled);
	if (shim_turn_wait(one, bytes))
		later(&last_post, now = shim_now_ns());
	if (!paced)
		return now;
	speed = rate_now(sent);
	if (speed && (start = reserve(bytes, speed, &now)) > now)
		pause_until(start, now);
	later(&last_post, now = shim_now_ns());
	return now;
}

/* Requests that were counted, and that the device refused: maybe the job tries again for long. */
static void refused(struct shim_qp *one, uint64_t bytes, int64_t signalled)
{
	int saved = errno;
	_Atomic uint64_t *iterations[] = {&shim_counts->iteration, &one->count->iteration};

	atomic_fetch_sub_explicit(&one->count->bytes, bytes, memory_order_relaxed);
	for (int index = 0; index < 2; index++) { /* another iteration may have begun since */
		uint64_t now = atomic_load(iterations[index]);

		while (now >= bytes &&
		       !atomic_compare_exchange_weak(iterations[index], &now, now - bytes))
			;
	}
	shim_bins_refused(one, bytes, signalled);
	shim_burst_refused(one, bytes, signalled);
	if (signalled)
		shim_turn_completed(one, signalled);
	errno = saved;
}

/* Bytes that a request sends; what it reads comes the other way. */
static uint64_t bytes_of(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		for (int index = 0; wr->sg_list && index < wr->num_sge; index++)
			bytes += wr->sg_list[index].length;
		return bytes;
	default: /* of some the pieces are not even valid */
		return 0;
	}
}

/* Remember the longest message; the first long one makes its queue pair one of the plan's. */
static void remember(struct shim_qp *one, uint64_t longest)
{
	uint32_t length = longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
	uint32_t before = atomic_load_explicit(&one->count->longest, memory_order_relaxed);
	uint64_t least;

	while (before < length &&
	       !atomic_compare_exchange_weak(&one->count->longest, &before, length))
		;
	if (before >= length)
		return;
	least = shim_long_bytes();
	if (before < least && length >= least)
		shim_look_again();
}

/* Add up the bytes of a list of requests; returns the completions that it will have. */
static int64_t add_up(const struct shim_qp *one, const struct ibv_send_wr *wr, uint64_t *bytes,
		      uint64_t *longest)
{
	int64_t signalled = 0;

	for (*bytes = *longest = 0; wr; wr = wr->next) {
		uint64_t length = bytes_of(wr);

		*bytes += length;
		*longest = *longest > length ? *longest : length;
		signalled += one->all_signalled || wr->send_flags & IBV_SEND_SIGNALED;
	}
	return signalled;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	const struct shim_device *device = shim_device_find(qp->context);
	struct shim_qp *one = shim_find(qp);
	int error, saved = errno;
	int64_t signalled;
	uint64_t bytes, longest, now;

	if (!device)
		return ENOSYS; /* cannot be: we are only called for devices that we know */
	if (!one)
		return device->post(qp, list, bad);
	signalled = add_up(one, list, &bytes, &longest);
	remember(one, longest);
	now = before_post(one, bytes, signalled);
	shim_bins_posted(one, bytes, signalled, now);
	shim_burst_posted(one, bytes, signalled, now);
	errno = saved;
	error = device->post(qp, list, bad);
	if (error) {
		signalled = add_up(one, bad ? *bad : list, &bytes, &longest);
		refused(one, bytes, signalled);
	}
	return error;
}

/* So many sends of a queue pair have come to an end. */
static void completed(struct shim_qp *one, int64_t count, uint64_t now)
{
	shim_turn_completed(one, count);
	shim_bins_completed(one, count, now);
	shim_burst_completed(one, count, now);
}

/* What is flushed says only that something failed before, or that the job ends. */
static void failed(const struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct shim_qp *one = shim_find_number(cq->context, wc->qp_num);

	if (!one)
		return;
	shim_turn_gone(one);
	shim_burst_failed(one);
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		atomic_fetch_add_explicit(&one->count->errors, 1, memory_order_relaxed);
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	const struct shim_device *device = shim_device_find(cq->context);
	struct shim_qp *one = NULL;
	int64_t count = 0;
	uint64_t now = 0;
	int got, saved;

	if (!device)
		return -1;
	got = device->poll(cq, most, wc);
	saved = errno;
	for (int index = 0; index < got; index++) {
		/* The opcode of a failed one is not valid; nor does any other complete then. */
		if (wc[index].status != IBV_WC_SUCCESS)
			failed(cq, &wc[index]);
		if (wc[index].status != IBV_WC_SUCCESS || wc[index].opcode & IBV_WC_RECV)
			continue;
		if (!one || one->number != wc[index].qp_num) {
			if (one)
				completed(one, count, now);
			one = shim_find_number(cq->context, wc[index].qp_num);
			now = now ? now : shim_now_ns();
			count = 0;
		}
		count++;
	}
	if (one)
		completed(one, count, now);
	errno = saved;
	return got;
}

/*
 * The extended interface: the provider holds the queue's lock from start to complete.  So all
 * waiting comes before start, when the bytes are not known yet; they use up the rate afterwards.
 */
static void ex_start(struct ibv_qp_ex *ex)
{
	struct shim_qp *one = shim_find(&ex->qp_base);
	int saved = errno, waited;

	waited = atomic_load_explicit(&shim_bursts, memory_order_relaxed) &&
		 shim_burst_wait(shim_now_ns());
	shim_turn_posted(one, 1); /* so that its turn does not end before the post */
	waited |= shim_turn_wait(one, 0);
	if (atomic_load_explicit(&pacing, memory_order_relaxed)) {
		uint64_t start = atomic_load(&next_post), now = shim_now_ns();

		if (start > now)
			pause_until(start, now);
		waited = 1;
	}
	if (waited)
		later(&last_post, shim_now_ns());
	errno = saved;
	one->ex_start(ex);
	one->ex_bytes = one->ex_longest = 0; /* ours alone until it is complete */
	one->ex_signalled = 0;
	one->ex_started = 1;
}

/* One request more. */
static struct shim_qp *ex_add(struct ibv_qp_ex *ex, uint64_t bytes)
{
	struct shim_qp *one = shim_find(&ex->qp_base);

	one->ex_bytes += bytes;
	one->ex_longest = one->ex_longest > bytes ? one->ex_longest : bytes;
	one->ex_signalled += one->all_signalled || ex->wr_flags & IBV_SEND_SIGNALED;
	return one;
}

static void ex_sge(struct ibv_qp_ex *ex, uint32_t key, uint64_t address, uint32_t length)
{
	ex_add(ex, length)->ex_sge(ex, key, address, length);
}

static void ex_sge_list(struct ibv_qp_ex *ex, size_t number, const struct ibv_sge *list)
{
	uint64_t bytes = 0;

	for (size_t index = 0; index < number; index++)
		bytes += list[index].length;
	ex_add(ex, bytes)->ex_sge_list(ex, number, list);
}

static void ex_inline(struct ibv_qp_ex *ex, void *address, size_t length)
{
	ex_add(ex, length)->ex_inline(ex, address, length);
}

static void ex_inline_list(struct ibv_qp_ex *ex, size_t number, const struct ibv_data_buf *list)
{
	uint64_t bytes = 0;

	for (size_t index = 0; index < number; index++)
		bytes += list[index].length;
	ex_add(ex, bytes)->ex_inline_list(ex, number, list);
}

static int ex_complete(struct ibv_qp_ex *ex)
{
	struct shim_qp *one = shim_find(&ex->qp_base);
	uint64_t now, bytes = one->ex_bytes, sent = count_posted(one, bytes, &now), speed;
	int64_t signalled = one->ex_signalled;
	int saved = errno, error;

	remember(one, one->ex_longest);
	shim_turn_used(one, bytes);
	shim_turn_posted(one, signalled - one->ex_started);
	one->ex_started = 0;
	speed = atomic_load_explicit(&pacing, memory_order_relaxed) ? rate_now(sent) : 0;
	if (speed)
		reserve(bytes, speed, &now);
	shim_bins_posted(one, bytes, signalled, now);
	shim_burst_posted(one, bytes, signalled, now);
	errno = saved;
	error = one->ex_complete(ex);
	if (error)
		refused(one, bytes, signalled);
	return error;
}

static void ex_abort(struct ibv_qp_ex *ex)
{
	struct shim_qp *one = shim_find(&ex->qp_base);
	int saved = errno;

	if (one->ex_started)
		shim_turn_completed(one, 1);
	one->ex_started = 0;
	errno = saved;
	one->ex_abort(ex);
}

static void hook_ex(struct shim_qp *one)
{
	struct ibv_qp_ex *ex = shim_real.to_ex ? shim_real.to_ex(one->qp) : NULL;

	/* A queue pair without the extended interface has these empty. */
	if (!ex || !ex->wr_start || !ex->wr_complete || !ex->wr_abort || !ex->wr_set_sge ||
	    !ex->wr_set_sge_list)
		return;
	one->ex_start = ex->wr_start;
	one->ex_complete = ex->wr_complete;
	one->ex_abort = ex->wr_abort;
	one->ex_sge = ex->wr_set_sge;
	one->ex_sge_list = ex->wr_set_sge_list;
	one->ex_inline = ex->wr_set_inline_data;
	one->ex_inline_list = ex->wr_set_inline_data_list;
	one->ex = ex;
	/* The job may be posting, even between start and complete. */
	__atomic_store_n(&ex->wr_start, ex_start, __ATOMIC_RELEASE);
	__atomic_store_n(&ex->wr_complete, ex_complete, __ATOMIC_RELEASE);
	__atomic_store_n(&ex->wr_abort, ex_abort, __ATOMIC_RELEASE);
	__atomic_store_n(&ex->wr_set_sge, ex_sge, __ATOMIC_RELEASE);
	__atomic_store_n(&ex->wr_set_sge_list, ex_sge_list, __ATOMIC_RELEASE);
	if (ex->wr_set_inline_data)
		__atomic_store_n(&ex->wr_set_inline_data, ex_inline, __ATOMIC_RELEASE);
	if (ex->wr_set_inline_data_list)
		__atomic_store_n(&ex->wr_set_inline_data_list, ex_inline_list, __ATOMIC_RELEASE);
}

int shim_gate_hook(struct shim_qp *one)
{
	/* Who cannot see its completions does not take turns, nor is it counted. */
	if (shim_device_hook(one->qp->context, post_send, poll_cq))
		return -1;
	shim_turn_assign(one);
	if (!one->ex)
		hook_ex(one);
	return 0;
}

void shim_gate_unhook(struct shim_qp *one)
{
	struct ibv_qp_ex *ex = one->ex;

	shim_turn_gone(one);
	if (!ex)
		return;
	one->ex = NULL;
	ex->wr_start = one->ex_start;
	ex->wr_complete = one->ex_complete;
	ex->wr_abort = one->ex_abort;
	ex->wr_set_sge = one->ex_sge;
	ex->wr_set_sge_list = one->ex_sge_list;
	ex->wr_set_inline_data = one->ex_inline;
	ex->wr_set_inline_data_list = one->ex_inline_list;
}

void shim_gate_reset(struct shim_qp *one)
{
	shim_turn_gone(one);
	shim_burst_failed(one);
	shim_bins_close(one);
	if (one->hooked > 0) /* what shows where its posts go is made anew */
		one->hooked = 0;
}

void shim_nudge(struct ibv_qp *qp)
{
	static struct ibv_sge sges[MANY_SGES];
	struct ibv_send_wr wr = {
		.sg_list = sges, .num_sge = MANY_SGES, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_send_wr *bad;
	const struct shim_device *device = shim_device_find(qp->context);

	/* More pieces than any queue takes: refused, but the software device looks at its queue. */
	(device ? device->post : qp->context->ops.post_send)(qp, &wr, &bad);
}
