// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the paths of TCP flows by the source port that switches see.
 *
 *   steer_egress   sender: sets a flow's source port on the wire, or its IPv6 flow label
 *   steer_ingress  receiver: restores the port that the socket knows
 *   steer_connect4, steer_connect6   bind new connections to a port of the wanted path
 *
 * In doubt a packet leaves as the socket made it, which is always correct.  A sender whose
 * agent's heartbeat is stale rewrites nothing; a reset for a port on the wire ends its
 * rewriting at once.
 *
 * Anybody can forge resets and SYNs.  A reset is accepted only with the sequence number that
 * the receiver must use, which is the last acknowledged one (RFC 9293, 3.5.2).  A SYN is
 * accepted once the handshake completes: its sender has then seen this host's SYN-ACK.
 */
#include "steer_packet.h"

char LICENSE[] SEC("license") = "GPL";

#define USE_RESOLUTION_NS 100000000ULL
#define ICMP_UNREACHABLE 3
#define ICMP6_UNREACHABLE 1
#define ICMP6_TOO_BIG 2
#define ICMP_HEADER 8

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_FLOWS);
	__type(key, struct steer_key);
	__type(value, struct steer_out);
} steer_out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_FLOWS);
	__type(key, struct steer_key);
	__type(value, struct steer_in);
} steer_in SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct steer_conf);
} steer_conf SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct steer_strays);
} steer_strays SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_BINDS);
	__type(key, struct steer_dest);
	__type(value, struct steer_ports);
} steer_binds SEC(".maps");

const enum steer_kind *export_steer_kind __attribute__((unused));
const enum steer_broken *export_steer_broken __attribute__((unused));
const enum steer_limits *export_steer_limits __attribute__((unused));

static __always_inline const struct steer_conf *conf(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&steer_conf, &zero);
}

static __always_inline bool agent_alive(u64 now_ns)
{
	const struct steer_conf *c = conf();

	/* Signed: now_ns may be a little behind the heartbeat. */
	return c && (s64)(now_ns - c->heartbeat_ns) < (s64)c->stale_ns;
}

static __always_inline void set_label(struct __sk_buff *skb, const struct packet *p, u32 label)
{
	u32 first;

	if (bpf_skb_load_bytes(skb, p->l3, &first, sizeof(first)))
		return;
	first = bpf_htonl((bpf_ntohl(first) & ~0xFFFFFU) | (label & 0xFFFFF));
	bpf_skb_store_bytes(skb, p->l3, &first, sizeof(first), 0);
}

static __always_inline struct steer_strays *strays(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&steer_strays, &zero);
}

/* The entry that is being rewritten to this port on the wire; NULL: none, or stopped. */
static __always_inline struct steer_out *rewritten_to(const struct steer_key *wire)
{
	struct steer_out *guard = bpf_map_lookup_elem(&steer_out, wire), *entry;
	struct steer_key own = *wire;

	if (!guard || guard->kind != STEER_GUARD)
		return NULL;
	own.sport = guard->port;
	entry = bpf_map_lookup_elem(&steer_out, &own);
	if (!entry || entry->kind != STEER_REWRITE || entry->port != wire->sport || entry->broken)
		return NULL;
	return entry;
}

/* Handle a reset for a port on the wire: if genuine, the receiver no longer knows that port. */
static __always_inline void handle_reset(const struct steer_key *wire, u32 seq)
{
	struct steer_out *entry = rewritten_to(wire);
	struct steer_strays *s = strays();
	u64 second;

	if (!entry || !s)
		return;
	if (!entry->packets || seq != entry->ack) {
		__sync_fetch_and_add(&s->resets, 1);
		return;
	}
	/* Races make the count slightly inexact. */
	second = bpf_ktime_get_coarse_ns() / 1000000000;
	if (s->second != second) {
		s->second = second;
		s->ended = 0;
	}
	if (__sync_fetch_and_add(&s->ended, 1) >= STEER_RESETS)
		__sync_fetch_and_add(&s->over, 1);
	else
		entry->broken = STEER_RESET;
}

