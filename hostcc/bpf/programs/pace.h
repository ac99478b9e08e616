/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The window at the start of an iteration, and the pauses of parked flows.
 * Plain integer functions without kernel or BPF calls: they run in the BPF programs, and
 * the tests compile the same file into a shared library.
 */
#ifndef HOSTCC_PACE_H
#define HOSTCC_PACE_H

#include "iteration.h"

enum hcc_pace {
	HCC_MIN_ROUNDS = 24,		/* base RTTs in a communication phase that steering needs */
	HCC_LONG_PATH_US = 1000,	/* base RTT from which starting slowly costs too much */
	HCC_PARK_MIN_US = 3000,		/* a parked flow's first pause; doubles while the job yields */
	HCC_PARK_MAX_US = 40000,
	HCC_FEW_FLOWS = 16,		/* flows of a job up to which pauses are not lengthened */
	HCC_FEW_PEERS = 8,		/* peers of a job up to which its bursts are not thinned out */
	HCC_HOLD_GAP_MIN_US = 3000,	/* between two bursts of two packets of a held flow */
	HCC_HOLD_GAP_MAX_US = 24000,
	HCC_HOLD_DIVISOR = 8,		/* held flows together send at most 1/8 of the job's rate */
	HCC_OPEN_PACKETS = 80,		/* that all flows together may send when the gate opens */
	HCC_OPEN_MIN_PACKETS = 2,
	HCC_OPEN_MAX_PACKETS = 10,	/* of one flow: the kernel's initial window */
	HCC_SPREAD_MIN_BPS = 1000000,	/* two packets within some 3 ms: receivers wait for a pair */
	HCC_HOLD_MIN_TRUST = 2,		/* job_state.trust from which a burst is held */
	HCC_BURST_SLACK_SHIFT = 6,	/* a burst has ended when all but 1/64 of its bytes are sent */
};

/* Whether a communication phase has too few round trips to follow the delay. */
HCC_INLINE int hcc_path_too_long(const struct hcc_job_state *s, __u32 base_us)
{
	return (__u64)base_us * HCC_MIN_ROUNDS * 1000 > s->best_comm_ns;
}

/* Packets (Q10) that the highest recent rate delivers in `us`; 0: unknown. */
HCC_INLINE __u64 hcc_fill_q10(const struct hcc_job_state *s, __u32 us, __u32 mss)
{
	if (!s->ns_per_mib || !mss || us > 1u << 20)
		return 0;
	return ((__u64)us * 1000 << 20) / s->ns_per_mib * HCC_ONE / mss;
}

/*
 * Window (packets, Q10) at the start of an iteration: a third of the bandwidth-delay
 * product on long paths, next to nothing where the RTT is short.
 */
HCC_INLINE __u64 hcc_start_window_q10(const struct hcc_job_state *s, __u32 base_us, __u32 mss)
{
	__u64 bdp;

	if (!s->best_comm_ns || !mss)
		return 0;
	bdp = s->total_bytes / mss * HCC_ONE * base_us / (hcc_work_ns(s) / 1000 + 1);
	return bdp / 3 * base_us / (base_us + HCC_LONG_PATH_US);
}

/*
 * Time between bursts of a yielding job to each of its peers, us.  All peers together
 * get no more than a few would: otherwise the bursts alone would fill the link.
 */
HCC_INLINE __u32 hcc_floor_gap_us(__u32 gap_us, __u32 peers)
{
	__u64 us = (__u64)gap_us * peers / HCC_FEW_PEERS;

	if (peers <= HCC_FEW_PEERS)
		return gap_us;
	return us < HCC_PARK_MAX_US ? (__u32)us : HCC_PARK_MAX_US;
}

/*
 * The longest pause of a parked flow, us.  A job with little left may return often: it can
 * delay others by no more than that little, and its turn is about to come.
 */
HCC_INLINE __u32 hcc_pause_us(const struct hcc_job_state *s, __u32 ratio_q10)
{
	__u64 left_us = (HCC_ONE - ratio_q10) * (hcc_work_ns(s) / 1000) / HCC_ONE / 2;

	if (!s->total_bytes || left_us > HCC_PARK_MAX_US)
		return HCC_PARK_MAX_US;
	return left_us > HCC_PARK_MIN_US ? (__u32)left_us : HCC_PARK_MIN_US;
}

