/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a flow carries with it: this project's part of the congestion control's private memory.
 */
#ifndef HOSTCC_FLOW_BPF_H
#define HOSTCC_FLOW_BPF_H

/* The kernel's struct bictcp lives in the first 64 bytes of icsk_ca_priv. */
#define PRIV_OFFSET_U64 8

enum { FLOW_PACED = 1, FLOW_HAD_PACING = 2, FLOW_AWAKE = 4, FLOW_BUSY = 8 };

/* This project's part of icsk_ca_priv: all 40 bytes that are left. */
struct flow_priv {
	u16 slot;
	u16 flags;
	u32 acked_mark;		/* low half of bytes_acked when last counted */
	u32 epoch;		/* job_state.epoch when last seen */
	u32 park_us;		/* pace of a parked flow: time between bursts */
	u32 hold_us;		/* departure time that was pending when pacing ended, low half */
	u16 carry_q10;		/* fraction of a packet of scaled increase */
	u16 path;		/* its number in path_states; 0 none */
	u32 flow_bytes;		/* HCC_SCOPE_FLOW: acknowledged in this iteration */
	u32 flow_total;		/* HCC_SCOPE_FLOW: learned */
	u32 mark_seq;		/* left at mark_us: an RTT of our own where the kernel's is false */
	u32 mark_us;		/* 0: none under way */
};

/* All of icsk_ca_priv, for whoever traces. */
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
