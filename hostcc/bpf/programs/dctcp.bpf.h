/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DCTCP (RFC 8257) with its additive increase scaled by F.  Implemented in BPF because
 * kernels without CONFIG_TCP_CONG_DCTCP have no kfuncs for it.  The arithmetic is that of the
 * RFC in Linux' units (alpha in Q10, g = 1/16), so F = 1 gives the window of the kernel's own
 * DCTCP.  A connection without ECN continues with this agent's reno.
 */
#ifndef HOSTCC_DCTCP_BPF_H
#define HOSTCC_DCTCP_BPF_H

#define DCTCP_G_SHIFT 4
#define DCTCP_ALPHA_MAX 1024u
#define TCP_ECN_ANY (TCP_ECN_OK | 16)	/* 16: accurate ECN, from Linux 6.18 on */
#define ICSK_ACK_NOW 16
#define CA_NAME_VARIANT 9		/* offset of <variant> in "hcc_<tag>_<variant>", tag of four */

/* First part of icsk_ca_priv, where the kernel's struct bictcp is for cubic. */
struct dctcp_priv {
	u32 alpha_q10;
	u32 round_end;		/* snd_nxt when this observation window began */
	u32 delivered_mark, delivered_ce_mark;
	u32 loss_cwnd;		/* for undo */
	u32 prior_rcv_nxt;	/* receiver: up to here all packets had the same mark */
	u32 ce_state;		/* receiver: whether the last packet was marked */
	u32 up;			/* the connection is established, with ECN */
};

/* A field that kern.h does not have. */
struct tcp_sock___synack {
	u32 snd_wl1;		/* in SYN_SENT: the SYN-ACK's sequence number */
} __attribute__((preserve_access_index));

static __always_inline struct dctcp_priv *dctcp_priv(struct sock *sk)
{
	return (struct dctcp_priv *)&((struct inet_connection_sock *)sk)->icsk_ca_priv[0];
}

static __always_inline void dctcp_window_begins(const struct tcp_sock *tp, struct dctcp_priv *d)
{
	d->round_end = tp->snd_nxt;
	d->delivered_mark = tp->delivered;
	d->delivered_ce_mark = tp->delivered_ce;
}

static __always_inline u32 dctcp_halve(struct tcp_sock *tp, struct dctcp_priv *d)
{
	u32 half = tp->snd_cwnd >> 1;

	d->loss_cwnd = tp->snd_cwnd;
	return half > 2 ? half : 2;
}

/*
 * Switch to reno, because the peer refused ECN.  Only the kernel can stop setting ECT, and
 * does so when a congestion control that does not need ECN takes over: this agent's reno, or
 * the kernel's if the agent has ended meanwhile.  Afterwards icsk_ca_priv belongs to the other
 * one.  Fails with -EBUSY while a BPF program is changing the congestion control, which may
 * be the reason for the present call of init; then the next call tries again.
 */
static void dctcp_retire(struct sock *sk)
{
	const struct tcp_congestion_ops___kernel *ops;
	char name[HCC_CA_NAME_LEN], reno[HCC_CA_NAME_LEN] = "reno";

	ops = (const struct tcp_congestion_ops___kernel *)tcp_sk(sk)->inet_conn.icsk_ca_ops;
	__builtin_memcpy(name, ops->name, sizeof(name));
	__builtin_memcpy(name + CA_NAME_VARIANT, "reno", sizeof("reno"));
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

/*
 * Whether to react to marks.  Unknown while a SYN is out, because a congestion control can be
 * chosen at connect().  The kernel's DCTCP begins its first window after the handshake.
 */
static __always_inline bool dctcp_up(struct sock *sk, struct dctcp_priv *d)
{
	if (d->up || sk->__sk_common.skc_state == BPF_TCP_SYN_SENT)
		return d->up;
	if (!(tcp_sk(sk)->ecn_flags & TCP_ECN_ANY)) {
		dctcp_retire(sk);
		return false;
	}
	d->up = 1;
	dctcp_window_begins(tcp_sk(sk), d);
	return true;
}

/* Called while the SYN-ACK is processed. */
static __always_inline void dctcp_answered(struct sock *sk, struct dctcp_priv *d)
{
	struct tcp_sock___synack *tp = (void *)sk;

	if (tcp_sk(sk)->ecn_flags & TCP_ECN_ANY)
		d->prior_rcv_nxt = tp->snd_wl1 + 1;	/* what rcv_nxt is about to be */
	else
		dctcp_retire(sk);
}

SEC("struct_ops/hcc_dctcp_init")
void BPF_PROG(hcc_dctcp_init, struct sock *sk)
{
	struct dctcp_priv *d = dctcp_priv(sk);

	__builtin_memset(d, 0, sizeof(*d));
	d->alpha_q10 = DCTCP_ALPHA_MAX;
	d->prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	flow_init(sk);
	dctcp_up(sk, d);
}

SEC("struct_ops/hcc_dctcp_ssthresh")
u32 BPF_PROG(hcc_dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);
	u32 w;

	if (priv(sk)->flags & FLOW_HELD)
		return gate_ssthresh(priv(sk));
	if (!d->up)
		return tcp_reno_ssthresh(sk);
	d->loss_cwnd = tp->snd_cwnd;
	w = tp->snd_cwnd - ((tp->snd_cwnd * d->alpha_q10) >> 11);
	return w > 2 ? w : 2;
}

