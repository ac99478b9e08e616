// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Mark CE above a queue length, as a data-centre switch does (DCTCP's K), for kernels
 * without the red qdisc: on egress, before the packet is queued, look at the root qdisc.
 * Built with -DTHRESHOLD=packets.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct qdisc_skb_head {
	__u32 qlen;
};
struct Qdisc {
	struct qdisc_skb_head q;
};
struct net_device {
	struct Qdisc *qdisc;
};
struct sk_buff {
	struct net_device *dev;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;

SEC("tc")
int mark(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	if (skb->dev->qdisc->q.qlen >= THRESHOLD)
		bpf_skb_ecn_set_ce(ctx);
	return -1; /* TC_ACT_UNSPEC: others still run */
}

char LICENSE[] SEC("license") = "GPL";
