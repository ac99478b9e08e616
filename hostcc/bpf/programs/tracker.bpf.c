// SPDX-License-Identifier: GPL-2.0-only
/*
 * Assigns sockets to jobs, and sets their congestion control.
 *
 *   job_sockops   on a job's cgroup: new sockets of the job
 *   rule_sockops  on the agent's cgroup root: new sockets that match a port rule
 *   switch_tcp    iterator: existing sockets, one network namespace per run
 *   dump_tcp      iterator: one record per socket of a job
 *
 * A socket whose owner chose its congestion control, or a pace, is left alone.
 */
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* First eight bytes of every name that this agent registers: "hcc_" and its tag. */
const volatile u64 ca_tag;

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, u64);
	__type(value, u32);
} cgroup_slot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HCC_PORT_RULES);
	__type(key, struct hcc_port_key);
	__type(value, u32);
} port_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HCC_CGROUPS);
	__type(key, u64);
	__type(value, u32);
} cgroup_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u32);
	__type(value, struct hcc_ca_name);
} job_ca SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hcc_switch);
} switch_req SEC(".maps");

static __always_inline u32 rule_slot(u16 lport, u16 rport)
{
	struct hcc_port_key key = { .port = lport, .remote = 0 };
	u32 *slot = bpf_map_lookup_elem(&port_rules, &key);

	if (slot)
		return *slot;
	key.port = rport;
	key.remote = 1;
	slot = bpf_map_lookup_elem(&port_rules, &key);
	return slot ? *slot : 0;
}

/*
 * Whether a congestion control must also be set on listeners.  Only DCTCP's: a listener needs
 * it to accept ECN of a SYN that is itself marked.  Accepted sockets inherit it even after the
 * agent has died, so no other congestion control is set on listeners.
 */
static __always_inline bool needed_on_listeners(const struct hcc_ca_name *ca)
{
	return ((const u64 *)ca->name)[1] == 0x70637463645fULL; /* "_dctcp" after the tag */
}

/* Assign the socket to the job and set its congestion control. */
static void adopt(struct bpf_sock_ops *ctx, u32 slot, bool grouped)
{
	struct bpf_sock *sk = ctx->sk;
	struct hcc_flow *flow;
	struct hcc_ca_name *ca;
	struct tcp_sock *tp;
	struct inet_connection_sock *icsk;

	if (!sk || !slot)
		return;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow || !tp)
		return;
	flow->grouped = grouped;
	if (flow->slot == slot && flow->flags & HCC_FLOW_MANAGED)
		return;
	icsk = &tp->inet_conn;
	flow->slot = slot;
	if (flow->flags & HCC_FLOW_FOREIGN)
		return;
	if (!flow->flags && (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt) ||
			     ((struct sock *)tp)->sk_max_pacing_rate != ~0UL)) {
		flow->flags = HCC_FLOW_FOREIGN;
		return;
	}
	ca = bpf_map_lookup_elem(&job_ca, &slot);
	if (!ca || !ca->name[0])
		return;
	if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB && !needed_on_listeners(ca))
		return;
	flow->flags = HCC_FLOW_MANAGED;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, ca->name, sizeof(ca->name)))
		flow->flags = HCC_FLOW_RETURNED;
}

static __always_inline int on_sockops(struct bpf_sock_ops *ctx, u32 slot, bool grouped)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		adopt(ctx, slot, grouped);
		break;
	}
	return 1;
}

SEC("sockops")
int job_sockops(struct bpf_sock_ops *ctx)
{
	u32 *slot = bpf_get_local_storage(&cgroup_slot, 0);

	return slot ? on_sockops(ctx, *slot, true) : 1;
}

SEC("sockops")
int rule_sockops(struct bpf_sock_ops *ctx)
{
	u32 slot = rule_slot(ctx->local_port, bpf_ntohl(ctx->remote_port));
	struct bpf_sock *sk = ctx->sk;
	struct hcc_flow *flow;

	if (!slot || !sk)
		return 1;
	/* The program of a job's cgroup has run before this one, and takes precedence. */
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	return flow && flow->grouped ? 1 : on_sockops(ctx, slot, false);
}

static __always_inline void read_ca_name(struct tcp_sock *tp, char *name)
{
	struct tcp_congestion_ops___kernel *ops;

	ops = (struct tcp_congestion_ops___kernel *)tp->inet_conn.icsk_ca_ops;
	bpf_core_read_str(name, HCC_CA_NAME_LEN, &ops->name);
}

/* Whether the socket runs a congestion control that this agent registered. */
static __always_inline bool runs_own_ca(struct tcp_sock *tp)
{
	char name[HCC_CA_NAME_LEN] __attribute__((aligned(8))) = {};
	u64 its;

	read_ca_name(tp, name);
	__builtin_memcpy(&its, name, sizeof(its));
	return its == ca_tag;
}

/*
 * Whether its owner or an administrator chose its congestion control.  The agent's own changes
 * set the same bit and outlive it.  So a name of the agent (left by a killed one) or the default
 * (restored by an earlier one) is nobody's choice.
 */
static __always_inline bool chosen_by_others(struct tcp_sock *tp, const char *default_ca)
{
	char name[HCC_CA_NAME_LEN] __attribute__((aligned(8))) = {};

	if (!BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt))
		return false;
	read_ca_name(tp, name);
	if (*(u64 *)name == ca_tag)
		return false;
	return ((u64 *)name)[0] != ((u64 *)default_ca)[0] ||
	       ((u64 *)name)[1] != ((u64 *)default_ca)[1];
}

