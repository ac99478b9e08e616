// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets DSCP, and if configured a pace or a window bound, on jobs' sockets.
 *
 *   mark_sockops            on a job's cgroup: TCP sockets as they connect or are accepted
 *   mark_rules              on the agent's cgroup root: the same for jobs found by port
 *   mark_connect4/6, mark_sendmsg4/6   on a job's cgroup: UDP sockets as they are used
 *   mark_tcp                iterator: TCP sockets that exist already
 *
 * A socket that its application marked itself is left alone unless MARK_FORCE is set.  The
 * previous values are stored, and restored when the job is no longer marked.
 */
#include "kern.h"
#include "mark.h"
#include "flow_owner.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define SOL_IP 0
#define SOL_IPV6 41
#define IP_TOS 1
#define IPV6_TCLASS 67
#define ECN_MASK 3
#define TCP_BPF_SNDCWND_CLAMP 1002
#define INT_MAX 0x7fffffff

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, u64);
	__type(value, u32);
} mark_slot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MARK_CGROUPS);
	__type(key, u64);
	__type(value, u32);
} mark_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MARK_PORTS);
	__type(key, struct mark_port);
	__type(value, u32);
} mark_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MARK_JOBS);
	__type(key, u32);
	__type(value, struct mark_conf);
} mark_confs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct mark_walk);
} mark_walk SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct mark_sock);
} mark_socks SEC(".maps");

const enum mark_flags *export_mark_flags __attribute__((unused));
const enum mark_limits *export_mark_limits __attribute__((unused));

enum outcome { NOTHING, SET, FOREIGN, FAILED };

static __always_inline struct mark_conf *conf_of(u32 slot)
{
	return slot ? bpf_map_lookup_elem(&mark_confs, &slot) : 0;
}

static __always_inline bool has_strays(const struct mark_conf *c)
{
	return c->stray || c->stray_pace || c->stray_clamp;
}

/* `ctx` is any context of bpf_setsockopt; IPv6 sockets have an option of their own. */
static __always_inline int set_tos(void *ctx, bool v6, u32 tos)
{
	int value = tos;

	if (v6)
		return bpf_setsockopt(ctx, SOL_IPV6, IPV6_TCLASS, &value, sizeof(value));
	return bpf_setsockopt(ctx, SOL_IP, IP_TOS, &value, sizeof(value));
}

static __always_inline u32 get_tos(void *ctx, bool v6)
{
	int value = 0;

	if (v6)
		bpf_getsockopt(ctx, SOL_IPV6, IPV6_TCLASS, &value, sizeof(value));
	else
		bpf_getsockopt(ctx, SOL_IP, IP_TOS, &value, sizeof(value));
	return value < 0 ? 0 : value & ~ECN_MASK;
}

static __always_inline enum outcome mark(void *ctx, struct mark_sock *its, const struct mark_conf *c,
					 bool v6)
{
	bool on = c && c->flags & MARK_ON, ours = its->flags & MARK_ON;
	u32 now = get_tos(ctx, v6);

	if (!ours && c && c->stray && now == c->stray) {	/* set by a killed agent */
		its->tos = now;
		its->own_tos = 0;
		its->flags |= MARK_ON;
		ours = true;
	}
	if (ours && now != its->tos) {	/* the application has set another one since */
		its->flags &= ~MARK_ON;
		ours = false;
	}
	if (!on && !ours)
		return NOTHING;
	if (!on) {
		its->flags &= ~MARK_ON;
		return set_tos(ctx, v6, its->own_tos) ? FAILED : SET;
	}
	if (ours && now == c->tos)
		return NOTHING;
	if (!ours) {
		if (now && !(c->flags & MARK_FORCE))
			return FOREIGN;
		its->own_tos = now;
	}
	if (set_tos(ctx, v6, c->tos))
		return FAILED;
	its->tos = c->tos;
	its->flags |= MARK_ON;
	return SET;
}

static __always_inline void mark_tcp_socket(struct bpf_sock_ops *ctx, u32 slot)
{
	struct mark_conf *c = conf_of(slot);
	struct bpf_sock *sk = ctx->sk;
	struct mark_sock *its;

	if (!c || !c->flags || !sk)
		return;
	its = bpf_sk_storage_get(&mark_socks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!its)
		return;
	its->slot = slot;
	mark(ctx, its, c, ctx->family == AF_INET6);
}

static __always_inline bool is_connection_event(u32 op)
{
	return op == BPF_SOCK_OPS_TCP_CONNECT_CB || op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ||
	       op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
}

SEC("sockops")
int mark_sockops(struct bpf_sock_ops *ctx)
{
	u32 *slot = bpf_get_local_storage(&mark_slot, 0);

	if (slot && is_connection_event(ctx->op))
		mark_tcp_socket(ctx, *slot);
	return 1;
}

static __always_inline u32 slot_of_ports(u16 local, u16 remote)
{
	struct mark_port key = { .port = local };
	u32 *slot = bpf_map_lookup_elem(&mark_ports, &key);

	if (slot)
		return *slot;
	key.port = remote;
	key.remote = 1;
	slot = bpf_map_lookup_elem(&mark_ports, &key);
	return slot ? *slot : 0;
}

