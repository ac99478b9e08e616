// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every operation of DCTCP twice: first the kernel's own (tcp_dctcp), whose result is noted
 * and undone, then the product's.  With F = 1 window, alpha and all other state, and the
 * acknowledgements sent, must be the same; what differs is counted.
 */
#include "mltcp.bpf.c"

enum both_op {
	BOTH_INIT,
	BOTH_SSTHRESH,
	BOTH_AVOID,
	BOTH_STATE,
	BOTH_EVENT,
	BOTH_IN_ACK,
	BOTH_UNDO,
	BOTH_OPS,
};

enum both_value {
	VALUE_CWND,
	VALUE_CWND_CNT,
	VALUE_SSTHRESH,
	VALUE_ECN_FLAGS,
	VALUE_ACK_PENDING,
	VALUE_SEGMENTS,		/* sent by the operation itself */
	VALUE_RESULT,
	VALUE_ALPHA,
	VALUE_WINDOW_END,
	VALUE_DELIVERED,
	VALUE_DELIVERED_CE,
	VALUE_LOSS_CWND,
	VALUE_PRIOR_RCV_NXT,
	VALUE_CE_STATE,
	VALUES,
};

struct both_count {
	u64 calls;
	u64 mismatches;
	u64 acks;		/* calls that sent something */
	u64 arguments[8];	/* calls by event or new state */
	u32 want[VALUES], got[VALUES];	/* of the last mismatch */
};

const enum both_op *export_both_op __attribute__((unused));
const enum both_value *export_both_value __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BOTH_OPS);
	__type(key, u32);
	__type(value, struct both_count);
} both_counts SEC(".maps");

extern void dctcp_init(struct sock *sk) __ksym;
extern u32 dctcp_ssthresh(struct sock *sk) __ksym;
extern void dctcp_state(struct sock *sk, u8 new_state) __ksym;
extern void dctcp_cwnd_event(struct sock *sk, enum tcp_ca_event ev) __ksym;
extern void dctcp_update_alpha(struct sock *sk, u32 flags) __ksym;
extern u32 dctcp_cwnd_undo(struct sock *sk) __ksym;

struct tcp_sock___sent {
	u32 segs_out;
} __attribute__((preserve_access_index));

/* The kernel's state, as its module describes it. */
struct dctcp {
	u32 old_delivered;
	u32 old_delivered_ce;
	u32 prior_rcv_nxt;
	u32 dctcp_alpha;
	u32 next_seq;
	u32 ce_state;
	u32 loss_cwnd;
} __attribute__((preserve_access_index));

/*
 * icsk_ca_priv: the product's dctcp_priv in words 0 to 3, the kernel's struct in 4 to 7,
 * exchanged while the kernel's runs.  The last half word is nobody's: how far we are.
 */
enum { HALF = 4, NOT_BEGUN = 0, SYN_IS_OUT = 1, BEGUN = 2 };

struct both_state {
	u32 space[7];
	u32 stage;
};

static __always_inline u64 *words(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline struct both_state *both_state(struct sock *sk)
{
	return (struct both_state *)(words(sk) + HALF);
}

static __always_inline void exchange(struct sock *sk)
{
	u64 *w = words(sk), kept;

#pragma unroll
	for (int i = 0; i < HALF; i++) {
		kept = w[i];
		w[i] = w[i + HALF];
		w[i + HALF] = kept;
	}
}

struct seen {
	u32 value[VALUES];
};

static __always_inline void look(struct sock *sk, struct seen *s, u32 result, u32 segments)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct tcp_sock___sent *sent = (const void *)tp;

	s->value[VALUE_CWND] = tp->snd_cwnd;
	s->value[VALUE_CWND_CNT] = tp->snd_cwnd_cnt;
	s->value[VALUE_SSTHRESH] = tp->snd_ssthresh;
	s->value[VALUE_ECN_FLAGS] = tp->ecn_flags;
	s->value[VALUE_ACK_PENDING] = tp->inet_conn.icsk_ack.pending;
	s->value[VALUE_SEGMENTS] = sent->segs_out - segments;
	s->value[VALUE_RESULT] = result;
}