/* Job slot of an existing socket: by cgroup, as stored before, or by port rule. */
static __always_inline u32 find_slot(struct tcp_sock *tp, struct hcc_flow *flow)
{
	struct sock *sk = (struct sock *)tp;
	u64 cgroup_id;
	u32 *slot;

	cgroup_id = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	slot = bpf_map_lookup_elem(&cgroup_ids, &cgroup_id);
	if (slot)
		return *slot;
	if (flow && flow->slot)
		return flow->slot;
	return rule_slot(sk->__sk_common.skc_num, bpf_ntohs(sk->__sk_common.skc_dport));
}

/*
 * Remove the pace of a socket that may be parked (path.bpf.h).  A congestion control cannot
 * set options when it is released, and its successor would keep the pace.
 */
static __always_inline void clear_pacing(struct tcp_sock *tp)
{
	u32 unlimited = ~0U;

	if (((struct sock *)tp)->sk_max_pacing_rate != ~0UL)
		bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &unlimited, sizeof(unlimited));
}

SEC("iter/tcp")
int switch_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct hcc_ca_name *ca;
	struct hcc_switch *req;
	struct hcc_flow *flow;
	struct tcp_sock *tp;
	u32 zero = 0, slot;
	bool leftover;
	long err;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	req = bpf_map_lookup_elem(&switch_req, &zero);
	if (!tp || !req)
		return 0;
	flow = bpf_sk_storage_get(&flows, tp, 0, 0);
	slot = find_slot(tp, flow);
	/* Switched by a killed agent of the same name; its job may be gone. */
	leftover = (!flow || !flow->flags) && runs_own_ca(tp);
	if (slot >= HCC_MAX_JOBS || (req->slot && req->slot != slot))
		return 0;
	if (!slot && !(leftover && req->to_default))
		return 0;
	req->seen++;
	if (flow && flow->flags & HCC_FLOW_MANAGED && !runs_own_ca(tp)) {
		/* Changed by hand since: leave it alone from now on. */
		flow->flags = HCC_FLOW_FOREIGN;
	}
	if (flow && flow->flags & HCC_FLOW_FOREIGN) {
		req->foreign++;
		return 0;
	}
	if (req->to_default) {
		if (flow && flow->flags & HCC_FLOW_MANAGED)
			flow->flags = HCC_FLOW_RETURNED;
		else if (!leftover)
			return 0;
		clear_pacing(tp);
		err = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, req->default_ca,
				     sizeof(req->default_ca));
		goto count;
	}
	ca = bpf_map_lookup_elem(&job_ca, &slot);
	if (!ca || !ca->name[0])
		return 0;
	if (!flow) {
		flow = bpf_sk_storage_get(&flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!flow)
			return 0;
		if (chosen_by_others(tp, req->default_ca) ||
		    (!leftover && ((struct sock *)tp)->sk_max_pacing_rate != ~0UL)) {
			flow->slot = slot;
			flow->flags = HCC_FLOW_FOREIGN;
			req->foreign++;
			return 0;
		}
	}
	if (flow->flags & HCC_FLOW_MANAGED || leftover)
		clear_pacing(tp);
	flow->slot = slot;
	if (skc->skc_state == TCP_LISTEN && !needed_on_listeners(ca)) {
		if (!(flow->flags & HCC_FLOW_MANAGED) && !leftover)
			return 0;
		flow->flags = HCC_FLOW_RETURNED;
		err = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, req->default_ca,
				     sizeof(req->default_ca));
		goto count;
	}
	flow->flags = HCC_FLOW_MANAGED;
	err = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, ca->name, sizeof(ca->name));
	if (err)
		flow->flags = HCC_FLOW_RETURNED;
count:
	if (err)
		req->failed++;
	else
		req->switched++;
	return 0;
}

SEC("iter/tcp")
int dump_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct hcc_flow_record r;
	struct hcc_flow *flow;
	struct tcp_sock *tp;
	struct sock *sk;
	u32 slot;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	flow = bpf_sk_storage_get(&flows, tp, 0, 0);
	slot = find_slot(tp, flow);
	if (!slot)
		return 0;
	sk = (struct sock *)tp;
	__builtin_memset(&r, 0, sizeof(r));
	r.slot = slot;
	r.family = skc->skc_family;
	r.state = skc->skc_state;
	r.managed = flow ? flow->flags : 0;
	if (r.family == AF_INET6) {
		BPF_CORE_READ_INTO(&r.laddr, skc, skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&r.raddr, skc, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		__builtin_memcpy(r.laddr, &(u32){ skc->skc_rcv_saddr }, 4);
		__builtin_memcpy(r.raddr, &(u32){ skc->skc_daddr }, 4);
	}
	r.lport = skc->skc_num;
	r.rport = bpf_ntohs(skc->skc_dport);
	r.cwnd = tp->snd_cwnd;
	r.ssthresh = tp->snd_ssthresh;
	r.srtt_us = tp->srtt_us >> 3;
	r.min_rtt_us = tp->rtt_min.s[0].v;
	r.mss_bytes = tp->mss_cache;
	r.retrans = tp->total_retrans;
	r.inflight = tp->packets_out;
	r.bytes_acked = tp->bytes_acked;
	r.pacing_bps = sk->sk_pacing_rate;
	r.cgroup_id = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	read_ca_name(tp, r.ca_name);
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}
