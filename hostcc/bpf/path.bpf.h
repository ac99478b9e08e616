/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the flows of a job to one peer share: a window and a base RTT, and how each
 * gets its part.  When the window is too small for all, some are parked: a parked
 * flow sends two packets now and then, and joins again when there is room.
 */
#ifndef HOSTCC_PATH_BPF_H
#define HOSTCC_PATH_BPF_H

enum { PATH_RAMP = 1, PATH_YIELDS = 2 };

#define BURST_Q10 (2 * HCC_ONE)		/* fewer packets draw delayed ACKs */
#define BURST_SLACK 2			/* packets beyond slow start's two per packet acknowledged */

const volatile u32 floor_gap_us = 3000;	/* a job that yields sends a burst this often */
#define CROWD_SHIFT 2			/* so much more seldom in a crowd */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS * HCC_PATHS);
	__type(key, u32);
	__type(value, struct hcc_path_state);
} path_states SEC(".maps");

static __always_inline u32 peer_hash(const struct sock *sk)
{
	const struct in6_addr *v6 = &sk->__sk_common.skc_v6_daddr;
	u32 h = sk->__sk_common.skc_daddr;

	/* An IPv4 peer is there too, mapped; all of it counts for IPv6. */
	if (sk->__sk_common.skc_family == AF_INET6)
		h = v6->in6_u.u6_addr32[0] ^ v6->in6_u.u6_addr32[1] * 3 ^
		    v6->in6_u.u6_addr32[2] * 5 ^ v6->in6_u.u6_addr32[3] * 7;
	return h * 2654435761u;
}

static __always_inline struct hcc_path_state *path_state(struct sock *sk, const struct flow_priv *f)
{
	u32 key = f->slot * HCC_PATHS + (peer_hash(sk) >> 29);

	return bpf_map_lookup_elem(&path_states, &key);
}

/*
 * Base RTT of the path.  Shared: flows that measured their own, some of them while
 * others filled the queue, would disagree on what the queueing delay is.
 */
static __always_inline u32 path_base(struct sock *sk, struct hcc_path_state *p, u32 rtt_us)
{
	u32 peer = peer_hash(sk);

	if (!p->base_us) {
		p->base_us = tcp_sk(sk)->rtt_min.s[0].v;
		p->peer = peer;
	}
	if (p->peer != peer)
		return tcp_sk(sk)->rtt_min.s[0].v;
	if (rtt_us && rtt_us < p->base_us)
		p->base_us = rtt_us;
	return p->base_us;
}

static __always_inline void wake(struct flow_priv *f, struct hcc_path_state *p)
{
	if (!(f->flags & FLOW_AWAKE)) {
		f->flags |= FLOW_AWAKE;
		__sync_fetch_and_add(&p->awake, 1);
	}
	f->park_us = 0;
}

static __always_inline void sleep(struct flow_priv *f, struct hcc_path_state *p)
{
	if (f->flags & FLOW_AWAKE) {
		f->flags &= ~FLOW_AWAKE;
		if (p->awake)
			__sync_fetch_and_sub(&p->awake, 1);
	}
}

/* Pace so that a burst of two packets takes this long. */
static __always_inline void pace_burst(struct sock *sk, struct flow_priv *f, u64 gap_us)
{
	u64 bps = (u64)2 * tcp_sk(sk)->mss_cache * 1000000 / (gap_us + 1);

	set_pacing(sk, f, bps > 0xfffffffe ? 0xfffffffe : bps);
}

/* This flow's part of the path's window. */
static __always_inline void take_share(struct sock *sk, struct flow_priv *f,
				       struct hcc_path_state *p, u32 rtt_us, u32 acked,
				       u32 pause_min_us, u32 pause_max_us)
{
	/* In recovery the kernel owns cwnd; who may send at will is still ours. */
	bool open = ca_state(sk) <= TCP_CA_Disorder;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 w = p->window_q10, awake = p->awake;
	u32 others = f->flags & FLOW_AWAKE && awake ? awake - 1 : awake;
	u32 share = w / (others + 1);
	u64 gap;

	if (share >= BURST_Q10) {
		wake(f, p);
		set_pacing(sk, f, 0);
		if (open) {
			u32 cwnd = (share + HCC_ONE / 2) / HCC_ONE;
			u32 limit = tp->packets_out + 2 * acked + BURST_SLACK;

			/* Grown by what others left: no burst at line rate into the queue. */
			tp->snd_cwnd = cwnd < limit ? cwnd : limit;
		}
		return;
	}
	/* The rate holds it back; a quota of one packet would draw delayed ACKs. */
	if (open)
		tp->snd_cwnd = 4;
	if (others) {
		u32 pause = f->park_us;

		sleep(f, p);
		if (p->persists > 0)
			pause = pause_min_us;
		else if (!tp->packets_out)
			pause *= 2;
		if (pause > pause_max_us)
			pause = pause_max_us;
		if (pause < pause_min_us)
			pause = pause_min_us;
		if (pause != f->park_us) {
			f->park_us = pause;
			pace_burst(sk, f, pause);
		}
		return;
	}
	wake(f, p);
	gap = (u64)BURST_Q10 * (rtt_us + 1) / (w + 1);
	if (gap > floor_gap_us << CROWD_SHIFT)
		gap = floor_gap_us << CROWD_SHIFT;
	pace_burst(sk, f, gap);
}

/*
 * A flow that does not scout begins.  Few flows: the scout has enough to send until one
 * packet's delayed ACK comes.  Many: a second packet draws the ACK, not from all at once.
 */
static __always_inline void start_parked(struct sock *sk, struct flow_priv *f, u32 flows)
{
	u32 pause = hcc_pause_of_many_us(HCC_PARK_MIN_US, flows);

	f->park_us = 2 * pause;
	tcp_sk(sk)->snd_cwnd = 1;
	if (flows > HCC_FEW_FLOWS) {
		tcp_sk(sk)->snd_cwnd = 2;
		pause = pause / 16 * (1 + bpf_get_prandom_u32() % 16);
	}
	pace_burst(sk, f, 4 * pause);
}

#endif
