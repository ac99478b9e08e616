/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Progress of an iteration, the job's urgency, and the queueing delay it tolerates for that.
 * Plain integer functions without kernel or BPF calls: they run in the BPF programs, and
 * the tests compile the same file into a shared library.
 */
#ifndef HOSTCC_URGENCY_H
#define HOSTCC_URGENCY_H

#include "iteration.h"

enum hcc_urgency {
	HCC_URGENCY_PER_OCTAVE = 102,	/* Q10: 10 octaves, 1 ms to 1 s */
	HCC_RATIO_MIX_Q10 = 320,	/* share of bytes_ratio in urgency: separates equal jobs fast */
	HCC_RATIO_MIX_UNSETTLED_Q10 = 64, /* the same for an unsettled job */
	HCC_TIE_BREAK_Q10 = 160,	/* largest random tie-break, for a job that has sent nothing */
	HCC_TIE_BREAK_UNTIL_Q10 = 256,	/* bytes_ratio at which it has faded to nothing */
	HCC_TIE_DIVISOR = 32,		/* fixed tie-break: a third of an octave at most */
	HCC_UNSETTLED = 12,		/* job_state.unsettled from which a job is unsettled */
	HCC_UNRESPONSIVE_NS = 100000000, /* time of yielding that shows an unresponsive competitor */
};

/* bytes_ratio in Q10; 0 while the total is unknown. */
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

	/* Hide the index from the optimiser: the verifier must see the comparison that bounds it. */
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
 * Pseudo-random tie-break for each iteration, Q10; equal on all flows and hosts of a job.
 * Jobs that begin together would share the link to the end.  The tie-break puts one of them
 * first, and fades as soon as their progress differs.
 */
HCC_INLINE __u32 hcc_tie_break_q10(const struct hcc_job_state *s, const struct hcc_job_conf *c,
				   __u32 ratio_q10)
{
	/* Mixed twice: after one multiplication two jobs' numbers keep their distance for ever. */
	__u32 mixed = (c->tie_q10 + (__u32)s->iterations * 1024) * 2654435761u, drawn;

	mixed ^= mixed >> 15;
	drawn = (mixed * 2654435761u) >> 22;
	if (s->unsettled >= HCC_UNSETTLED)
		return c->tie_q10 / HCC_TIE_DIVISOR;	/* random orders did not help: keep one */
	if (ratio_q10 >= HCC_TIE_BREAK_UNTIL_Q10)
		return 0;
	return drawn * HCC_TIE_BREAK_Q10 / HCC_ONE * (HCC_TIE_BREAK_UNTIL_Q10 - ratio_q10) /
	       HCC_TIE_BREAK_UNTIL_Q10;
}

/*
 * Urgency in Q10, from the time that this job would still need with the link to itself:
 * 1024 means "about to finish", one octave of remaining time is 102.  Jobs of different
 * lengths are ordered by remaining time, not by bytes_ratio: shortest remaining time first
 * cannot lock the shorter job into the period of the longer one.
 */
HCC_INLINE __u32 hcc_urgency_q10(const struct hcc_job_state *s, const struct hcc_job_conf *c,
				 __u32 ratio_q10)
{
	__s32 mix = s->unsettled >= HCC_UNSETTLED ? HCC_RATIO_MIX_UNSETTLED_Q10 : HCC_RATIO_MIX_Q10;
	__s32 octaves_q10, urgency;
	__u64 left_us;

	left_us = (HCC_ONE - ratio_q10) * (hcc_work_ns(s) / 1000) / HCC_ONE;
	if (left_us > 1u << 24)
		left_us = 1u << 24;
	octaves_q10 = hcc_log2_q10((__u32)left_us + 1024) - 10 * HCC_ONE;
	urgency = HCC_ONE - ((octaves_q10 * HCC_URGENCY_PER_OCTAVE) >> 10) + c->urgency_bias_q10 +
		  (__s32)hcc_tie_break_q10(s, c, ratio_q10);
	if (urgency < 0)
		urgency = 0;
	urgency = ((HCC_ONE - mix) * urgency + mix * (__s32)ratio_q10) >> 10;
	return urgency > HCC_ONE ? HCC_ONE : urgency;
}

/*
 * Queueing delay that a job of this urgency tolerates, us.  On long paths the RTT is noisy,
 * so targets are at least a sixth of the base RTT.
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
 * Whether this job has long yielded to a queue that exceeds even the highest target: then a
 * competitor fills it that does not yield.
 */
HCC_INLINE int hcc_competitor_unresponsive(struct hcc_job_state *s, const struct hcc_job_conf *c,
					   __u32 base_us, __u32 q_us, __u64 elapsed_ns)
{
	__u32 most = hcc_target_us(c, base_us, s->q_loss_us, HCC_ONE);

	if (q_us < most + most / 4) {
		s->unresponsive_ns = 0;
		return 0;
	}
	s->unresponsive_ns += elapsed_ns;
	return s->unresponsive_ns > HCC_UNRESPONSIVE_NS;
}

#endif