/* Once per window of data: alpha = (1 - g) alpha + g (marked / delivered). */
static __always_inline void dctcp_window_ends(const struct tcp_sock *tp, struct dctcp_priv *d)
{
	u32 alpha = d->alpha_q10, decay = alpha >> DCTCP_G_SHIFT;
	u32 marked = tp->delivered_ce - d->delivered_ce_mark;
	u32 delivered = tp->delivered - d->delivered_mark;

	alpha -= decay ? decay : alpha;
	if (marked) {
		alpha += (marked << (10 - DCTCP_G_SHIFT)) / (delivered ? delivered : 1);
		if (alpha > DCTCP_ALPHA_MAX)
			alpha = DCTCP_ALPHA_MAX;
	}
	d->alpha_q10 = alpha;
	dctcp_window_begins(tp, d);
}

SEC("struct_ops/hcc_dctcp_in_ack")
void BPF_PROG(hcc_dctcp_in_ack, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	if (sk->__sk_common.skc_state == BPF_TCP_SYN_SENT)
		dctcp_answered(sk, d);
	else if (dctcp_up(sk, d) && (s32)(tp->snd_una - d->round_end) >= 0)
		dctcp_window_ends(tp, d);
}

/*
 * Receiver (RFC 8257, section 3.2): when the mark changes, acknowledge at once what came
 * before, and then the new packet.
 */
static void dctcp_mark_changes(struct sock *sk, bool marked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	if (d->ce_state != marked) {
		if (tp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER) {
			if (d->ce_state)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			bpf_tcp_send_ack(tp, d->prior_rcv_nxt);
		}
		tp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
		d->ce_state = marked;
	}
	d->prior_rcv_nxt = tp->rcv_nxt;
	if (marked)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

#ifdef HCC_TX_START_OP
SEC("struct_ops/hcc_dctcp_tx_start")
void BPF_PROG(hcc_dctcp_tx_start, struct sock *sk)
{
	flow_event(sk, CA_EVENT_TX_START);
}
#endif

SEC("struct_ops/hcc_dctcp_event")
void BPF_PROG(hcc_dctcp_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);
	bool up = dctcp_up(sk, d);

	flow_event(sk, ev);
	if (!up)
		return;
	if (ev == CA_EVENT_ECN_IS_CE || ev == CA_EVENT_ECN_NO_CE)
		dctcp_mark_changes(sk, ev == CA_EVENT_ECN_IS_CE);
	else if (ev == CA_EVENT_LOSS)
		tp->snd_ssthresh = dctcp_halve(tp, d);
}

SEC("struct_ops/hcc_dctcp_state")
void BPF_PROG(hcc_dctcp_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	mend(sk, new_state, tcp_reno_ssthresh);
	/* A loss halves the window, as in reno, whatever alpha is. */
	if (d->up && new_state == TCP_CA_Recovery && new_state != ca_state(sk))
		tp->snd_ssthresh = dctcp_halve(tp, d);
}

SEC("struct_ops/hcc_dctcp_undo")
u32 BPF_PROG(hcc_dctcp_undo, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	if (!d->up)
		return tcp_reno_undo_cwnd(sk);
	return tp->snd_cwnd > d->loss_cwnd ? tp->snd_cwnd : d->loss_cwnd;
}

SEC(".struct_ops")
struct tcp_congestion_ops hcc_dctcp = {
	.init = (void *)hcc_dctcp_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)hcc_dctcp_ssthresh,
	.cong_avoid = (void *)hcc_reno_avoid,
	.set_state = (void *)hcc_dctcp_state,
	.cwnd_event = (void *)hcc_dctcp_event,
#ifdef HCC_TX_START_OP
	.cwnd_event_tx_start = (void *)hcc_dctcp_tx_start,
#endif
	.in_ack_event = (void *)hcc_dctcp_in_ack,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)hcc_dctcp_undo,
	.name = "hcc_dctcp",
	.flags = TCP_CONG_NEEDS_ECN,
};

#endif
