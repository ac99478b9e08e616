/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * When an iteration begins, how far it has come, and whether yielding pays:
 * plain integer functions without kernel or BPF calls.  They run in the BPF
 * programs, and the tests compile the same file into a shared library.
 */
#ifndef HOSTCC_ITERATION_H
#define HOSTCC_ITERATION_H

#include "intf.h"

/* Longer than this, and the first iteration is a stream. */
#define HCC_FIRST_MAX_NS 10000000000ULL

#define HCC_INLINE static inline __attribute__((always_inline))

enum hcc_iteration {
	HCC_MIN_ITERATION_BYTES = 65536, /* less than this is not worth shaping */
	HCC_MIN_SILENCE_US = 2000,
	HCC_SILENCE_RTTS = 4,
	HCC_TRUST_MAX = 8,
	HCC_LOST_END = 4,		/* iterations' worth of bytes without an end */
	HCC_FIRST_PATIENCE_NS = 200000000,
	HCC_DEAF_NS = 100000000,
	HCC_SETTLING = 3,		/* iterations in which everybody still sorts out */
	HCC_FIRST_COMM_NS = 50000000,	/* supposed until the first iteration is over */
	HCC_LEAST_PAUSE = 8,		/* a pause is at least this part of the communication */
	HCC_BACKOFF_FIRST = 4,
	HCC_BACKOFF_MAX = 64,
	HCC_FAST_COMM_SHIFT = 6,	/* best_comm_ns and ns_per_mib grow by 1/64 an iteration */
	HCC_RATE_WINDOW_NS = 4000000,
	HCC_SLOWEST_NS_PER_MIB = 1 << 29, /* about 16 Mbit/s; without new windows it stops there */
	HCC_URGENCY_PER_OCTAVE = 102,	/* Q10: 10 octaves, 1 ms to 1 s */
	HCC_RATIO_MIX_Q10 = 320,	/* part of bytes_ratio in urgency: breaks ties fast */
	HCC_RATIO_MIX_UNSETTLED_Q10 = 64, /* the same once that has not helped */
	HCC_LONG_PATH_US = 1000,	/* base RTT from which slow starts hurt */
	HCC_MIN_ROUNDS = 24,		/* base RTTs in a communication phase that steering needs */
	HCC_LOT_Q10 = 160,		/* what the lot is worth at most to a job that has sent nothing */
	HCC_TIE_DIVISOR = 32,		/* a tie-break without lots: a third of an octave at most */
	HCC_LOT_UNTIL_Q10 = 256,	/* bytes_ratio from which it is worth nothing */
	HCC_PARK_MIN_US = 3000,		/* a parked flow's first pause; doubles while the job yields */
	HCC_PARK_MAX_US = 40000,
	HCC_FEW_FLOWS = 16,		/* of a job; more of them pause longer */
	HCC_UNSETTLED = 12,
	HCC_UNSETTLED_MAX = 24,
};

HCC_INLINE __u64 hcc_min_silence_ns(__u32 srtt_us)
{
	__u32 us = srtt_us * HCC_SILENCE_RTTS;

	return (us > HCC_MIN_SILENCE_US ? us : HCC_MIN_SILENCE_US) * 1000ULL;
}

/*
 * Silence that ends an iteration.  Learned: half of the usual longest gap, so
 * that the pauses between the bursts of one iteration do not count.
 */
HCC_INLINE __u64 hcc_silence_ns(const struct hcc_job_state *s,
				const struct hcc_job_conf *c, __u32 srtt_us)
{
	__u64 floor_ns = hcc_min_silence_ns(srtt_us);

	if (c->silence_us)
		return c->silence_us * 1000ULL;
	return s->gap_ref_ns / 2 > floor_ns ? s->gap_ref_ns / 2 : floor_ns;
}

/*
 * A gap of silence was seen: move the reference, the usual longest gap.
 *
 * A much longer gap counts when it has been seen twice: once is a checkpoint.  Gaps
 * that end iterations let the reference shrink by a tenth, pauses between bursts by
 * little; when far more than an iteration's bytes went by without an end, it halves.
 */
HCC_INLINE void hcc_learn_gap(struct hcc_job_state *s, __u64 gap_ns)
{
	__u64 ref = s->gap_ref_ns;

	if (s->trust && s->iteration_bytes > HCC_LOST_END * s->total_bytes)
		ref /= 2;
	if (ref && gap_ns > 2 * ref) {
		if (s->gap_seen_ns && gap_ns >= s->gap_seen_ns / 2) {
			ref = gap_ns;
			s->gap_seen_ns = 0;
			/* what we took for an iteration was a part */
			s->total_bytes = 0;
			s->trust = 0;
		} else {
			s->gap_seen_ns = gap_ns;
		}
	} else {
		ref -= gap_ns < ref / 2 ? ref / 64 : ref / 10;
		if (gap_ns > ref)
			ref = gap_ns;
		s->gap_seen_ns -= s->gap_seen_ns / 16;
	}
	s->gap_ref_ns = ref;
}

