// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts bytes over time, by job and destination host.
 *
 *   job_egress, job_ingress    on a job's cgroup: every packet of its sockets
 *   rule_egress, rule_ingress  on the agent's cgroup root: sockets that a port rule names
 *                              or that the flow tracker gave to a job
 *
 * A packet adds to one cell: row (job, destination, over loopback or not), shard of the
 * CPUs, time bin.  Bins form a ring.  The reader empties what it has read and then moves
 * `first_bin`; a bin that it has not emptied is never written for the second time, so a late
 * reader loses what is counted in lost_*, and never gets two laps in one cell.
 *
 * Payload is what follows the TCP or UDP header, headers are those of IP and transport, once
 * per segment on the wire: a GSO or GRO packet counts as the segments it stands for.
 * Retransmissions count again.  Link-layer framing and IPv4 fragments' headers do not.
 */
#include "kern.h"
#include "meter.h"
#include "flow_owner.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Sizes; the reader gives the maps as many entries. */
const volatile u32 bin_shift = 20;	/* a bin is 2^20 ns */
const volatile u32 ring_shift = 10;	/* 2^10 bins */
const volatile u32 shard_shift;		/* 2^0 shards */
const volatile u32 lanes = 1;		/* rows times shards */
const volatile u32 touched_words = 1;	/* a bin's words in meter_touched */

#define IPPROTO_HOPOPTS 0
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define MAX_LEVELS 16

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, u64);
	__type(value, u32);
} meter_slot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct hcc_meter_key);
	__type(value, u32);
} meter_rows SEC(".maps");

/* Free rows. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, u32);
} meter_free SEC(".maps");

/* slot -> the row of the job for destinations without a row of their own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u32);
	__type(value, u32);
} meter_other SEC(".maps");

/*
 * cells[bin * lanes + row * shards + shard].  Cells of one bin are in few pages, so that
 * hundreds of rows do not cost a TLB miss each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hcc_meter_cell);
} meter_cells SEC(".maps");

/*
 * Non-empty cells: bit (row * shards + shard) of bin b is in word b * touched_words + bit / 64.
 * Few cells of a bin are ever used, and the reader visits only these.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} meter_touched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hcc_meter_control);
} meter_control SEC(".maps");

/* Socket storage of the root programs. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct hcc_meter_sock);
} meter_socks SEC(".maps");

/* Cgroups that have programs of their own: the root programs leave them alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u64);
	__type(value, u32);
} meter_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HCC_PORT_RULES);
	__type(key, struct hcc_port_key);
	__type(value, u32);
} meter_ports SEC(".maps");

/* Shared with mltcp.bpf.o, if the agent does so: it needs to know what a job receives. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hcc_job_state);
} job_states SEC(".maps");

const enum hcc_meter_limits *export_meter_limits __attribute__((unused));

/* A packet without its key. */
struct packet {
	u32 payload;
	u32 headers;		/* all segments together */
	u32 segments;
	u16 lport, rport;	/* host order; 0 unknown */
};

struct ports {
	u16 source;
	u16 target;
};

/* Length of the transport header at `at`; 0: neither TCP nor UDP. */
static __always_inline u32 transport(struct packet *p, const u8 *at, const u8 *end, u8 protocol,
				     bool egress)
{
	const struct ports *ports = (const struct ports *)at;

	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return 0;
	if (at + 8 > end)
		return 0;
	p->lport = bpf_ntohs(egress ? ports->source : ports->target);
	p->rport = bpf_ntohs(egress ? ports->target : ports->source);
	if (protocol == IPPROTO_UDP)
		return 8;
	if (at + 13 > end)
		return 0;
	return (at[12] >> 4) * 4;
}

/* False for what is not IP.  `key` gets all but its slot. */
static __always_inline bool parse(struct __sk_buff *skb, struct packet *p,
				  struct hcc_meter_key *key, bool egress)
{
	const u8 *ip = (const u8 *)(long)skb->data;
	const u8 *end = (const u8 *)(long)skb->data_end;
	u32 header, length = skb->len, segments = skb->gso_segs, extension = 0;
	u32 *addr = (u32 *)key->addr;
	const u32 *peer;
	u8 protocol;

