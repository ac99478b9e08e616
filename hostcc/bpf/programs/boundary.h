/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Whether a silence ends an iteration: by the boundary hint, which the agent makes of the job's
 * profile, or else by the usual longest silence.  Plain integer functions, as in iteration.h.
 */
#ifndef HOSTCC_BOUNDARY_H
#define HOSTCC_BOUNDARY_H

#include "iteration.h"

enum hcc_boundary {
	HCC_DUE_DIVISOR = 8,	/* an iteration is due when 1/8 of the period is left */
	HCC_HINT_PERIODS = 4,	/* without a boundary for so many, the hint is wrong */
};

/* What a silence is. */
enum hcc_silence {
	HCC_SILENCE_SHORT = 0,	/* too short to tell anything */
	HCC_SILENCE_PAUSE = 1,	/* within an iteration */
	HCC_SILENCE_END = 2,	/* between two iterations */
	HCC_SILENCE_NONE = 3,	/* another flow is paced, stalled or waiting */
};

/* Whether a hint is in force: the agent that keeps it current is alive, and it was not dropped. */
HCC_INLINE int hcc_hinted(const struct hcc_job_state *s, const struct hcc_job_conf *c, int alive)
{
	return alive && c->hint_id && c->hint_id != s->hint_dropped;
}

/* Whether the iteration's bytes are acknowledged, by the hint, or more than these. */
HCC_INLINE int hcc_hinted_sent(const struct hcc_job_state *s, const struct hcc_job_conf *c)
{
	__s64 missing = c->hint_bytes - s->iteration_bytes, margin = c->hint_margin_bytes;

	return margin && missing <= margin;
}

/*
 * Whether a silence ends an iteration by the hint: a long one when the iteration's bytes are
 * sent or its time is nearly over, a shorter one right after the last of its bytes.
 */
HCC_INLINE int hcc_hinted_end(const struct hcc_job_state *s, const struct hcc_job_conf *c,
			      __u64 gap_ns, __u64 elapsed_ns)
{
	__s64 missing = c->hint_bytes - s->iteration_bytes, margin = c->hint_margin_bytes;
	__u64 due_us = c->hint_period_us - c->hint_period_us / HCC_DUE_DIVISOR;
	int sent = hcc_hinted_sent(s, c);

	if (gap_ns < c->hint_silence_us * 1000ULL)
		return sent && missing >= -margin && gap_ns >= c->hint_pause_us * 1000ULL;
	return sent || elapsed_ns >= due_us * 1000;
}

/* What the silence that now ends is.  A hint by which iterations no longer end is dropped. */
HCC_INLINE enum hcc_silence hcc_judge_silence(struct hcc_job_state *s,
					      const struct hcc_job_conf *c, __u64 gap_ns,
					      __u64 now_ns, __u32 srtt_us, int alive)
{
	__u64 elapsed_ns = hcc_elapsed_ns(now_ns, s->iteration_start_ns);

	if (hcc_hinted(s, c, alive)) {
		if (hcc_hinted_end(s, c, gap_ns, elapsed_ns))
			return HCC_SILENCE_END;
		/* Before an iteration's bytes, such as after a handshake, none can end. */
		if (s->iteration_bytes < HCC_MIN_ITERATION_BYTES ||
		    elapsed_ns <= HCC_HINT_PERIODS * 1000ULL * c->hint_period_us)
			return gap_ns >= c->hint_pause_us * 1000ULL ? HCC_SILENCE_PAUSE
								    : HCC_SILENCE_SHORT;
		s->hint_dropped = c->hint_id;
	}
	if (gap_ns < hcc_min_silence_ns(srtt_us))
		return HCC_SILENCE_SHORT;
	return gap_ns > hcc_silence_ns(s, c, srtt_us) ? HCC_SILENCE_END : HCC_SILENCE_PAUSE;
}

/*
 * The same while another flow waits for an acknowledgement.  An iteration may have ended all the
 * same, as in a time-out after the last one was lost: the peer's application has the bytes.
 */
HCC_INLINE enum hcc_silence hcc_judge_waiting(const struct hcc_job_state *s,
					      const struct hcc_job_conf *c, __u64 gap_ns, int alive)
{
	if (hcc_hinted(s, c, alive) && hcc_hinted_sent(s, c) &&
	    gap_ns >= c->hint_silence_us * 1000ULL)
		return HCC_SILENCE_END;
	return HCC_SILENCE_NONE;
}

/*
 * Update the usual longest gap after a silence that is not short.  With a hint, it moves by a
 * quarter towards each silence between iterations: that of a job's start is soon forgotten.
 */
HCC_INLINE void hcc_learn_silence(struct hcc_job_state *s, const struct hcc_job_conf *c,
				  __u64 gap_ns, __u32 silence, int alive)
{
	__u64 usual = s->usual_gap_ns;

	if (!hcc_hinted(s, c, alive)) {
		hcc_learn_gap(s, gap_ns);
	} else if (silence == HCC_SILENCE_END) {
		if (usual && gap_ns > 2 * usual)
			gap_ns = 2 * usual;
		s->usual_gap_ns = usual ? usual - usual / 4 + gap_ns / 4 : gap_ns;
		s->long_gap_ns = 0;
	}
}

#endif
