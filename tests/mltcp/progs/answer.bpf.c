// SPDX-License-Identifier: GPL-2.0-only
/* A congestion control that always gives the same answer, and counts how often it is asked. */
#include "kern.h"

char LICENSE[] SEC("license") = "GPL";

#define ANSWER 7	/* packets */

u64 asked;

SEC("struct_ops/answer_ssthresh")
u32 BPF_PROG(answer_ssthresh, struct sock *sk)
{
	__sync_fetch_and_add(&asked, 1);
	return ANSWER;
}

SEC("struct_ops/answer_avoid")
void BPF_PROG(answer_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/answer_undo")
u32 BPF_PROG(answer_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops answer = {
	.ssthresh = (void *)answer_ssthresh,
	.cong_avoid = (void *)answer_avoid,
	.undo_cwnd = (void *)answer_undo,
	.name = "hcct_answer",
};
