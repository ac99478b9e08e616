// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every operation twice: first the kernel's own, whose result is noted and undone, then the
 * product's.  With F = 1 the two must agree to the bit; what differs is counted.  What the
 * kernel has lost (mend.bpf.h) is put right before: it is no part of the comparison.
 */
#include "mltcp.bpf.c"

enum shadow_op {
	SHADOW_INIT,
	SHADOW_SSTHRESH,
	SHADOW_AVOID,
	SHADOW_STATE,
	SHADOW_EVENT,
	SHADOW_ACKED,
	SHADOW_UNDO,
	SHADOW_OPS,
};

enum { WORDS = 13, PLAIN_WORDS = PRIV_OFFSET_U64 };

struct shadow_count {
	u64 calls;
	u64 mismatches;
	u64 ticked;	/* the clock moved between the two: not compared */
	u64 overruns;	/* the kernel's own wrote where the product keeps its state */
	u32 want[4], got[4];	/* of the last mismatch: cwnd, its count, ssthresh, result */
	u32 word;	/* first word of icsk_ca_priv that differed, or PLAIN_WORDS */
};

const enum shadow_op *export_shadow_op __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHADOW_OPS);
	__type(key, u32);
	__type(value, struct shadow_count);
} shadow_counts SEC(".maps");

struct window {
	u64 priv[WORDS];
	u32 cwnd, cwnd_cnt, ssthresh, result;
};

static __always_inline u64 *words(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline void look(struct sock *sk, struct window *w)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const u64 *priv = words(sk);

#pragma unroll
	for (int i = 0; i < WORDS; i++)
		w->priv[i] = priv[i];
	w->cwnd = tp->snd_cwnd;
	w->cwnd_cnt = tp->snd_cwnd_cnt;
	w->ssthresh = tp->snd_ssthresh;
}

static __always_inline void put_back(struct sock *sk, const struct window *w)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 *priv = words(sk);

#pragma unroll
	for (int i = 0; i < WORDS; i++)
		priv[i] = w->priv[i];
	tp->snd_cwnd = w->cwnd;
	tp->snd_cwnd_cnt = w->cwnd_cnt;
	tp->snd_ssthresh = w->ssthresh;
}

/* Note what the plain algorithm did, and undo it.  `before` comes back as the wanted window. */
static __always_inline void rewind_to(struct sock *sk, struct window *before, u32 op, u32 result)
{
	struct window want;
	struct shadow_count *count = bpf_map_lookup_elem(&shadow_counts, &op);

	look(sk, &want);
	put_back(sk, before);
	want.result = result;
#pragma unroll
	for (int i = PLAIN_WORDS; i < WORDS; i++)
		if (count && want.priv[i] != before->priv[i])
			__sync_fetch_and_add(&count->overruns, 1);
	*before = want;
}

static __always_inline void compare(struct sock *sk, const struct window *want, u32 op,
				    u32 result, u64 tick)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const u64 *priv = words(sk);
	struct shadow_count *count = bpf_map_lookup_elem(&shadow_counts, &op);
	u32 word = PLAIN_WORDS;

	if (!count)
		return;
	__sync_fetch_and_add(&count->calls, 1);
	/* cubic reads jiffies. */
	if (bpf_jiffies64() != tick) {
		__sync_fetch_and_add(&count->ticked, 1);
		return;
	}
#pragma unroll
	for (int i = PLAIN_WORDS - 1; i >= 0; i--)
		if (priv[i] != want->priv[i])
			word = i;
	if (word == PLAIN_WORDS && tp->snd_cwnd == want->cwnd && result == want->result &&
	    tp->snd_cwnd_cnt == want->cwnd_cnt && tp->snd_ssthresh == want->ssthresh)
		return;
	__sync_fetch_and_add(&count->mismatches, 1);
	count->want[0] = want->cwnd;
	count->want[1] = want->cwnd_cnt;
	count->want[2] = want->ssthresh;
	count->want[3] = want->result;
	count->got[0] = tp->snd_cwnd;
	count->got[1] = tp->snd_cwnd_cnt;
	count->got[2] = tp->snd_ssthresh;
	count->got[3] = result;
	count->word = word;
}

/* Only sockets of a job: the others are not what is tested. */
#define TWICE(op, sk, plain, ours)                                                                \
	({                                                                                        \
		struct window window;                                                             \
		u64 tick = bpf_jiffies64();                                                       \
		look(sk, &window);                                                                \
		u32 wanted = plain;                                                               \
		rewind_to(sk, &window, op, wanted);                                               \
		u32 result = ours;                                                                \
		compare(sk, &window, op, result, tick);                                           \
		result;                                                                           \
	})
#define DONE(call) ({ call; 0; })