static __always_inline void reverse_key(struct steer_key *key)
{
	struct steer_key was = *key;

	__builtin_memcpy(key->src, was.dst, 16);
	__builtin_memcpy(key->dst, was.src, 16);
	key->sport = was.dport;
	key->dport = was.sport;
}

/* Record this host's SYN-ACK: whoever acknowledges it has seen it, and forged no address. */
static __always_inline void record_synack(const struct packet *p)
{
	struct steer_key arriving = p->key;
	struct steer_in *entry;

	reverse_key(&arriving);
	entry = bpf_map_lookup_elem(&steer_in, &arriving);
	if (!entry)
		return;
	entry->answered = p->seq + 1;
	entry->answers = 1;
}

SEC("tc")
int steer_egress(struct __sk_buff *skb)
{
	struct steer_out *entry;
	struct packet p;
	u64 now;

	if (!read_packet(skb, &p) || p.proto != IPPROTO_TCP || !read_tcp(skb, &p))
		return -1;
	if ((p.flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK))
		record_synack(&p);
	entry = bpf_map_lookup_elem(&steer_out, &p.key);
	/* Probes have no flags, and must keep the port that they probe. */
	if (!entry || !(p.flags & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK)))
		return -1;
	if (p.flags & TCP_SYN) {
		if (entry->kind == STEER_GUARD) {
			entry = rewritten_to(&p.key);
			if (entry)
				entry->broken = STEER_COLLISION;
		} else if (!(p.flags & TCP_ACK)) {
			entry->broken = STEER_ENDED;
		}
		return -1;
	}
	if (entry->kind == STEER_GUARD || entry->broken)
		return -1;
	now = bpf_ktime_get_coarse_ns();
	if (!agent_alive(now))
		return -1;
	if (!entry->packets++)
		entry->first_ns = bpf_ktime_get_ns();
	if (entry->kind == STEER_LABEL) {
		if (p.v6)
			set_label(skb, &p, entry->label);
		return -1;
	}
	if (p.flags & TCP_ACK)
		entry->ack = p.ack;
	set_port(skb, p.l4, p.l4 + __builtin_offsetof(struct tcp, csum), p.key.sport, entry->port);
	return -1;
}

/*
 * Restore the own port in ICMP "too big" and "unreachable", which quote the packet on the wire:
 * the kernel finds the socket by its own port.  "Time exceeded" is left alone: only probes
 * cause it, and they keep their port.
 */
static __always_inline void restore_quoted(struct __sk_buff *skb, const struct packet *p)
{
	struct packet quoted;
	struct steer_out *guard;
	u8 type;
	u16 ports[2];

	if (bpf_skb_load_bytes(skb, p->l4, &type, sizeof(type)))
		return;
	if (p->v6 ? type != ICMP6_UNREACHABLE && type != ICMP6_TOO_BIG : type != ICMP_UNREACHABLE)
		return;
	__builtin_memset(&quoted, 0, sizeof(quoted));
	quoted.l3 = p->l4 + ICMP_HEADER;
	if (!(p->v6 ? read_ip6(skb, &quoted) : read_ip4(skb, &quoted)))
		return;
	if (quoted.proto != IPPROTO_TCP || bpf_skb_load_bytes(skb, quoted.l4, ports, sizeof(ports)))
		return;
	quoted.key.sport = bpf_ntohs(ports[0]);
	quoted.key.dport = bpf_ntohs(ports[1]);
	guard = bpf_map_lookup_elem(&steer_out, &quoted.key);
	if (guard && guard->kind == STEER_GUARD)
		set_port(skb, quoted.l4, p->l4 + 2, quoted.key.sport, guard->port);
}

