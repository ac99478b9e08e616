/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Iteration boundaries, what is learned at the end of each, and whether yielding pays.
 * Plain integer functions without kernel or BPF calls: they run in the BPF programs, and
 * the tests compile the same file into a shared library.
 */
#ifndef HOSTCC_ITERATION_H
#define HOSTCC_ITERATION_H

#include "intf.h"

#define HCC_INLINE static inline __attribute__((always_inline))

enum hcc_iteration {
	HCC_MIN_ITERATION_BYTES = 65536, /* less than this is not worth shaping */
	HCC_MIN_SILENCE_US = 2000,
	HCC_SILENCE_RTTS = 4,
	HCC_TRUST_MAX = 8,
	HCC_TRUST_LOSS = 4,		/* what an iteration unlike the ones before takes from it */
	HCC_MISSED_END_ITERATIONS = 4,	/* this many iterations' bytes without an end: one was missed */
	HCC_EARLY_ITERATIONS = 3,	/* among these, two alike in a row suffice to trust them */
	HCC_START_ITERATIONS = 5,	/* giving up in these is forgiven: jobs still find their order */
	HCC_MIN_PAUSE_DIVISOR = 8,	/* pauses below 1/8 of the communication time do not count */
	HCC_BURSTS_Q10 = 448,		/* bursts_q10 from which a job sends in bursts: two in a row */
	HCC_BACKOFF_FIRST = 4,
	HCC_BACKOFF_MAX = 64,
	HCC_FORGET_SHIFT = 6,		/* best_comm_ns and ns_per_mib grow by 1/64 an iteration */
	HCC_RATE_WINDOW_NS = 4000000,
	HCC_MAX_NS_PER_MIB = 1 << 29,	/* ns_per_mib grows no further; about 16 Mbit/s */
	HCC_UNSETTLED_MAX = 24,
	HCC_FORGOTTEN_TARGETS = 64,	/* a buffer as deep as so many highest targets is unknown */
	/* Received over sent bytes, Q10: a job becomes two-way from the first value on, and
	   one-way below the second.  Acknowledgements alone are 0.02 to 0.06. */
	HCC_TWO_WAY_Q10 = 307,
	HCC_ONE_WAY_Q10 = 154,
};

/* Time from `then_ns` to `now_ns`; 0 if another CPU's reading `then_ns` is a little ahead. */
HCC_INLINE __u64 hcc_elapsed_ns(__u64 now_ns, __u64 then_ns)
{
	__s64 elapsed = now_ns - then_ns;

	return elapsed > 0 ? elapsed : 0;
}

HCC_INLINE __u64 hcc_min_silence_ns(__u32 srtt_us)
{
	__u32 us = srtt_us * HCC_SILENCE_RTTS;

	return (us > HCC_MIN_SILENCE_US ? us : HCC_MIN_SILENCE_US) * 1000ULL;
}

/*
 * Silence that ends an iteration.  If learned: half of the usual longest gap, so that
 * pauses between the bursts of one iteration do not count.
 */
HCC_INLINE __u64 hcc_silence_ns(const struct hcc_job_state *s,
				const struct hcc_job_conf *c, __u32 srtt_us)
{
	__u64 floor_ns = hcc_min_silence_ns(srtt_us);

	if (c->silence_us)
		return c->silence_us * 1000ULL;
	return s->usual_gap_ns / 2 > floor_ns ? s->usual_gap_ns / 2 : floor_ns;
}

/*
 * Update the usual longest gap after a gap of silence.
 *
 * A much longer gap counts once it has been seen twice, after as many bytes each time: others
 * are checkpoints, or time-outs after losses.  Shorter gaps that end iterations reduce it by a
 * tenth, pauses between bursts by 1/64.
 * It is halved when far more than an iteration's bytes were sent without an end; the first
 * silence of all may be that of a job's start.
 */