	p->lport = p->rport = 0;
	if (ip + 20 > end)
		return false;
	if (ip[0] >> 4 == 4) {
		addr[0] = addr[1] = 0;
		addr[2] = bpf_htonl(0xffff);
		addr[3] = *(const u32 *)(ip + (egress ? 16 : 12));
		header = (ip[0] & 15) * 4;
		protocol = ip[9];
	} else if (ip[0] >> 4 == 6) {
		if (ip + 40 > end)
			return false;
		peer = (const u32 *)(ip + (egress ? 24 : 8));
		addr[0] = peer[0];
		addr[1] = peer[1];
		addr[2] = peer[2];
		addr[3] = peer[3];
		header = 40;
		protocol = ip[6];
		if (protocol == IPPROTO_HOPOPTS) {
			/* This option also marks GSO packets above 64 KiB, which never reach a wire. */
			if (ip + 42 > end)
				return false;
			protocol = ip[40];
			extension = (ip[41] + 1) * 8;
		}
	} else {
		return false;
	}
	header += transport(p, ip + header + extension, end, protocol, egress);
	length = length > header + extension ? length - header - extension : 0;
	if (!segments)
		segments = 1;
	else if (segments > 1)
		extension = 0;
	key->local = skb->ifindex == HCC_METER_LOOPBACK;
	key->pad = 0;
	p->payload = length;
	p->segments = segments;
	p->headers = (header + extension) * segments;
	return true;
}

/* Assign a row to a new destination; its job's `other` row if none is free. */
static __noinline u32 assign_row(struct hcc_meter_key *key, struct hcc_meter_control *control)
{
	u32 row, slot, *known;

	if (!key || !control)
		return HCC_METER_NO_ROW;
	if (!bpf_map_pop_elem(&meter_free, &row)) {
		if (!bpf_map_update_elem(&meter_rows, key, &row, BPF_NOEXIST)) {
			__sync_fetch_and_add(&control->inserted, 1);
			return row;
		}
		/* Another CPU was first, or this CPU interrupted a holder of the bucket's lock. */
		bpf_map_push_elem(&meter_free, &row, 0);
		known = bpf_map_lookup_elem(&meter_rows, key);
		if (known)
			return *known;
	}
	__sync_fetch_and_add(&control->refused, 1);
	slot = key->slot;
	known = bpf_map_lookup_elem(&meter_other, &slot);
	return known ? *known : HCC_METER_NO_ROW;
}

/* Count bytes received over links: loopback has no queue where acknowledgements would wait. */
static __always_inline void received(const struct packet *p, const struct hcc_meter_key *key)
{
	u32 slot = key->slot;
	struct hcc_job_state *s = key->local ? NULL : bpf_map_lookup_elem(&job_states, &slot);

	if (s)
		__sync_fetch_and_add(&s->received_bytes, p->payload + p->headers);
}

static __always_inline void add(const struct packet *p, struct hcc_meter_key *key, bool egress)
{
	struct hcc_meter_control *control;
	struct hcc_meter_cell *cell;
	u32 zero = 0, row, lane, place, index, *known;
	u64 bin, word, bit, *touched;

	if (!egress)
		received(p, key);
	control = bpf_map_lookup_elem(&meter_control, &zero);
	if (!control)
		return;
	known = bpf_map_lookup_elem(&meter_rows, key);
	row = known ? *known : assign_row(key, control);
	bin = bpf_ktime_get_ns() >> bin_shift;
	place = bin & ((1 << ring_shift) - 1);
	lane = (row << shard_shift) + (bpf_get_smp_processor_id() & ((1 << shard_shift) - 1));
	index = place * lanes + lane;
	cell = bpf_map_lookup_elem(&meter_cells, &index);
	index = place * touched_words + lane / 64;
	touched = bpf_map_lookup_elem(&meter_touched, &index);
	if (row == HCC_METER_NO_ROW || !cell || !touched ||
	    bin - *(volatile u64 *)&control->first_bin >= 1ULL << ring_shift) {
		__sync_fetch_and_add(egress ? &control->lost_tx_bytes : &control->lost_rx_bytes,
				     p->payload);
		__sync_fetch_and_add(&control->lost_packets, p->segments);
		return;
	}
	word = p->payload | (u64)(p->headers >> 2) << HCC_METER_HEADER_SHIFT;
	__sync_fetch_and_add(egress ? &cell->tx : &cell->rx, word);
	/* After the cell, so that a bit which the reader clears covers all of the cell. */
	bit = 1ULL << (lane & 63);
	if (!(*(volatile u64 *)touched & bit))
		__sync_fetch_and_or(touched, bit);
}

