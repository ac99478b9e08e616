// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A packet between namespaces carries its socket's random hash along, and the kernel's
 * router uses that instead of the packet's headers.  A real switch knows headers only: so
 * every packet that enters a switch of the lab loses its hash.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int forget_hash(struct __sk_buff *skb)
{
	bpf_set_hash_invalid(skb);
	return -1; /* TC_ACT_UNSPEC: others still run */
}

char LICENSE[] SEC("license") = "GPL";