#define SHADOW_AVOID_OP(name, plain, ours)                                                        \
	SEC("struct_ops/shadow_" #name "_avoid")                                                  \
	void BPF_PROG(shadow_##name##_avoid, struct sock *sk, u32 ack, u32 acked)                 \
	{                                                                                         \
		TWICE(SHADOW_AVOID, sk, DONE(plain(sk, ack, acked)),                              \
		      DONE(____##ours(ctx, sk, ack, acked)));                                     \
	}

#define SHADOW_U32_OP(name, which, op, plain, ours)                                               \
	SEC("struct_ops/shadow_" #name "_" #which)                                                \
	u32 BPF_PROG(shadow_##name##_##which, struct sock *sk)                                    \
	{                                                                                         \
		return TWICE(op, sk, plain(sk), ____##ours(ctx, sk));                             \
	}

#define SHADOW_CUBIC_OPS(name, init_, state_, event_, acked_)                                     \
	SEC("struct_ops/shadow_" #name "_init")                                                   \
	void BPF_PROG(shadow_##name##_init, struct sock *sk)                                      \
	{                                                                                         \
		TWICE(SHADOW_INIT, sk, DONE(cubictcp_init(sk)), DONE(____##init_(ctx, sk)));      \
	}                                                                                         \
	SEC("struct_ops/shadow_" #name "_state")                                                  \
	void BPF_PROG(shadow_##name##_state, struct sock *sk, u8 state)                           \
	{                                                                                         \
		mend(sk, state, cubictcp_recalc_ssthresh);                                        \
		TWICE(SHADOW_STATE, sk, DONE(cubictcp_state(sk, state)),                          \
		      DONE(____##state_(ctx, sk, state)));                                        \
	}                                                                                         \
	SEC("struct_ops/shadow_" #name "_event")                                                  \
	void BPF_PROG(shadow_##name##_event, struct sock *sk, enum tcp_ca_event ev)               \
	{                                                                                         \
		TWICE(SHADOW_EVENT, sk, DONE(cubictcp_cwnd_event(sk, ev)),                        \
		      DONE(____##event_(ctx, sk, ev)));                                           \
	}                                                                                         \
	SEC("struct_ops/shadow_" #name "_acked")                                                  \
	void BPF_PROG(shadow_##name##_acked, struct sock *sk, const struct ack_sample *sample)    \
	{                                                                                         \
		mend(sk, ca_state(sk), cubictcp_recalc_ssthresh);                                 \
		TWICE(SHADOW_ACKED, sk, DONE(cubictcp_acked(sk, sample)),                         \
		      DONE(____##acked_(ctx, sk, sample)));                                       \
	}

SHADOW_AVOID_OP(reno, tcp_reno_cong_avoid, hcc_reno_avoid)
SHADOW_U32_OP(reno, ssthresh, SHADOW_SSTHRESH, tcp_reno_ssthresh, hcc_reno_ssthresh)
SHADOW_U32_OP(reno, undo, SHADOW_UNDO, tcp_reno_undo_cwnd, hcc_reno_undo)

SHADOW_AVOID_OP(cubic, cubictcp_cong_avoid, hcc_cubic_avoid)
SHADOW_U32_OP(cubic, ssthresh, SHADOW_SSTHRESH, cubictcp_recalc_ssthresh, hcc_cubic_ssthresh)
SHADOW_CUBIC_OPS(cubic, hcc_cubic_init, hcc_cubic_state, hcc_cubic_event, hcc_cubic_acked)

SHADOW_AVOID_OP(host, cubictcp_cong_avoid, hcc_host_avoid)
SHADOW_U32_OP(host, ssthresh, SHADOW_SSTHRESH, cubictcp_recalc_ssthresh, hcc_host_ssthresh)
SHADOW_CUBIC_OPS(host, hcc_host_init, hcc_host_state, hcc_host_event, hcc_host_acked)

SEC(".struct_ops")
struct tcp_congestion_ops shadow_reno = {
	.init = (void *)hcc_reno_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)shadow_reno_ssthresh,
	.cong_avoid = (void *)shadow_reno_avoid,
	.cwnd_event = (void *)hcc_reno_event,
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)shadow_reno_undo,
	.name = "shadow_reno",
};

SEC(".struct_ops")
struct tcp_congestion_ops shadow_cubic = {
	.init = (void *)shadow_cubic_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)shadow_cubic_ssthresh,
	.cong_avoid = (void *)shadow_cubic_avoid,
	.set_state = (void *)shadow_cubic_state,
	.cwnd_event = (void *)shadow_cubic_event,
	.pkts_acked = (void *)shadow_cubic_acked,
	.undo_cwnd = (void *)shadow_reno_undo,
	.name = "shadow_cubic",
};

SEC(".struct_ops")
struct tcp_congestion_ops shadow_host = {
	.init = (void *)shadow_host_init,
	.release = (void *)hcc_host_release,
	.ssthresh = (void *)shadow_host_ssthresh,
	.cong_avoid = (void *)shadow_host_avoid,
	.set_state = (void *)shadow_host_state,
	.cwnd_event = (void *)shadow_host_event,
	.pkts_acked = (void *)shadow_host_acked,
	.undo_cwnd = (void *)shadow_reno_undo,
	.name = "shadow_host",
};