static __always_inline int on_job(struct __sk_buff *skb, bool egress)
{
	u32 *slot = bpf_get_local_storage(&meter_slot, 0);
	struct hcc_meter_key key;
	struct packet p;

	key.slot = *slot;
	if (key.slot && parse(skb, &p, &key, egress))
		add(&p, &key, egress);
	return 1;
}

SEC("cgroup_skb/egress")
int job_egress(struct __sk_buff *skb)
{
	return on_job(skb, true);
}

SEC("cgroup_skb/ingress")
int job_ingress(struct __sk_buff *skb)
{
	return on_job(skb, false);
}

static __always_inline u32 rule_slot(u16 lport, u16 rport)
{
	struct hcc_port_key key = { .port = lport, .remote = 0 };
	u32 *slot = lport ? bpf_map_lookup_elem(&meter_ports, &key) : 0;

	if (slot)
		return *slot;
	key.port = rport;
	key.remote = 1;
	slot = rport ? bpf_map_lookup_elem(&meter_ports, &key) : 0;
	return slot ? *slot : 0;
}

/* Once per socket and generation. */
static __noinline int classify(struct __sk_buff *skb, struct hcc_meter_sock *s)
{
	struct bpf_sock *sk = skb->sk;
	struct hcc_flow *flow;
	int level;
	u64 id;

	if (!s || !sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	s->slot = 0;
	s->by_packet = 0;
	for (level = 1; level < MAX_LEVELS; level++) {
		id = bpf_skb_ancestor_cgroup_id(skb, level);
		if (!id)
			break;
		if (bpf_map_lookup_elem(&meter_groups, &id))
			return 0;
	}
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (flow && flow->slot) {
		s->slot = flow->slot;
	} else if (sk->dst_port) {
		s->slot = rule_slot(sk->src_port, bpf_ntohs(sk->dst_port));
	} else {
		s->by_packet = 1;
	}
	return 0;
}

static __always_inline int on_rule(struct __sk_buff *skb, bool egress)
{
	struct hcc_meter_control *control;
	struct hcc_meter_sock *s;
	struct bpf_sock *sk = skb->sk;
	struct hcc_meter_key key;
	u32 zero = 0, slot;
	struct packet p;

	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	control = bpf_map_lookup_elem(&meter_control, &zero);
	if (!sk || !control)
		return 1;
	s = bpf_sk_storage_get(&meter_socks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return 1;
	if (s->generation != control->generation) {
		classify(skb, s);
		s->generation = control->generation;
	}
	slot = s->slot;
	if (!slot && !s->by_packet)
		return 1;
	if (!parse(skb, &p, &key, egress))
		return 1;
	if (!slot)
		slot = rule_slot(p.lport, p.rport);
	key.slot = slot;
	if (slot)
		add(&p, &key, egress);
	return 1;
}

SEC("cgroup_skb/egress")
int rule_egress(struct __sk_buff *skb)
{
	return on_rule(skb, true);
}

SEC("cgroup_skb/ingress")
int rule_ingress(struct __sk_buff *skb)
{
	return on_rule(skb, false);
}