/* Compute time as far as known: the usual gap between iterations. */
HCC_INLINE __u64 hcc_patience_ns(const struct hcc_job_state *s)
{
	__u64 ns = s->gap_ref_ns > s->best_comm_ns ? s->gap_ref_ns : s->best_comm_ns;

	if (!ns)
		return HCC_FIRST_PATIENCE_NS;
	return 2 * ns;
}

/*
 * Queueing delay that a job of this urgency tolerates, us.  Long paths are noisy:
 * the targets start above a sixth of the base RTT.
 */
HCC_INLINE __u32 hcc_target_us(const struct hcc_job_conf *c, __u32 base_us, __u32 q_loss_us,
			       __u32 urgency_q10)
{
	__u32 lo = c->target_min_us, hi = c->target_max_us;

	if (lo < base_us / 6) {
		hi += base_us / 6 - lo;
		lo = base_us / 6;
	}
	/* A shallow buffer overflows before the configured targets: stay below it. */
	if (q_loss_us && hi > q_loss_us * 3 / 4) {
		hi = q_loss_us * 3 / 4;
		if (lo > hi / 2)
			lo = hi / 2;
	}
	if (lo > hi)
		lo = hi;
	return lo + (hi - lo) * urgency_q10 / HCC_ONE;
}

/*
 * This job holds back, and the queue is deeper than any job that steers by delay would
 * let it become: whoever fills it does not yield.  Waited long enough?
 */
HCC_INLINE int hcc_neighbour_is_deaf(struct hcc_job_state *s, const struct hcc_job_conf *c,
				     __u32 base_us, __u32 q_us, __u64 elapsed_ns)
{
	__u32 most = hcc_target_us(c, base_us, s->q_loss_us, HCC_ONE);

	if (q_us < most + most / 4) {
		s->deaf_ns = 0;
		return 0;
	}
	s->deaf_ns += elapsed_ns;
	return s->deaf_ns > HCC_DEAF_NS;
}

/*
 * The highest rate at which this job was served lately, from windows of a few
 * milliseconds.  After a stall acknowledgements come in a lump: the slower of two
 * windows in a row counts.
 */