SEC("sockops")
int mark_rules(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct hcc_flow *flow;

	if (!is_connection_event(ctx->op) || !sk)
		return 1;
	/* A job's cgroup takes precedence over a rule, even if that job is not marked. */
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (!flow || !flow->grouped)
		mark_tcp_socket(ctx, slot_of_ports(ctx->local_port, bpf_ntohl(ctx->remote_port)));
	return 1;
}

static __always_inline int mark_udp_socket(struct bpf_sock_addr *ctx, bool v6)
{
	u32 *slot = bpf_get_local_storage(&mark_slot, 0);
	struct mark_conf *c;
	struct mark_sock *its;

	if (!slot || ctx->type != 2 /* SOCK_DGRAM */ || !ctx->sk)
		return 1;
	c = conf_of(*slot);
	its = bpf_sk_storage_get(&mark_socks, ctx->sk, 0,
				 c && c->flags ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!its)
		return 1;
	its->slot = *slot;
	mark(ctx, its, c, v6);
	return 1;
}

SEC("cgroup/connect4")
int mark_connect4(struct bpf_sock_addr *ctx)
{
	return mark_udp_socket(ctx, false);
}

SEC("cgroup/connect6")
int mark_connect6(struct bpf_sock_addr *ctx)
{
	return mark_udp_socket(ctx, true);
}

SEC("cgroup/sendmsg4")
int mark_sendmsg4(struct bpf_sock_addr *ctx)
{
	return mark_udp_socket(ctx, false);
}

SEC("cgroup/sendmsg6")
int mark_sendmsg6(struct bpf_sock_addr *ctx)
{
	return mark_udp_socket(ctx, true);
}

/* bpf_setsockopt takes an int here: at most 4 GB/s; ~0 means "no limit". */
static __always_inline void set_pace(struct tcp_sock *tp, u64 pace)
{
	u32 value = pace > ~0U ? ~0U : pace;

	bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value));
}

/* Set a socket's pace and window bound, or restore its previous ones. */
static __always_inline void apply_rate_share(struct tcp_sock *tp, struct mark_sock *its,
				  const struct mark_conf *c)
{
	struct sock *sk = (struct sock *)tp;
	u32 want = c ? c->flags & (MARK_PACE | MARK_CLAMP) : 0;
	int clamp;

	if (c && c->stray_pace && !(its->flags & MARK_PACE) &&
	    sk->sk_max_pacing_rate == c->stray_pace) {	/* set by a killed agent */
		its->own_pace = ~0ULL;
		its->flags |= MARK_PACE;
	}
	if (c && c->stray_clamp && !(its->flags & MARK_CLAMP) &&
	    tp->snd_cwnd_clamp == c->stray_clamp) {
		its->own_clamp = ~0U;
		its->flags |= MARK_CLAMP;
	}
	if (want & MARK_PACE) {
		if (!(its->flags & MARK_PACE))
			its->own_pace = sk->sk_max_pacing_rate;
		if (sk->sk_max_pacing_rate != c->pace)
			set_pace(tp, c->pace);
		its->flags |= MARK_PACE;
	} else if (its->flags & MARK_PACE) {
		set_pace(tp, its->own_pace);
		its->flags &= ~MARK_PACE;
	}
	if (want & MARK_CLAMP) {
		if (!(its->flags & MARK_CLAMP))
			its->own_clamp = tp->snd_cwnd_clamp;
		clamp = c->clamp;
		if (tp->snd_cwnd_clamp != clamp)
			bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &clamp, sizeof(clamp));
		its->flags |= MARK_CLAMP;
	} else if (its->flags & MARK_CLAMP) {
		/* The kernel's own "no bound" is ~0, which the helper refuses as negative. */
		clamp = its->own_clamp > INT_MAX ? INT_MAX : its->own_clamp;
		bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &clamp, sizeof(clamp));
		its->flags &= ~MARK_CLAMP;
	}
}

static __always_inline u32 slot_of(struct tcp_sock *tp, struct sock_common *skc)
{
	u64 id = BPF_CORE_READ((struct sock *)tp, sk_cgrp_data.cgroup, kn, id);
	u32 *slot = bpf_map_lookup_elem(&mark_cgroups, &id);

	return slot ? *slot : slot_of_ports(skc->skc_num, bpf_ntohs(skc->skc_dport));
}

SEC("iter/tcp")
int mark_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct mark_walk *walk;
	struct mark_sock *its;
	struct mark_conf *c;
	struct tcp_sock *tp;
	u32 zero = 0, slot;

	walk = bpf_map_lookup_elem(&mark_walk, &zero);
	if (!skc || !walk)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp || skc->skc_state == TCP_LISTEN)
		return 0;
	slot = slot_of(tp, skc);
	c = conf_of(slot);
	its = bpf_sk_storage_get(&mark_socks, tp, 0,
				 c && (c->flags || has_strays(c)) ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!its)
		return 0;
	its->slot = slot;
	walk->seen++;
	switch (mark(tp, its, c, skc->skc_family == AF_INET6)) {
	case SET:
		walk->set++;
		break;
	case FOREIGN:
		walk->foreign++;
		break;
	case FAILED:
		walk->failed++;
		break;
	default:
		break;
	}
	apply_rate_share(tp, its, c);
	return 0;
}
