// SPDX-License-Identifier: GPL-2.0-only
/* Every operation with what it saw and what it did, one record each, in order. */
#include "mltcp.bpf.c"

enum trace_op {
	TRACE_INIT,
	TRACE_SSTHRESH,
	TRACE_AVOID,
	TRACE_STATE,
	TRACE_EVENT,
	TRACE_IN_ACK,
	TRACE_UNDO,
};

struct trace_record {
	u16 lport, rport;	/* host order */
	u32 op;			/* enum trace_op */
	u32 argument;		/* acked, new state, event or flags */
	u32 sk_state;
	/* before */
	u32 snd_una, snd_nxt, rcv_nxt;
	u32 delivered, delivered_ce;
	u32 ca_state;
	u32 limited;		/* tcp_is_cwnd_limited() */
	u32 ack_pending;
	u32 ecn_flags;
	u32 cwnd, cwnd_cnt, ssthresh, prior_cwnd;
	/* after */
	u32 ecn_flags_after;
	u32 ack_pending_after;
	u32 cwnd_after, cwnd_cnt_after, ssthresh_after;
	u32 result;
	u32 alpha_q10;		/* dctcp */
	u32 f_q10;		/* F at that time */
};

const struct trace_record *export_trace_record __attribute__((unused));
const enum trace_op *export_trace_op __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} traces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} traces_lost SEC(".maps");

static __always_inline u32 limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline struct trace_record *begin(struct sock *sk, u32 op, u32 argument)
{
	struct trace_record *t = bpf_ringbuf_reserve(&traces, sizeof(*t), 0);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!t) {
		u32 zero = 0;
		u64 *lost = bpf_map_lookup_elem(&traces_lost, &zero);

		if (lost)
			__sync_fetch_and_add(lost, 1);
		return NULL;
	}
	t->lport = sk->__sk_common.skc_num;
	t->rport = bpf_ntohs(sk->__sk_common.skc_dport);
	t->op = op;
	t->argument = argument;
	t->sk_state = sk->__sk_common.skc_state;
	t->snd_una = tp->snd_una;
	t->snd_nxt = tp->snd_nxt;
	t->rcv_nxt = tp->rcv_nxt;
	t->delivered = tp->delivered;
	t->delivered_ce = tp->delivered_ce;
	t->ca_state = ca_state(sk);
	t->limited = limited(tp);
	t->ack_pending = tp->inet_conn.icsk_ack.pending;
	t->ecn_flags = tp->ecn_flags;
	t->cwnd = tp->snd_cwnd;
	t->cwnd_cnt = tp->snd_cwnd_cnt;
	t->prior_cwnd = tp->prior_cwnd;
	t->ssthresh = tp->snd_ssthresh;
	t->f_q10 = op == TRACE_INIT ? 0 : flow_f_q10(sk, priv(sk));
	return t;
}

static __always_inline void end(struct sock *sk, struct trace_record *t, u32 result)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!t)
		return;
	t->ecn_flags_after = tp->ecn_flags;
	t->ack_pending_after = tp->inet_conn.icsk_ack.pending;
	t->cwnd_after = tp->snd_cwnd;
	t->cwnd_cnt_after = tp->snd_cwnd_cnt;
	t->ssthresh_after = tp->snd_ssthresh;
	t->result = result;
	t->alpha_q10 = dctcp_priv(sk)->alpha_q10;
	bpf_ringbuf_submit(t, 0);
}

SEC("struct_ops/trace_dctcp_init")
void BPF_PROG(trace_dctcp_init, struct sock *sk)
{
	struct trace_record *t = begin(sk, TRACE_INIT, 0);

	____hcc_dctcp_init(ctx, sk);
	end(sk, t, 0);
}

SEC("struct_ops/trace_dctcp_ssthresh")
u32 BPF_PROG(trace_dctcp_ssthresh, struct sock *sk)
{
	struct trace_record *t = begin(sk, TRACE_SSTHRESH, 0);
	u32 result = ____hcc_dctcp_ssthresh(ctx, sk);

	end(sk, t, result);
	return result;
}

SEC("struct_ops/trace_reno_avoid")
void BPF_PROG(trace_reno_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct trace_record *t = begin(sk, TRACE_AVOID, acked);

	____hcc_reno_avoid(ctx, sk, ack, acked);
	end(sk, t, 0);
}

SEC("struct_ops/trace_dctcp_state")
void BPF_PROG(trace_dctcp_state, struct sock *sk, u8 state)
{
	struct trace_record *t = begin(sk, TRACE_STATE, state);

	____hcc_dctcp_state(ctx, sk, state);
	end(sk, t, 0);
}

SEC("struct_ops/trace_dctcp_event")
void BPF_PROG(trace_dctcp_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct trace_record *t = begin(sk, TRACE_EVENT, ev);

	____hcc_dctcp_event(ctx, sk, ev);
	end(sk, t, 0);
}

SEC("struct_ops/trace_dctcp_in_ack")
void BPF_PROG(trace_dctcp_in_ack, struct sock *sk, u32 flags)
{
	struct trace_record *t = begin(sk, TRACE_IN_ACK, flags);

	____hcc_dctcp_in_ack(ctx, sk, flags);
	end(sk, t, 0);
}

SEC("struct_ops/trace_dctcp_undo")
u32 BPF_PROG(trace_dctcp_undo, struct sock *sk)
{
	struct trace_record *t = begin(sk, TRACE_UNDO, 0);
	u32 result = ____hcc_dctcp_undo(ctx, sk);

	end(sk, t, result);
	return result;
}

SEC(".struct_ops")
struct tcp_congestion_ops trace_dctcp = {
	.init = (void *)trace_dctcp_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)trace_dctcp_ssthresh,
	.cong_avoid = (void *)trace_reno_avoid,
	.set_state = (void *)trace_dctcp_state,
	.cwnd_event = (void *)trace_dctcp_event,
	.in_ack_event = (void *)trace_dctcp_in_ack,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)trace_dctcp_undo,
	.name = "trace_dctcp",
	.flags = TCP_CONG_NEEDS_ECN,
};

SEC(".struct_ops")
struct tcp_congestion_ops trace_reno = {
	.init = (void *)hcc_reno_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)hcc_reno_ssthresh,
	.cong_avoid = (void *)trace_reno_avoid,
	.cwnd_event = (void *)hcc_reno_event,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)hcc_reno_undo,
	.name = "trace_reno",
};

/* What the dctcp variant becomes without ECN: reno, with everything written down. */
SEC("struct_ops/trace_deaf_ssthresh")
u32 BPF_PROG(trace_deaf_ssthresh, struct sock *sk)
{
	struct trace_record *t = begin(sk, TRACE_SSTHRESH, 0);
	u32 result = ____hcc_reno_ssthresh(ctx, sk);

	end(sk, t, result);
	return result;
}

SEC("struct_ops/trace_deaf_undo")
u32 BPF_PROG(trace_deaf_undo, struct sock *sk)
{
	struct trace_record *t = begin(sk, TRACE_UNDO, 0);
	u32 result = ____hcc_reno_undo(ctx, sk);

	end(sk, t, result);
	return result;
}

SEC(".struct_ops")
struct tcp_congestion_ops trace_deaf = {
	.init = (void *)hcc_reno_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)trace_deaf_ssthresh,
	.cong_avoid = (void *)trace_reno_avoid,
	.cwnd_event = (void *)hcc_reno_event,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)trace_deaf_undo,
	.name = "trace_deaf",
};
