// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Loses LOST_PERMILLE of 1,000 packets by chance, as netem would, which not every kernel has. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int lose(struct __sk_buff *skb)
{
	return bpf_get_prandom_u32() % 1000 < LOST_PERMILLE ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