HCC_INLINE void hcc_learn_gap(struct hcc_job_state *s, __u64 gap_ns)
{
	__u64 ref = s->usual_gap_ns, long_ns = s->long_gap_ns;
	__u64 apart = s->bytes_acked - s->long_mark_bytes, before = s->long_apart_bytes;
	__u64 diff = apart > before ? apart - before : before - apart;

	if (s->total_bytes && s->iteration_bytes > HCC_MISSED_END_ITERATIONS * s->total_bytes)
		ref /= 2;
	if (ref && gap_ns > 2 * ref) {
		if (gap_ns >= long_ns / 2 && gap_ns <= 2 * long_ns && diff <= before / 8) {
			ref = gap_ns;
			s->long_gap_ns = 0;
			/* what was taken for an iteration was only a part of one */
			s->iteration_bytes = apart;
			s->total_bytes = 0;
			s->trust = 0;
		} else {
			s->long_gap_ns = gap_ns;
		}
		s->long_apart_bytes = apart;
		s->long_mark_bytes = s->bytes_acked;
	} else {
		ref -= gap_ns < ref / 2 ? ref / 64 : ref / 10;
		if (gap_ns > ref)
			ref = gap_ns;
		s->long_gap_ns -= s->long_gap_ns / 32;	/* forgotten after some twenty others */
	}
	s->usual_gap_ns = ref;
}

/*
 * Time for which a job yields in an iteration before it gives up: twice its usual gap or its
 * communication time, whichever is longer.
 */
HCC_INLINE __u64 hcc_patience_ns(const struct hcc_job_state *s)
{
	return 2 * (s->usual_gap_ns > s->best_comm_ns ? s->usual_gap_ns : s->best_comm_ns);
}

/*
 * Measure the highest recent rate of this job, in windows of a few milliseconds.  After a
 * stall acknowledgements arrive in bulk, so the slower of two consecutive windows counts.
 * Called on all CPUs at once; one of them closes a window.
 */
HCC_INLINE void hcc_learn_rate(struct hcc_job_state *s, __u64 now_ns)
{
	__u64 mark_ns = s->rate_mark_ns, elapsed = hcc_elapsed_ns(now_ns, mark_ns), bytes, acked;
	__u32 cost, slower;

	if (elapsed < HCC_RATE_WINDOW_NS ||
	    __sync_val_compare_and_swap(&s->rate_mark_ns, mark_ns, now_ns) != mark_ns)
		return;
	acked = s->bytes_acked;
	bytes = acked - s->rate_mark_bytes;
	s->rate_mark_bytes = acked;
	if (elapsed > 2 * HCC_RATE_WINDOW_NS || bytes < HCC_MIN_ITERATION_BYTES / 4) {
		s->last_ns_per_mib = 0;
		return;
	}
	cost = (elapsed << 20) / bytes;
	slower = cost > s->last_ns_per_mib ? cost : s->last_ns_per_mib;
	if (s->last_ns_per_mib && (!s->ns_per_mib || slower < s->ns_per_mib))
		s->ns_per_mib = slower;
	s->last_ns_per_mib = cost;
}

/*
 * Time that an iteration's bytes need without competition.  Every communication phase may
 * have been contended, so the rate counts too: a job that is slowed down is not a long job.
 */
HCC_INLINE __u64 hcc_work_ns(const struct hcc_job_state *s)
{
	__u64 ns;

	if (!s->ns_per_mib || s->total_bytes > 1ULL << 34)
		return s->best_comm_ns;
	ns = (s->total_bytes * s->ns_per_mib) >> 20;
	return s->best_comm_ns && s->best_comm_ns < ns ? s->best_comm_ns : ns;
}

/*
 * Whether a job sends nearly all the time.  It leaves no gap for others and finds none, so
 * yielding would only slow it down.
 */
HCC_INLINE int hcc_hardly_pauses(const struct hcc_job_state *s)
{
	return s->usual_gap_ns && s->usual_gap_ns < s->best_comm_ns / HCC_MIN_PAUSE_DIVISOR;
}

