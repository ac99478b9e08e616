/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of a flow: this project's part of the congestion control's private memory.
 */
#ifndef HOSTCC_FLOW_STATE_BPF_H
#define HOSTCC_FLOW_STATE_BPF_H

/* The kernel's struct bictcp lives in the first 64 bytes of icsk_ca_priv. */
#define PRIV_OFFSET_U64 8

enum {
	FLOW_PACED = 1,
	FLOW_HAD_PACING = 2,
	FLOW_AWAKE = 4,
	FLOW_BUSY = 8,
	FLOW_RESTS = 16,	/* idle, with a window of two packets: the gate may be closed next */
	FLOW_HELD = 32,		/* waits for the job's gate */
	FLOW_SPREADS = 64,	/* paced until its first acknowledgement */
};

/* All 40 bytes of icsk_ca_priv that are left. */
struct flow_priv {
	u16 slot;
	u16 flags;
	u32 acked_mark;		/* low half of bytes_acked when last counted */
	u32 epoch;		/* job_state.epoch when it was last updated */
	u32 park_us;		/* time between bursts of a parked flow */
	u32 hold_us;		/* departure time pending when pacing ended, low half */
	u16 carry_q10;		/* fraction of a packet of scaled increase */
	u16 path;		/* index into path_states; 0: none */
	u32 flow_kib;		/* HCC_SCOPE_FLOW: acknowledged in this iteration */
	u32 total_kib;		/* HCC_SCOPE_FLOW: learned */
	u32 mark_seq;		/* sent at mark_us: an own RTT sample where the kernel's is wrong;
				   the window to come back to in FLOW_RESTS and FLOW_HELD */
	u32 mark_us;		/* 0: no sample pending */
};

/* The whole of icsk_ca_priv, for tracing tools. */
struct hcc_ca_priv {
	u64 cubic[PRIV_OFFSET_U64];
	struct flow_priv flow;
};
const struct hcc_ca_priv *export_ca_priv __attribute__((unused));

static __always_inline struct flow_priv *priv(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	return (struct flow_priv *)&icsk->icsk_ca_priv[PRIV_OFFSET_U64];
}

#endif