HCC_INLINE void hcc_learn_rate(struct hcc_job_state *s, __u64 now_ns)
{
	__u64 elapsed = now_ns - s->rate_mark_ns, bytes = s->bytes_acked - s->rate_mark_bytes;
	__u32 cost, slower;

	if (elapsed < HCC_RATE_WINDOW_NS)
		return;
	s->rate_mark_ns = now_ns;
	s->rate_mark_bytes = s->bytes_acked;
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
 * Time that an iteration's bytes need without competition.  A communication phase can
 * have been contended every time: a job that came off badly must not pass for a long one.
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
 * A job that sends nearly all the time leaves no gap for others to move into, and finds
 * none: yielding would only make it slow.
 */
HCC_INLINE int hcc_hardly_pauses(const struct hcc_job_state *s)
{
	return s->gap_ref_ns && s->gap_ref_ns < s->best_comm_ns / HCC_LEAST_PAUSE;
}

/*
 * More was sent than an iteration has: the end was missed, or the job is not what it was.
 * This is not the end of an iteration, and must not be urgent for ever.
 */
HCC_INLINE int hcc_overrun(const struct hcc_job_state *s)
{
	return s->total_bytes && s->iteration_bytes > s->total_bytes + s->total_bytes / 4;
}

/* An iteration is over: learn its size, and decide how the next one is sent. */
HCC_INLINE void hcc_iteration_end(struct hcc_job_state *s,
				  const struct hcc_job_conf *c, __u64 now_ns)
{
	__u64 bytes = s->iteration_bytes;
	__u64 comm_ns = s->last_active_ns - s->iteration_start_ns;
	__u64 diff = bytes > s->total_bytes ? bytes - s->total_bytes : s->total_bytes - bytes;
	int same = s->total_bytes && diff <= s->total_bytes / 8;
	int escaped = s->yield_ns > hcc_patience_ns(s);

	s->period_ns = now_ns - s->iteration_start_ns;
	s->comm_ns = comm_ns;
	s->iterations++;
	s->epoch++;
	if (same) {
		if (s->trust < HCC_TRUST_MAX)
			s->trust++;
	} else if (s->iterations > 1) {
		s->trust = s->trust > 4 ? s->trust - 4 : 0;
	}
	if (c->total_bytes)
		s->total_bytes = c->total_bytes;
	else
		s->total_bytes = bytes;

	if (same && s->best_comm_ns && comm_ns > s->best_comm_ns + s->best_comm_ns / 8)
		s->unsettled += s->unsettled < HCC_UNSETTLED_MAX ? 2 : 0;
	else if (s->unsettled)
		s->unsettled--;
	if (!same || !s->best_comm_ns || comm_ns < s->best_comm_ns)
		s->best_comm_ns = comm_ns;
	else
		s->best_comm_ns += s->best_comm_ns >> HCC_FAST_COMM_SHIFT;
	if (s->ns_per_mib < HCC_SLOWEST_NS_PER_MIB)
		s->ns_per_mib += s->ns_per_mib >> HCC_FAST_COMM_SHIFT;

	if (hcc_hardly_pauses(s)) {
		s->stance = HCC_STANCE_LEARN;
	} else if (s->stance == HCC_STANCE_LEARN) {
		/* The first whole iteration is believed; a liar has to prove itself. */
		if (s->trust >= 2 || s->iterations <= 2)
			s->stance = HCC_STANCE_SCALED;
	} else if (!s->trust && s->iterations > 3) {
		s->stance = HCC_STANCE_LEARN;
	} else if (s->stance == HCC_STANCE_SCALED) {
		if (escaped) {
			if (s->iterations < HCC_SETTLING)
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
	s->q_loss_us += s->q_loss_us / 32;	/* buffers may grow, too */
	s->yield_ns = 0;
	s->yield_since_ns = 0;
	s->deaf_ns = 0;
	s->iteration_bytes = 0;
	s->iteration_start_ns = now_ns;
}

/* bytes_ratio in Q10; an unknown total counts as an iteration just begun. */
HCC_INLINE __u32 hcc_ratio_q10(__u64 bytes, __u64 total)
{
	if (!total)
		return 0;
	if (bytes >= total)
		return HCC_ONE;
	return bytes * HCC_ONE / total;
}

/* F(bytes_ratio) in Q10, linear between the samples. */
HCC_INLINE __u32 hcc_f_q10(const struct hcc_job_conf *c, __u32 ratio_q10)
{
	__u32 x = (ratio_q10 > HCC_ONE ? HCC_ONE : ratio_q10) * (HCC_F_POINTS - 1);
	__u32 i = x / HCC_ONE, frac = x % HCC_ONE;
	__u32 lo, hi;

	/* Compare the index itself: what newer compilers compare instead, the verifier cannot follow. */
	asm volatile("" : "+r"(i));
	if (i >= HCC_F_POINTS - 1)
		return c->f_q10[HCC_F_POINTS - 1];
	lo = c->f_q10[i];
	hi = c->f_q10[i + 1];
	return hi >= lo ? lo + (hi - lo) * frac / HCC_ONE : lo - (lo - hi) * frac / HCC_ONE;
}

/* log2(x) in Q10, x >= 1: exact at powers of two, linear between (error < 0.09). */
HCC_INLINE __u32 hcc_log2_q10(__u32 x)
{
	__u32 n = 0, y = x;

	if (y >> 16) { n += 16; y >>= 16; }
	if (y >> 8) { n += 8; y >>= 8; }
	if (y >> 4) { n += 4; y >>= 4; }
	if (y >> 2) { n += 2; y >>= 2; }
	if (y >> 1) { n += 1; }
	return n * HCC_ONE + (__u32)(((__u64)x << 10) >> n) - HCC_ONE;
}

/*
 * A lot drawn for each iteration, the same on all flows and hosts of a job, Q10.  Jobs
 * that begin together would share the link to the end: the lot puts one of them first,
 * and fades as soon as progress tells them apart.
 */
HCC_INLINE __u32 hcc_lot_q10(const struct hcc_job_state *s, const struct hcc_job_conf *c,
			     __u32 ratio_q10)
{
	/* Mixed twice: after one multiplication two jobs' lots keep their distance for ever. */
	__u32 mixed = (c->tie_q10 + (__u32)s->iterations * 1024) * 2654435761u, lot;

	mixed ^= mixed >> 15;
	lot = (mixed * 2654435761u) >> 22;
	if (s->unsettled >= HCC_UNSETTLED)
		return c->tie_q10 / HCC_TIE_DIVISOR;	/* no order helps: the shortest first */
	if (ratio_q10 >= HCC_LOT_UNTIL_Q10)
		return 0;
	return lot * HCC_LOT_Q10 / HCC_ONE * (HCC_LOT_UNTIL_Q10 - ratio_q10) / HCC_LOT_UNTIL_Q10;
}

/*
 * How soon this job would be done if it had the link to itself, as an urgency
 * in Q10: 1024 is "about to finish", one octave of remaining time is 102.
 * Remaining time, not bytes_ratio, orders jobs of different lengths: shortest
 * remaining first cannot lock the shorter job into the period of the longer one.
 */
HCC_INLINE __u32 hcc_urgency_q10(const struct hcc_job_state *s, const struct hcc_job_conf *c,
				 __u32 ratio_q10)
{
	__s32 mix = s->unsettled >= HCC_UNSETTLED ? HCC_RATIO_MIX_UNSETTLED_Q10 : HCC_RATIO_MIX_Q10;
	__s32 octaves_q10, urgency;
	__u64 left_us;

	if (!s->total_bytes) {
		/* The first iteration: nobody knows, so who has sent more goes on. */
		__u64 units = s->iteration_bytes >> 14;

		urgency = hcc_log2_q10((units > 1u << 30 ? 1u << 30 : (__u32)units) + 1) / 26 +
			  c->tie_q10 / 2 + c->urgency_bias_q10;
		if (urgency < 0)
			return 0;
		return urgency > HCC_ONE ? HCC_ONE : urgency;
	}
	left_us = (HCC_ONE - ratio_q10) * (hcc_work_ns(s) / 1000) / HCC_ONE;
	if (left_us > 1u << 24)
		left_us = 1u << 24;
	octaves_q10 = hcc_log2_q10((__u32)left_us + 1024) - 10 * HCC_ONE;
	urgency = HCC_ONE - ((octaves_q10 * HCC_URGENCY_PER_OCTAVE) >> 10) + c->urgency_bias_q10 +
		  (__s32)hcc_lot_q10(s, c, ratio_q10);
	if (urgency < 0)
		urgency = 0;
	urgency = ((HCC_ONE - mix) * urgency + mix * (__s32)ratio_q10) >> 10;
	return urgency > HCC_ONE ? HCC_ONE : urgency;
}

/* Packets (Q10) that the highest rate seen lately delivers in so much time; 0 unknown. */
HCC_INLINE __u64 hcc_fill_q10(const struct hcc_job_state *s, __u32 us, __u32 mss)
{
	if (!s->ns_per_mib || !mss || us > 1u << 20)
		return 0;
	return ((__u64)us * 1000 << 20) / s->ns_per_mib * HCC_ONE / mss;
}

/*
 * A pause where a job has this many flows, us.  Parked flows come back one after the
 * other, and together must not fill the link: the more flows, the less each is given
 * at a time, and the more of them are parked.  Hence the square.
 */
HCC_INLINE __u32 hcc_pause_of_many_us(__u32 pause_us, __u32 flows)
{
	__u64 many = flows < 1024 ? flows : 1024;
	__u64 us = pause_us * many * many / (HCC_FEW_FLOWS * HCC_FEW_FLOWS);

	if (flows <= HCC_FEW_FLOWS)
		return pause_us;
	return us < HCC_PARK_MAX_US ? (__u32)us : HCC_PARK_MAX_US;
}

/*
 * The longest pause of a parked flow, us.  A job with little left may come back often:
 * the little is all that it can put in the way of others, and it is about to be served.
 */
HCC_INLINE __u32 hcc_pause_us(const struct hcc_job_state *s, __u32 ratio_q10)
{
	__u64 left_us = (HCC_ONE - ratio_q10) * (hcc_work_ns(s) / 1000) / HCC_ONE / 2;

	if (!s->total_bytes || left_us > HCC_PARK_MAX_US)
		return HCC_PARK_MAX_US;
	return left_us > HCC_PARK_MIN_US ? (__u32)left_us : HCC_PARK_MIN_US;
}

/*
 * The same while the job has the link, us: its parked flows together get a quarter of
 * the window, so that the link does not stand idle when the other flows run dry.
 */
HCC_INLINE __u32 hcc_turn_us(__u32 flows, __u32 rtt_us, __u32 window_q10)
{
	__u64 us = 4ULL * 2 * HCC_ONE * flows * rtt_us / (window_q10 + 1);

	return us < HCC_PARK_MAX_US ? (__u32)us : HCC_PARK_MAX_US;
}

/* Are there round trips enough in a communication phase to steer by delay? */
HCC_INLINE int hcc_path_too_long(const struct hcc_job_state *s, __u32 base_us)
{
	__u64 comm_ns = s->best_comm_ns ? s->best_comm_ns : HCC_FIRST_COMM_NS;

	return (__u64)base_us * HCC_MIN_ROUNDS * 1000 > comm_ns;
}

/*
 * Packets (Q10) to begin an iteration with: a third of the bandwidth-delay
 * product where that matters, next to nothing where the RTT is short.
 */
HCC_INLINE __u64 hcc_start_window_q10(const struct hcc_job_state *s, __u32 base_us, __u32 mss)
{
	__u64 bdp;

	if (!s->best_comm_ns || !mss)
		return 0;
	bdp = s->total_bytes / mss * HCC_ONE * base_us / (hcc_work_ns(s) / 1000 + 1);
	return bdp / 3 * base_us / (base_us + HCC_LONG_PATH_US);
}

#endif