/*
 * 1 if the job paused within this iteration for more than an eighth of the time that its bytes
 * need at the highest rate, else 0; any pause counts while that is unknown.  Contention makes
 * communication longer, but not this.  Without a branch: they cost the verifier much here.
 */
HCC_INLINE __u32 hcc_long_pauses(const struct hcc_job_state *s)
{
	__u64 ns = (s->total_bytes >> 10) * s->ns_per_mib >> 10;

	return (ns / HCC_MIN_PAUSE_DIVISOR - s->pause_ns) >> 63;
}

/*
 * Whether a job sends its iterations' bytes in bursts.  Two such jobs fit only burst between
 * burst, and an order of whole iterations lets the link stand idle during the pauses of one.
 */
HCC_INLINE int hcc_in_bursts(const struct hcc_job_state *s)
{
	return s->bursts_q10 >= HCC_BURSTS_Q10;
}

/*
 * Whether more was sent than an iteration has: its end was missed, or the job has changed.
 * bytes_ratio would stay at one, and the job urgent for ever.
 */
HCC_INLINE int hcc_overrun(const struct hcc_job_state *s)
{
	return s->total_bytes && s->iteration_bytes > s->total_bytes + s->total_bytes / 4;
}

/*
 * Direction of this iteration's traffic.  All packets that arrived over links count, also
 * those of sockets that only receive.  A sender receives acknowledgements at least, so 0
 * means that nothing was counted.
 */
HCC_INLINE __u32 hcc_direction(const struct hcc_job_state *s)
{
	__u64 received = s->received_bytes - s->received_mark;
	__u32 limit = s->direction == HCC_DIRECTION_TWO_WAY ? HCC_ONE_WAY_Q10 : HCC_TWO_WAY_Q10;

	if (!received)
		return HCC_DIRECTION_UNKNOWN;
	return received * HCC_ONE >= s->iteration_bytes * limit ? HCC_DIRECTION_TWO_WAY
								 : HCC_DIRECTION_ONE_WAY;
}

/* Why every variant grows its window as the plain algorithm does; HCC_PLAIN_NOT: it does not. */
HCC_INLINE __u32 hcc_plain_growth(const struct hcc_job_state *s)
{
	if (s->stance == HCC_STANCE_LEARN)
		return hcc_hardly_pauses(s) ? HCC_PLAIN_NO_PAUSE : HCC_PLAIN_LEARNING;
	return hcc_overrun(s) ? HCC_PLAIN_OVERRUN : HCC_PLAIN_NOT;
}

/* Why the window follows loss instead of delay, as far as the job's state decides it. */
HCC_INLINE __u32 hcc_plain_window(const struct hcc_job_state *s)
{
	if (s->direction == HCC_DIRECTION_TWO_WAY)
		return HCC_PLAIN_TWO_WAY;
	if (hcc_in_bursts(s))
		return HCC_PLAIN_BURSTS;
	if (s->stance == HCC_STANCE_PLAIN || s->yield_ns > hcc_patience_ns(s))
		return s->escape ? s->escape : HCC_PLAIN_YIELDED;
	if (s->stance == HCC_STANCE_LEARN)
		return hcc_plain_growth(s);
	if (s->direction == HCC_DIRECTION_UNKNOWN)
		return HCC_PLAIN_UNMETERED;
	if (s->total_bytes < HCC_MIN_ITERATION_BYTES)
		return HCC_PLAIN_SMALL;
	return hcc_plain_growth(s);
}

/*
 * Whether so many bytes are those of two or more iterations of a job that is well known: ends
 * between them were missed.  One that has changed looks the same once, and is less known then.
 */
HCC_INLINE int hcc_missed_end(const struct hcc_job_state *s, __u64 bytes, __u64 total)
{
	__u64 count, rest;

	if (!total || s->trust <= HCC_TRUST_LOSS)
		return 0;
	count = (bytes + total / 8) / total;
	rest = bytes + total / 8 - count * total;
	return count >= 2 && count <= HCC_MISSED_END_ITERATIONS && rest <= total / 4;
}