/*
 * The pause for a job with this many flows, us.  Parked flows return one after the other,
 * and together must not fill the link.  With more flows each one's share is smaller and
 * more of them are parked: hence the square.
 */
HCC_INLINE __u32 hcc_scaled_pause_us(__u32 pause_us, __u32 flows)
{
	__u64 many = flows < 1024 ? flows : 1024;
	__u64 us = pause_us * many * many / (HCC_FEW_FLOWS * HCC_FEW_FLOWS);

	if (flows <= HCC_FEW_FLOWS)
		return pause_us;
	return us < HCC_PARK_MAX_US ? (__u32)us : HCC_PARK_MAX_US;
}

/*
 * The pause of parked flows while the job uses the link, us: together they get a quarter
 * of the window, so that the link is not idle when the other flows have nothing to send.
 */
HCC_INLINE __u32 hcc_serving_pause_us(__u32 flows, __u32 rtt_us, __u32 window_q10)
{
	__u64 us = 4ULL * 2 * HCC_ONE * flows * rtt_us / (window_q10 + 1);

	return us < HCC_PARK_MAX_US ? (__u32)us : HCC_PARK_MAX_US;
}

/*
 * Time between two packets' bursts of a held flow, us.  Its acknowledgements are what ends the
 * hold, so short gaps open soon; but all that leaves meanwhile takes room from whoever sends.
 */
HCC_INLINE __u32 hcc_hold_gap_us(const struct hcc_job_state *s, __u32 mss)
{
	__u64 flows = s->flows < 1024 ? s->flows : 1024;
	__u64 us = (flows * 2 * HCC_HOLD_DIVISOR * mss * s->ns_per_mib >> 20) / 1000;

	if (us < HCC_HOLD_GAP_MIN_US)
		return HCC_HOLD_GAP_MIN_US;
	return us < HCC_HOLD_GAP_MAX_US ? (__u32)us : HCC_HOLD_GAP_MAX_US;
}

/* Window of a flow when its gate opens, packets; slow start leads to the one that it had. */
HCC_INLINE __u32 hcc_open_packets(const struct hcc_job_state *s, __u32 had)
{
	__u32 each = HCC_OPEN_PACKETS / (s->flows ? s->flows : 1);

	if (each < HCC_OPEN_MIN_PACKETS)
		each = HCC_OPEN_MIN_PACKETS;
	if (each > HCC_OPEN_MAX_PACKETS)
		each = HCC_OPEN_MAX_PACKETS;
	return had < each ? had : each;
}

/*
 * Pace of a flow's first window, bytes/s: with it, the flow's bytes take what the iteration takes
 * alone.  0: none, as where it is unknown, or so slow that it would cost more than it gains.
 */
HCC_INLINE __u32 hcc_spread_bps(const struct hcc_job_state *s, __u64 flow_bytes)
{
	__u64 us = hcc_work_ns(s) / 1000, bps = us ? flow_bytes * 1000000ULL / us : 0;

	return s->trust >= HCC_HOLD_MIN_TRUST && bps >= HCC_SPREAD_MIN_BPS && bps <= 0xfffffffe ?
		       (__u32)bps :
		       0;
}

/*
 * Whether the iteration that begins follows the pattern, so that its burst may be held: the ones
 * before were alike, and the last lasted no longer than twice what it usually takes.  What begins
 * after a longer pause may be a checkpoint or an evaluation.
 */
HCC_INLINE int hcc_in_pattern(const struct hcc_job_state *s)
{
	return s->trust >= HCC_HOLD_MIN_TRUST &&
	       s->period_ns <= 2 * (s->best_comm_ns + s->usual_gap_ns);
}

/* Whether the bytes of the job's iteration are acknowledged, all but a little. */
HCC_INLINE int hcc_burst_is_sent(const struct hcc_job_state *s)
{
	return s->total_bytes &&
	       s->iteration_bytes >= s->total_bytes - (s->total_bytes >> HCC_BURST_SLACK_SHIFT);
}

#endif