SEC("tc")
int steer_ingress(struct __sk_buff *skb)
{
	const struct steer_conf *c;
	struct steer_strays *s;
	struct steer_in *entry;
	struct packet p;
	u64 now;

	if (!read_packet(skb, &p))
		return -1;
	if (p.proto == (p.v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		restore_quoted(skb, &p);
		return -1;
	}
	if (p.proto != IPPROTO_TCP || !read_tcp(skb, &p))
		return -1;
	entry = bpf_map_lookup_elem(&steer_in, &p.key);
	if (!entry) {
		if (p.flags & TCP_RST) {
			reverse_key(&p.key);
			handle_reset(&p.key, p.seq);
		}
		return -1;
	}
	c = conf();
	now = bpf_ktime_get_coarse_ns();
	if (!c || (s64)(now - entry->used_ns) > (s64)c->keep_ns) {
		bpf_map_delete_elem(&steer_in, &p.key);
		return -1;
	}
	/* Rewritten flows are past their SYN: this may be a genuine connection on that port. */
	if (p.flags & TCP_SYN) {
		s = strays();
		if (s)
			__sync_fetch_and_add(&s->syns, 1);
		return -1;
	}
	if (entry->answers && p.flags & TCP_ACK && p.ack == entry->answered) {
		bpf_map_delete_elem(&steer_in, &p.key);
		return -1;
	}
	if ((s64)(now - entry->used_ns) > (s64)USE_RESOLUTION_NS)
		entry->used_ns = now;
	entry->packets++;
	set_port(skb, p.l4, p.l4 + __builtin_offsetof(struct tcp, csum), p.key.sport, entry->port);
	return -1;
}

static __always_inline struct steer_ports *ports_for(struct steer_dest *dest)
{
	struct steer_ports *ports = bpf_map_lookup_elem(&steer_binds, dest);

	if (ports)
		return ports;
	dest->port = 0;
	return bpf_map_lookup_elem(&steer_binds, dest);
}

/* Bind to a port of the list; if that fails, the kernel chooses one and connect() goes on. */
static __always_inline void choose_port(struct bpf_sock_addr *ctx, struct steer_dest *dest,
					bool v6)
{
	struct steer_ports *ports;
	u32 start, at;

	if (ctx->type != 1 /* SOCK_STREAM */ || !ctx->sk || ctx->sk->src_port ||
	    !agent_alive(bpf_ktime_get_coarse_ns()))
		return;
	ports = ports_for(dest);
	if (!ports || !ports->count || ports->count > STEER_BIND_PORTS)
		return;
	start = __sync_fetch_and_add(&ports->next, 1);
	for (u32 i = 0; i < STEER_BIND_TRIES && i < ports->count; i++) {
		int err;

		at = (start + i) % ports->count;
		asm volatile("" : "+r"(at));	/* so that the verifier sees the bound of `at` */
		if (at >= STEER_BIND_PORTS)
			break;
		if (v6) {
			struct sockaddr_in6_ {
				u16 family, port;
				u32 flow;
				u8 addr[16];
				u32 scope;
			} addr = { .family = AF_INET6, .port = bpf_htons(ports->port[at]) };

			err = bpf_bind(ctx, (struct sockaddr *)&addr, sizeof(addr));
		} else {
			struct sockaddr_in_ {
				u16 family, port;
				u32 addr;
				u8 pad[8];
			} addr = { .family = AF_INET, .port = bpf_htons(ports->port[at]) };

			err = bpf_bind(ctx, (struct sockaddr *)&addr, sizeof(addr));
		}
		if (!err) {
			__sync_fetch_and_add(&ports->bound, 1);
			return;
		}
	}
	__sync_fetch_and_add(&ports->failed, 1);
}

SEC("cgroup/connect4")
int steer_connect4(struct bpf_sock_addr *ctx)
{
	struct steer_dest dest = { .port = bpf_ntohs(ctx->user_port) };

	map4(dest.addr, ctx->user_ip4);
	choose_port(ctx, &dest, false);
	return 1;
}

SEC("cgroup/connect6")
int steer_connect6(struct bpf_sock_addr *ctx)
{
	struct steer_dest dest = { .port = bpf_ntohs(ctx->user_port) };

	for (int i = 0; i < 4; i++)
		((u32 *)dest.addr)[i] = ctx->user_ip6[i];
	choose_port(ctx, &dest, true);
	return 1;
}