/* End an iteration: learn its size, and decide how the next one is sent. */
HCC_INLINE void hcc_iteration_end(struct hcc_job_state *s,
				  const struct hcc_job_conf *c, __u64 now_ns)
{
	__u64 bytes = s->iteration_bytes, total = c->total_bytes ? c->total_bytes : s->total_bytes;
	__u64 comm_ns = hcc_elapsed_ns(s->last_active_ns, s->iteration_start_ns);
	__u64 diff = bytes > total ? bytes - total : total - bytes;
	int same = total && diff <= total / 8;
	int escaped = s->yield_ns > hcc_patience_ns(s);
	int missed = hcc_missed_end(s, bytes, total);

	s->direction = hcc_direction(s);
	s->received_mark = s->received_bytes;
	s->period_ns = hcc_elapsed_ns(now_ns, s->iteration_start_ns);
	s->comm_ns = comm_ns;
	s->iterations++;
	s->epoch++;
	if (same) {
		if (s->trust < HCC_TRUST_MAX)
			s->trust++;
	} else if (s->iterations > 1) {
		s->trust = s->trust > HCC_TRUST_LOSS ? s->trust - HCC_TRUST_LOSS : 0;
	}
	if (c->total_bytes)
		s->total_bytes = c->total_bytes;
	else if (!missed)
		s->total_bytes = bytes;

	if (same && s->best_comm_ns && comm_ns > s->best_comm_ns + s->best_comm_ns / 8)
		s->unsettled += s->unsettled < HCC_UNSETTLED_MAX ? 2 : 0;
	else if (s->unsettled)
		s->unsettled--;
	if ((!same && !missed) || !s->best_comm_ns || comm_ns < s->best_comm_ns)
		s->best_comm_ns = comm_ns;
	else
		s->best_comm_ns += s->best_comm_ns >> HCC_FORGET_SHIFT;
	if (s->ns_per_mib < HCC_MAX_NS_PER_MIB)
		s->ns_per_mib += s->ns_per_mib >> HCC_FORGET_SHIFT;
	s->bursts_q10 += hcc_long_pauses(s) * HCC_ONE / 4 - s->bursts_q10 / 4;
	s->pause_ns = 0;

	if (hcc_hardly_pauses(s)) {
		s->stance = HCC_STANCE_LEARN;
	} else if (s->stance == HCC_STANCE_LEARN) {
		/* Equal iterations confirm the boundaries: two early ones, or three later on. */
		if (s->trust >= 2 || (s->trust && s->iterations <= HCC_EARLY_ITERATIONS))
			s->stance = HCC_STANCE_SCALED;
	} else if (!s->trust) {
		s->stance = HCC_STANCE_LEARN;
	} else if (s->stance == HCC_STANCE_SCALED) {
		if (escaped) {
			if (s->iterations < HCC_START_ITERATIONS)
				s->backoff = 1;
			else
				s->backoff = s->backoff > 1 ? s->backoff * 2 : HCC_BACKOFF_FIRST;
			if (s->backoff > HCC_BACKOFF_MAX)
				s->backoff = HCC_BACKOFF_MAX;
			s->stance = HCC_STANCE_PLAIN;
			s->stance_until = (__u32)s->iterations + s->backoff;
		} else if (s->backoff && (__u32)s->iterations > s->stance_until + 2 * s->backoff) {
			s->backoff = 0;
		}
	} else if ((__u32)s->iterations >= s->stance_until) {
		s->stance = HCC_STANCE_SCALED;
	}
	if (s->stance != HCC_STANCE_PLAIN)
		s->escape = HCC_PLAIN_NOT;
	s->q_loss_us += s->q_loss_us / 32;	/* forget slowly: buffers may have grown */
	if (s->q_loss_us / HCC_FORGOTTEN_TARGETS > c->target_max_us)
		s->q_loss_us = 0;
	s->yield_ns = 0;
	s->yield_since_ns = 0;
	s->unresponsive_ns = 0;
	s->iteration_bytes = 0;
	s->iteration_start_ns = now_ns;
}

#endif