static __always_inline void look_kernels(struct sock *sk, struct seen *s)
{
	const struct dctcp *ca = (const struct dctcp *)words(sk);

	s->value[VALUE_ALPHA] = ca->dctcp_alpha;
	s->value[VALUE_WINDOW_END] = ca->next_seq;
	s->value[VALUE_DELIVERED] = ca->old_delivered;
	s->value[VALUE_DELIVERED_CE] = ca->old_delivered_ce;
	s->value[VALUE_LOSS_CWND] = ca->loss_cwnd;
	s->value[VALUE_PRIOR_RCV_NXT] = ca->prior_rcv_nxt;
	s->value[VALUE_CE_STATE] = ca->ce_state;
}

static __always_inline void look_ours(struct sock *sk, struct seen *s)
{
	const struct dctcp_priv *d = dctcp_priv(sk);

	s->value[VALUE_ALPHA] = d->alpha_q10;
	s->value[VALUE_WINDOW_END] = d->round_end;
	s->value[VALUE_DELIVERED] = d->delivered_mark;
	s->value[VALUE_DELIVERED_CE] = d->delivered_ce_mark;
	s->value[VALUE_LOSS_CWND] = d->loss_cwnd;
	s->value[VALUE_PRIOR_RCV_NXT] = d->prior_rcv_nxt;
	s->value[VALUE_CE_STATE] = d->ce_state;
}

static __always_inline void put_back(struct sock *sk, const struct seen *s)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = s->value[VALUE_CWND];
	tp->snd_cwnd_cnt = s->value[VALUE_CWND_CNT];
	tp->snd_ssthresh = s->value[VALUE_SSTHRESH];
	tp->ecn_flags = s->value[VALUE_ECN_FLAGS];
	tp->inet_conn.icsk_ack.pending = s->value[VALUE_ACK_PENDING];
}

static __always_inline u32 segments(struct sock *sk)
{
	return ((const struct tcp_sock___sent *)sk)->segs_out;
}

static void compare(const struct seen *want, const struct seen *got, u32 op, u32 argument)
{
	struct both_count *count = bpf_map_lookup_elem(&both_counts, &op);
	bool differ = false;

	if (!count)
		return;
	__sync_fetch_and_add(&count->calls, 1);
	__sync_fetch_and_add(&count->arguments[argument & 7], 1);
	if (got->value[VALUE_SEGMENTS])
		__sync_fetch_and_add(&count->acks, 1);
#pragma unroll
	for (int i = 0; i < VALUES; i++)
		differ |= want->value[i] != got->value[i];
	if (!differ)
		return;
	__sync_fetch_and_add(&count->mismatches, 1);
#pragma unroll
	for (int i = 0; i < VALUES; i++) {
		count->want[i] = want->value[i];
		count->got[i] = got->value[i];
	}
}

/* Chosen at connect(), the product is there before the kernel's would be. */
static __always_inline bool begun(struct sock *sk)
{
	u32 stage = both_state(sk)->stage;

	if (stage == SYN_IS_OUT && sk->__sk_common.skc_state != BPF_TCP_SYN_SENT) {
		exchange(sk);
		dctcp_init(sk);
		exchange(sk);
		both_state(sk)->stage = stage = BEGUN;
	}
	return stage == BEGUN;
}

