// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a BPF congestion control costs before it does anything, and what the
 * kernel's cubic costs when BPF calls it: two controls with the same hooks.
 *
 *   null  every hook returns at once; the window stays where init put it
 *   pass  every hook calls the kernel's cubic
 */
#include "kern.h"

char LICENSE[] SEC("license") = "GPL";

const volatile u32 fixed_window = 4;	/* packets */

SEC("struct_ops/bench_null_init")
void BPF_PROG(bench_null_init, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd = fixed_window;
	tcp_sk(sk)->snd_ssthresh = fixed_window;
}

SEC("struct_ops/bench_null_avoid")
void BPF_PROG(bench_null_avoid, struct sock *sk, u32 ack, u32 acked)
{
}

SEC("struct_ops/bench_null_state")
void BPF_PROG(bench_null_state, struct sock *sk, u8 new_state)
{
}

SEC("struct_ops/bench_null_event")
void BPF_PROG(bench_null_event, struct sock *sk, enum tcp_ca_event ev)
{
}

SEC("struct_ops/bench_null_acked")
void BPF_PROG(bench_null_acked, struct sock *sk, const struct ack_sample *sample)
{
}

SEC("struct_ops/bench_null_ssthresh")
u32 BPF_PROG(bench_null_ssthresh, struct sock *sk)
{
	return fixed_window;
}

SEC("struct_ops/bench_null_undo")
u32 BPF_PROG(bench_null_undo, struct sock *sk)
{
	return fixed_window;
}

SEC(".struct_ops")
struct tcp_congestion_ops bench_null = {
	.init = (void *)bench_null_init,
	.ssthresh = (void *)bench_null_ssthresh,
	.cong_avoid = (void *)bench_null_avoid,
	.set_state = (void *)bench_null_state,
	.cwnd_event = (void *)bench_null_event,
	.pkts_acked = (void *)bench_null_acked,
	.undo_cwnd = (void *)bench_null_undo,
	.name = "bench_null",
};

SEC("struct_ops/bench_pass_init")
void BPF_PROG(bench_pass_init, struct sock *sk)
{
	cubictcp_init(sk);
}

SEC("struct_ops/bench_pass_avoid")
void BPF_PROG(bench_pass_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/bench_pass_state")
void BPF_PROG(bench_pass_state, struct sock *sk, u8 new_state)
{
	cubictcp_state(sk, new_state);
}

SEC("struct_ops/bench_pass_event")
void BPF_PROG(bench_pass_event, struct sock *sk, enum tcp_ca_event ev)
{
	cubictcp_cwnd_event(sk, ev);
}

SEC("struct_ops/bench_pass_acked")
void BPF_PROG(bench_pass_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops/bench_pass_ssthresh")
u32 BPF_PROG(bench_pass_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops/bench_pass_undo")
u32 BPF_PROG(bench_pass_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops bench_pass = {
	.init = (void *)bench_pass_init,
	.ssthresh = (void *)bench_pass_ssthresh,
	.cong_avoid = (void *)bench_pass_avoid,
	.set_state = (void *)bench_pass_state,
	.cwnd_event = (void *)bench_pass_event,
	.pkts_acked = (void *)bench_pass_acked,
	.undo_cwnd = (void *)bench_pass_undo,
	.name = "bench_pass",
};
