// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What arrives at a spine, by flow, source port and mark: ground truth of who takes which
 * path, whatever the agents say.  Only packets with data count.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LEAST_BYTES 200 /* more than an acknowledgement has */
#define FIRST_PORT 5000 /* of jobs: hostcc.lab.launch */
#define LAST_PORT 8299

struct way {
	__u32 src;
	__u32 dst;
	__u16 dst_port;
	__u16 src_port;
	__u32 dscp;
};

struct seen {
	__u64 bytes;
	__u64 first_ns;
	__u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct way);
	__type(value, struct seen);
} ways SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} resets SEC(".maps");

static __always_inline int of_job(__u16 port)
{
	return port >= FIRST_PORT && port <= LAST_PORT;
}

SEC("tc")
int see_flow(struct __sk_buff *skb)
{
	struct seen *old, first = {};
	struct way key = {};
	struct iphdr ip;
	struct tcphdr tcp;
	__u64 now, *count;
	__u32 zero = 0;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return -1; /* TC_ACT_UNSPEC: others still run */
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.protocol != IPPROTO_TCP)
		return -1;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + ip.ihl * 4, &tcp, sizeof(tcp)))
		return -1;
	key.src_port = bpf_ntohs(tcp.source);
	key.dst_port = bpf_ntohs(tcp.dest);
	/* A refused connection is answered with sequence number 0; that breaks nothing. */
	if (tcp.rst && tcp.seq && (of_job(key.src_port) || of_job(key.dst_port))) {
		count = bpf_map_lookup_elem(&resets, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	if (skb->len < LEAST_BYTES)
		return -1;
	key.src = bpf_ntohl(ip.saddr);
	key.dst = bpf_ntohl(ip.daddr);
	key.dscp = ip.tos >> 2;
	now = bpf_ktime_get_ns();
	old = bpf_map_lookup_elem(&ways, &key);
	if (old) {
		__sync_fetch_and_add(&old->bytes, skb->len);
		old->last_ns = now;
		return -1;
	}
	first.bytes = skb->len;
	first.first_ns = first.last_ns = now;
	bpf_map_update_elem(&ways, &key, &first, BPF_ANY);
	return -1;
}

char LICENSE[] SEC("license") = "GPL";
