/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths: the window and base RTT that a job's flows to one peer share, how a flow finds its
 * path, and how it gets its share.  When the window is too small for all, some flows are
 * parked: a parked flow sends two packets now and then, and joins again when there is room.
 */
#ifndef HOSTCC_PATH_BPF_H
#define HOSTCC_PATH_BPF_H

enum { PATH_RAMP = 1, PATH_YIELDS = 2 };

#define BURST_Q10 (2 * HCC_ONE)		/* a single packet would wait for a delayed ACK */
#define BURST_SLACK 2			/* packets beyond slow start's two per packet acknowledged */

const volatile u32 floor_gap_us = 3000;	/* time between bursts of a yielding job */
#define CROWD_SHIFT 2			/* log2 of how much longer it is when many jobs yield */

#define PATH_CLAIMED (1u << 31)		/* in `users`: its next owner is initialising it */
#define PATH_DRAWS 32			/* random indices tried to find a free path */
#define PATH_TRIES 4			/* retries when others acquire or release the same path */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_PATHS);
	__type(key, u32);
	__type(value, struct hcc_path_state);
} path_states SEC(".maps");

/* Index into path_states by job and peer.  Looked up when a flow begins; the flow keeps it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HCC_PATHS);
	__type(key, struct hcc_path_key);
	__type(value, u32);
} path_numbers SEC(".maps");

/* Peers that a job sends to in its current iteration. */
struct job_peers {
	u32 epoch;
	u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u32);
	__type(value, struct job_peers);
} job_peers SEC(".maps");

static __always_inline struct hcc_path_state *path_state(const struct flow_priv *f)
{
	u32 number = f->path;

	return number ? bpf_map_lookup_elem(&path_states, &number) : NULL;
}

static __always_inline void path_key(struct hcc_path_key *key, const struct sock *sk, u32 slot)
{
	const struct in6_addr *v6 = &sk->__sk_common.skc_v6_daddr;

	__builtin_memset(key, 0, sizeof(*key));
	key->slot = slot;
	if (sk->__sk_common.skc_family == AF_INET6) {
		key->peer[0] = v6->in6_u.u6_addr32[0];
		key->peer[1] = v6->in6_u.u6_addr32[1];
		key->peer[2] = v6->in6_u.u6_addr32[2];
		key->peer[3] = v6->in6_u.u6_addr32[3];
	} else {
		key->peer[2] = bpf_htonl(0xffff);
		key->peer[3] = sk->__sk_common.skc_daddr;
	}
}

static __always_inline bool same_key(const struct hcc_path_key *a, const struct hcc_path_key *b)
{
	return a->slot == b->slot && a->peer[0] == b->peer[0] && a->peer[1] == b->peer[1] &&
	       a->peer[2] == b->peer[2] && a->peer[3] == b->peer[3];
}

/* Release a socket's hold on a path.  The last one frees it; until then its key is valid. */
static __always_inline void path_release(struct hcc_path_state *p, u32 number)
{
	struct hcc_path_key key = p->key;
	u32 *known;

	if (__sync_fetch_and_sub(&p->users, 1) != 1)
		return;
	/* If two sockets created the path at once, the stored index may be the other's. */
	known = bpf_map_lookup_elem(&path_numbers, &key);
	if (known && *known == number)
		bpf_map_delete_elem(&path_numbers, &key);
}

/* Take hold of an existing path, unless it was freed or taken for another key meanwhile. */
static __always_inline bool path_join(struct hcc_path_state *p, u32 number,
				      const struct hcc_path_key *key)
{
	u32 tries, users;

	for (tries = 0; tries < PATH_TRIES; tries++) {
		users = *(volatile u32 *)&p->users;
		if (!users || users & PATH_CLAIMED)
			return false;
		if (__sync_val_compare_and_swap(&p->users, users, users + 1) == users) {
			if (same_key(&p->key, key))
				return true;
			path_release(p, number);
			return false;
		}
	}
	return false;
}

/* Claim a free path for its first socket.  Returns its index; 0: hardly any is free. */
static __always_inline u32 path_claim(const struct hcc_path_key *key)
{
	struct hcc_path_state *p;
	u32 draws, number;

	for (draws = 0; draws < PATH_DRAWS; draws++) {
		number = 1 + bpf_get_prandom_u32() % (HCC_PATHS - 1);
		p = bpf_map_lookup_elem(&path_states, &number);
		if (!p || __sync_val_compare_and_swap(&p->users, 0, PATH_CLAIMED))
			continue;
		__builtin_memset(p, 0, __builtin_offsetof(struct hcc_path_state, users));
		p->key = *key;
		__sync_fetch_and_sub(&p->users, PATH_CLAIMED - 1);
		return number;
	}
	return 0;
}

