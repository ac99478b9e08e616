// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all tracing programs share.  Kernel memory is read at offsets O_... that
 * tools.tracing.kernel_layout takes from the BTF of the running kernel: the headers that this
 * is compiled with may be those of another kernel, so their structs are not used.
 */
#define READ(to, from, offset) \
	bpf_probe_read_kernel(&(to), sizeof(to), (void *)((u64)(from) + (offset)))

#define HAS_IPV6 10	/* AF_INET6 */

static __always_inline u32 netns_of(u64 net)
{
	u32 inum = 0;

	READ(inum, net, O_NET_INUM);
	return inum;
}

static __always_inline u64 cgroup_of(u64 sk)
{
	u64 cgroup = 0, node = 0, id = 0;

	READ(cgroup, sk, O_SK_CGROUP);
	READ(node, cgroup, O_CGROUP_KN);
	READ(id, node, O_KN_ID);
	return id;
}

/* Who talks to whom. */
struct ends {
	u16 family, lport, rport, pad;	/* ports in host order */
	u32 netns, pad2;
	u8 local[16], remote[16];	/* IPv4 in the first four bytes */
};

static __always_inline void read_ends(u64 sk, struct ends *e)
{
	u64 net = 0;
	u16 port = 0;

	READ(e->family, sk, O_SK_FAMILY);
	READ(port, sk, O_INET_SPORT);	/* skc_num is gone once the socket is closed */
	e->lport = bpf_ntohs(port);
	READ(port, sk, O_SK_DPORT);
	e->rport = bpf_ntohs(port);
	READ(net, sk, O_SK_NET);
	e->netns = netns_of(net);
	if (e->family == HAS_IPV6) {
		READ(e->local, sk, O_SK_SADDR6);
		READ(e->remote, sk, O_SK_DADDR6);
	} else {
		bpf_probe_read_kernel(e->local, 4, (void *)(sk + O_SK_SADDR));
		bpf_probe_read_kernel(e->remote, 4, (void *)(sk + O_SK_DADDR));
	}
}
