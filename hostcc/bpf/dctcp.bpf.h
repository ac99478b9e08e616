/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DCTCP (RFC 8257) with its additive increase scaled by F.  Written for BPF
 * because many kernels, and all that lack CONFIG_TCP_CONG_DCTCP, have no kfuncs
 * to call; the arithmetic is that of the RFC in Linux' units (alpha in Q10,
 * g = 1/16), so that F = 1 gives the window of the kernel's own.
 * Without ECN on the connection it is reno.
 */
#ifndef HOSTCC_DCTCP_BPF_H
#define HOSTCC_DCTCP_BPF_H

#define DCTCP_G_SHIFT 4
#define DCTCP_ALPHA_MAX 1024u

/* First part of icsk_ca_priv, where the kernel's struct bictcp is for cubic. */
struct dctcp_priv {
	u32 alpha_q10;
	u32 round_end;		/* snd_nxt when this observation window began */
	u32 delivered_mark, delivered_ce_mark;
	u32 loss_cwnd;		/* for undo */
	u32 prior_rcv_nxt;	/* receiver: all before this had the same mark */
	u32 ce_state;		/* receiver: the last packet was marked */
	u32 ecn;
};

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

SEC("struct_ops/hcc_dctcp_init")
void BPF_PROG(hcc_dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	__builtin_memset(d, 0, sizeof(*d));
	d->ecn = tp->ecn_flags & TCP_ECN_OK || sk->__sk_common.skc_state == BPF_TCP_LISTEN ||
		 sk->__sk_common.skc_state == BPF_TCP_CLOSE;
	d->alpha_q10 = DCTCP_ALPHA_MAX;
	d->prior_rcv_nxt = tp->rcv_nxt;
	dctcp_window_begins(tp, d);
	flow_init(sk);
}

SEC("struct_ops/hcc_dctcp_ssthresh")
u32 BPF_PROG(hcc_dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);
	u32 w;

	if (!d->ecn)
		return tcp_reno_ssthresh(sk);
	d->loss_cwnd = tp->snd_cwnd;
	w = tp->snd_cwnd - ((tp->snd_cwnd * d->alpha_q10) >> 11);
	return w > 2 ? w : 2;
}

/* Once a window of data: alpha = (1 - g) alpha + g (marked / delivered). */
SEC("struct_ops/hcc_dctcp_in_ack")
void BPF_PROG(hcc_dctcp_in_ack, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);
	u32 alpha, decay, marked, delivered;

	if (!d->ecn || (s32)(tp->snd_una - d->round_end) < 0)
		return;
	alpha = d->alpha_q10;
	marked = tp->delivered_ce - d->delivered_ce_mark;
	decay = alpha >> DCTCP_G_SHIFT;
	alpha -= decay ? decay : alpha;
	if (marked) {
		delivered = tp->delivered - d->delivered_mark;
		alpha += (marked << (10 - DCTCP_G_SHIFT)) / (delivered ? delivered : 1);
		if (alpha > DCTCP_ALPHA_MAX)
			alpha = DCTCP_ALPHA_MAX;
	}
	d->alpha_q10 = alpha;
	dctcp_window_begins(tp, d);
}

/* Receiver, RFC 8257 section 3.2: when the mark changes, acknowledge what came before at once. */
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
		d->ce_state = marked;
	}
	d->prior_rcv_nxt = tp->rcv_nxt;
	if (marked)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops/hcc_dctcp_event")
void BPF_PROG(hcc_dctcp_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	if (ev == CA_EVENT_TX_START)
		flow_tx_start(sk);
	if (!d->ecn)
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

	/* A loss is answered by halving, as in reno, whatever alpha says. */
	if (d->ecn && new_state == TCP_CA_Recovery && new_state != ca_state(sk))
		tp->snd_ssthresh = dctcp_halve(tp, d);
}

SEC("struct_ops/hcc_dctcp_undo")
u32 BPF_PROG(hcc_dctcp_undo, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_priv *d = dctcp_priv(sk);

	if (!d->ecn)
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
	.in_ack_event = (void *)hcc_dctcp_in_ack,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)hcc_dctcp_undo,
	.name = "hcc_dctcp",
	.flags = TCP_CONG_NEEDS_ECN,
};

#endif