/*
 * Return the path of a job's flow to its peer; 0: none is left, so the flow stays plain.
 * Lock-free: a path keeps its key as long as a socket holds it, and a loser of a race takes
 * another path.
 */
static __noinline u32 path_acquire(struct sock *sk, u32 slot)
{
	struct hcc_path_state *p;
	struct hcc_path_key key;
	u32 number, tries, *known;

	path_key(&key, sk, slot);
	for (tries = 0; tries < PATH_TRIES; tries++) {
		known = bpf_map_lookup_elem(&path_numbers, &key);
		if (known) {
			number = *known;
			p = bpf_map_lookup_elem(&path_states, &number);
			if (p && path_join(p, number, &key))
				return number;
		}
		number = path_claim(&key);
		if (!number)
			return 0;
		/* The index of a path that was just released may be replaced. */
		if (!bpf_map_update_elem(&path_numbers, &key, &number,
					 known ? BPF_ANY : BPF_NOEXIST))
			return number;
		p = bpf_map_lookup_elem(&path_states, &number);
		if (p)
			path_release(p, number);
	}
	return 0;
}

/* Count one more peer of the job in this iteration; a race may count two as one. */
static __always_inline void count_peer(const struct flow_priv *f, u32 epoch)
{
	u32 slot = f->slot;
	struct job_peers *peers = bpf_map_lookup_elem(&job_peers, &slot);

	if (!peers)
		return;
	if (peers->epoch != epoch) {
		peers->epoch = epoch;
		peers->count = 0;
	}
	__sync_fetch_and_add(&peers->count, 1);
}

/*
 * Time between bursts of a yielding job to each peer, us; longer in a crowd.  With many peers
 * it is long enough for a crowd as well: if it were longer still, a job alone would yield to
 * its own queue.
 */
static __always_inline u32 path_floor_gap_us(const struct flow_priv *f, bool crowd)
{
	u32 slot = f->slot, crowd_gap_us = floor_gap_us << CROWD_SHIFT, gap_us;
	const struct job_peers *peers = bpf_map_lookup_elem(&job_peers, &slot);

	gap_us = hcc_floor_gap_us(floor_gap_us, peers ? peers->count : 0);
	return crowd && gap_us < crowd_gap_us ? crowd_gap_us : gap_us;
}

/*
 * Base RTT of the path, us.  Shared, because flows that each measure their own, some while
 * others fill the queue, would disagree on the queueing delay.
 */
static __always_inline u32 path_base(struct sock *sk, struct hcc_path_state *p, u32 rtt_us)
{
	if (!p->base_us)
		p->base_us = tcp_sk(sk)->rtt_min.s[0].v;
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

/* Set this flow's share of the path's window: a congestion window, or a pace if it is parked. */
static __always_inline void take_share(struct sock *sk, struct flow_priv *f,
				       struct hcc_path_state *p, u32 rtt_us, u32 acked,
				       u32 pause_min_us, u32 pause_max_us)
{
	/* In recovery the kernel owns cwnd; parking is still decided here. */
	bool open = ca_state(sk) <= TCP_CA_Disorder;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 w = p->window_q10, awake = p->awake;
	u32 others = f->flags & FLOW_AWAKE && awake ? awake - 1 : awake;
	u32 share = w / (others + 1), longest;
	u64 gap;

	if (share >= BURST_Q10) {
		wake(f, p);
		set_pacing(sk, f, 0);
		if (open) {
			u32 cwnd = (share + HCC_ONE / 2) / HCC_ONE;
			u32 limit = tp->packets_out + 2 * acked + BURST_SLACK;

			/* Others left their shares: grow without a burst at line rate into the queue. */
			tp->snd_cwnd = cwnd < limit ? cwnd : limit;
		}
		return;
	}
	/* The pace limits it; a window of one packet would wait for delayed ACKs. */
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
	longest = path_floor_gap_us(f, true);
	pace_burst(sk, f, gap < longest ? gap : longest);
}

/*
 * Start a flow parked, which is not the first of its path.  Few flows: the first one has
 * enough to send until a single packet's delayed ACK arrives.  Many: each sends a second
 * packet to get its ACK at once, at a random time.
 */
static __always_inline void start_parked(struct sock *sk, struct flow_priv *f, u32 flows)
{
	u32 pause = hcc_scaled_pause_us(HCC_PARK_MIN_US, flows);

	f->park_us = 2 * pause;
	tcp_sk(sk)->snd_cwnd = 1;
	if (flows > HCC_FEW_FLOWS) {
		tcp_sk(sk)->snd_cwnd = 2;
		pause = pause / 16 * (1 + bpf_get_prandom_u32() % 16);
	}
	pace_burst(sk, f, 4 * pause);
}

#endif
