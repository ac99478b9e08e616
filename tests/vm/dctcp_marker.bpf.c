// SPDX-License-Identifier: GPL-2.0-only
/*
 * A link that marks and loses packets by their number, so that every run is like the last:
 * stretches with many marks, with some and with none, a lost packet now and then, and the
 * first transmissions of lone packets of one length, which end in a time-out.  For ingress: a
 * sender that sees its packet dropped on the way out does not call that a loss.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define DATA_BYTES 200	/* longer than an acknowledgement */
#define LONE_BYTES 399	/* frame with 333 bytes of data */
#define TAIL_LOSSES 3	/* the packet, its probe and a retransmission */
#define PASS -1		/* TC_ACT_UNSPEC */
#define DROP 2		/* TC_ACT_SHOT */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("tc")
int mark(struct __sk_buff *skb)
{
	__u32 key = skb->len == LONE_BYTES;
	__u64 *count = bpf_map_lookup_elem(&seen, &key), n;

	if (skb->len < DATA_BYTES || !count)
		return PASS;
	n = __sync_fetch_and_add(count, 1);
	if (key)
		return n % (TAIL_LOSSES + 1) < TAIL_LOSSES ? DROP : PASS;
	if (n % 601 == 600)
		return DROP;
	/* Sixteenths of each 64 packets. */
	if ((n * 2654435761u >> 28 & 15) < (__u64[]){ 0, 0, 1, 0, 4, 0, 0, 16 }[n >> 6 & 7])
		bpf_skb_ecn_set_ce(skb);
	return PASS;
}

char LICENSE[] SEC("license") = "GPL";