#define BOTH(op, sk, argument, kernels, ours)                                                     \
	({                                                                                        \
		struct seen before = {}, want = {}, got = {};                                     \
		u32 start = 0, result;                                                            \
		bool compared = begun(sk);                                                        \
		if (compared) {                                                                   \
			start = segments(sk);                                                     \
			look(sk, &before, 0, start);                                              \
			exchange(sk);                                                             \
			result = kernels;                                                         \
			look(sk, &want, result, start);                                           \
			look_kernels(sk, &want);                                                  \
			exchange(sk);                                                             \
			put_back(sk, &before);                                                    \
			start = segments(sk);                                                     \
		}                                                                                 \
		result = ours;                                                                    \
		if (compared) {                                                                   \
			look(sk, &got, result, start);                                            \
			look_ours(sk, &got);                                                      \
			compare(&want, &got, op, argument);                                       \
		}                                                                                 \
		result;                                                                           \
	})
#define DONE(call) ({ call; 0; })

SEC("struct_ops/both_init")
void BPF_PROG(both_init, struct sock *sk)
{
	bool ecn = tcp_sk(sk)->ecn_flags & TCP_ECN_OK;
	u32 state = sk->__sk_common.skc_state;
	struct seen want = {}, got = {};

	____hcc_dctcp_init(ctx, sk);
	/* Without ECN the state is another congestion control's now. */
	if (state == BPF_TCP_SYN_SENT) {
		both_state(sk)->stage = SYN_IS_OUT;
	} else if (ecn) {
		both_state(sk)->stage = SYN_IS_OUT;
		begun(sk);
		look(sk, &got, 0, segments(sk));
		want = got;
		look_ours(sk, &got);
		exchange(sk);
		look_kernels(sk, &want);
		exchange(sk);
		compare(&want, &got, BOTH_INIT, 0);
	}
}

SEC("struct_ops/both_ssthresh")
u32 BPF_PROG(both_ssthresh, struct sock *sk)
{
	return BOTH(BOTH_SSTHRESH, sk, 0, dctcp_ssthresh(sk), ____hcc_dctcp_ssthresh(ctx, sk));
}

SEC("struct_ops/both_avoid")
void BPF_PROG(both_avoid, struct sock *sk, u32 ack, u32 acked)
{
	BOTH(BOTH_AVOID, sk, 0, DONE(tcp_reno_cong_avoid(sk, ack, acked)),
	     DONE(____hcc_reno_avoid(ctx, sk, ack, acked)));
}

SEC("struct_ops/both_state_op")
void BPF_PROG(both_state_op, struct sock *sk, u8 state)
{
	BOTH(BOTH_STATE, sk, state, DONE(dctcp_state(sk, state)),
	     DONE(____hcc_dctcp_state(ctx, sk, state)));
}

SEC("struct_ops/both_event")
void BPF_PROG(both_event, struct sock *sk, enum tcp_ca_event ev)
{
	BOTH(BOTH_EVENT, sk, ev, DONE(dctcp_cwnd_event(sk, ev)),
	     DONE(____hcc_dctcp_event(ctx, sk, ev)));
}

/* Undoing is rare, but changes nothing: asked at every acknowledgement. */
SEC("struct_ops/both_in_ack")
void BPF_PROG(both_in_ack, struct sock *sk, u32 flags)
{
	BOTH(BOTH_IN_ACK, sk, 0, DONE(dctcp_update_alpha(sk, flags)),
	     DONE(____hcc_dctcp_in_ack(ctx, sk, flags)));
	if (both_state(sk)->stage == BEGUN)
		BOTH(BOTH_UNDO, sk, 0, dctcp_cwnd_undo(sk), ____hcc_dctcp_undo(ctx, sk));
}

SEC("struct_ops/both_undo")
u32 BPF_PROG(both_undo, struct sock *sk)
{
	return BOTH(BOTH_UNDO, sk, 0, dctcp_cwnd_undo(sk), ____hcc_dctcp_undo(ctx, sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops both_dctcp = {
	.init = (void *)both_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)both_ssthresh,
	.cong_avoid = (void *)both_avoid,
	.set_state = (void *)both_state_op,
	.cwnd_event = (void *)both_event,
	.in_ack_event = (void *)both_in_ack,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)both_undo,
	.name = "both_dctcp",
	.flags = TCP_CONG_NEEDS_ECN,
};
