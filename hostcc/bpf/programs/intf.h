/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Types and constants shared by the BPF programs and Python.
 *
 * Python never repeats these by hand: hostcc.bpf reads struct layouts and enum
 * values out of the object's BTF.  Units are in the names.  All rates are bytes
 * per second, all fractions are Q10 (1024 is one).
 */
#ifndef HOSTCC_INTF_H
#define HOSTCC_INTF_H

enum hcc_limits {
	HCC_MAX_JOBS = 1024,	 /* job slots on one host; slot 0 is "no job" */
	HCC_F_POINTS = 33,	 /* samples of F over bytes_ratio 0..1 */
	HCC_ONE = 1024,		 /* Q10 unit */
	HCC_PATHS = 8192,	 /* windows on one host, one for each job and peer; 0 is "none" */
	HCC_CA_NAME_LEN = 16,	 /* TCP_CA_NAME_MAX */
	HCC_PORT_RULES = 16384,	 /* ports that rules can name */
	HCC_CGROUPS = 16384,	 /* cgroups below jobs, for sockets that exist already */
};

/* What a job's sockets do.  Written by the agent, read on every ACK. */
enum hcc_mode {
	HCC_MODE_OFF = 0,	/* plain form of the variant, F = 1 */
	HCC_MODE_MLTCP = 1,	/* F(bytes_ratio) */
	HCC_MODE_STATIC = 2,	/* F is constant: job_conf.static_f_q10 */
};

enum hcc_scope {
	HCC_SCOPE_JOB = 0,	/* one bytes_ratio for all flows of the job here */
	HCC_SCOPE_FLOW = 1,	/* one bytes_ratio per flow (as published) */
};

/* job_confs[slot]: written by the agent only. */
struct hcc_job_conf {
	__u32 in_use;
	__u32 mode;			/* enum hcc_mode */
	__u32 scope;			/* enum hcc_scope */
	__u32 static_f_q10;		/* F in HCC_MODE_STATIC */
	__u64 total_bytes;		/* per iteration on this host; 0: learn it */
	__u32 silence_us;		/* iteration boundary; 0: learn it */
	__u32 target_min_us;		/* queueing delay target of the least urgent job */
	__u32 target_max_us;		/* of a job about to finish; 0: follow loss, not delay */
	__s32 urgency_bias_q10;		/* added to the urgency for the owner's weight */
	__u32 tie_q10;			/* hash of the job's name: breaks ties alike on every host */
	__u32 plain_q10;		/* F while the job is two-way: its weight alone */
	__u64 hint_bytes;		/* boundary hint: bytes of an iteration */
	__u64 hint_margin_bytes;	/* an iteration's bytes differ by less; 0: unknown */
	__u32 hint_period_us;		/* start to start */
	__u32 hint_silence_us;		/* longer than within iterations, shorter than between */
	__u32 hint_pause_us;		/* a silence that ends an iteration whose bytes are sent */
	__u32 hint_id;			/* a new one for each hint; 0: no hint */
	__u32 f_q10[HCC_F_POINTS];	/* F(i / (HCC_F_POINTS - 1)) */
};

/* Whether a job's window is scaled, and why not; see docs/internals/mltcp.md. */
enum hcc_stance {
	HCC_STANCE_LEARN = 0,	/* no trusted iteration yet: plain */
	HCC_STANCE_SCALED = 1,	/* periodic: scaled by F */
	HCC_STANCE_PLAIN = 2,	/* yielding did not pay: plain, retried later */
};

/* How much a job's host receives while the job sends; updated after each iteration. */
enum hcc_direction {
	HCC_DIRECTION_UNKNOWN = 0,	/* not metered, or no iteration is over: plain */
	HCC_DIRECTION_ONE_WAY = 1,	/* little: the RTT shows the queue that the job fills */
	HCC_DIRECTION_TWO_WAY = 2,	/* much: acknowledgements wait in other queues: plain */
};

/* Why a job's flows act as the plain algorithm; see docs/internals/mltcp.md. */
enum hcc_plain {
	HCC_PLAIN_NOT = 0,	/* they do not, or nothing was acknowledged yet */
	HCC_PLAIN_LEARNING = 1,	/* no two iterations were alike yet */
	HCC_PLAIN_NO_PAUSE = 2,	/* it hardly pauses: yielding would only slow it down */
	HCC_PLAIN_YIELDED = 3,	/* it yielded for longer than compatible jobs require */
	HCC_PLAIN_UNRESPONSIVE = 4, /* it yielded to a competitor that does not yield */
	HCC_PLAIN_TWO_WAY = 5,	/* it receives while it sends */
	HCC_PLAIN_UNMETERED = 6, /* what it receives is not counted */
	HCC_PLAIN_SMALL = 7,	/* iterations below HCC_MIN_ITERATION_BYTES */
	HCC_PLAIN_OVERRUN = 8,	/* more was sent than an iteration has */
	HCC_PLAIN_LONG_PATH = 9, /* too few round trips in a communication phase */
	HCC_PLAIN_NO_WINDOW = 10, /* all windows of this host are taken */
	HCC_PLAIN_BURSTS = 11,	/* it pauses within its iterations: others use the link meanwhile */
};

/* Where a job is in its burst: the part of an iteration in which it sends. */
enum hcc_burst {
	HCC_BURST_NONE = 0,	/* between two bursts, or bursts are not reported */
	HCC_BURST_HELD = 1,	/* it has begun and waits for its gate */
	HCC_BURST_SENDING = 2,
};

/* gates[slot]: written by the agent only. */
struct hcc_gate {
	__u64 closed_until_ns;	/* CLOCK_MONOTONIC: what begins before waits; past: open */
	__u32 armed;		/* 1: bursts are reported, and idle flows prepared to be held */
	__u32 unused;
};

/* job_states[slot]: written by BPF only. */
struct hcc_job_state {
	__u64 iteration_start_ns;
	__u64 last_active_ns;	/* last byte acknowledged or sent by any flow */
	__u64 iteration_bytes;	/* acknowledged so far in this iteration */
	__u64 total_bytes;	/* learned or given */
	__u64 iterations;	/* boundaries seen */
	__u64 bytes_acked;	/* since the job appeared */
	__u64 comm_ns;		/* communication time of the last iteration */
	__u64 best_comm_ns;	/* shortest recent communication time */
	__u64 period_ns;	/* start to start, last */
	__u64 usual_gap_ns;	/* usual longest silence: twice the silence threshold */
	__u64 long_gap_ns;	/* a much longer silence, seen once */
	__u64 long_mark_bytes;	/* bytes_acked when it ended */
	__u64 long_apart_bytes;	/* sent between the last two of these */
	__u64 pause_ns;		/* silences within this iteration */
	__u64 yield_ns;		/* time at the floor rate in this iteration */
	__u64 yield_since_ns;	/* 0: not yielding now */
	__u64 unresponsive_ns;	/* time of yielding to a queue that only others can fill */
	__u64 rate_mark_ns;	/* start of the present rate measurement */
	__u64 rate_mark_bytes;	/* bytes_acked when it began */
	__u64 received_bytes;	/* over links, with headers, from the byte meter; 0: no meter */
	__u64 received_mark;	/* received_bytes when the iteration began */
	__u64 held_since_ns;	/* when the burst began that is held now, or was last */
	__u64 held_ns;		/* time for which bursts were held, since the job appeared */
	__u32 ns_per_mib;	/* at the highest rate seen lately; 0 unknown */
	__u32 last_ns_per_mib;	/* in the window before */
	__u32 trust;		/* consecutive consistent iterations, saturating */
	__u32 stance;		/* enum hcc_stance */
	__u32 stance_until;	/* iteration count at which stance is revisited */
	__u32 backoff;		/* length of the next plain period, iterations */
	__u32 flows;		/* open flows */
	__u32 q_loss_us;	/* queueing delay at which packets were lost; 0: unknown */
	__u32 busy;		/* flows with something unsent or unacknowledged */
	__u32 epoch;		/* bumped when an iteration begins, also the very first */
	__u32 unsettled;	/* leaky count of contended iterations */
	__u32 direction;	/* enum hcc_direction */
	__u32 escape;		/* enum hcc_plain: why the job stopped yielding the last time */
	__u32 plain;		/* enum hcc_plain, at the last acknowledgement */
	__u32 bursts_q10;	/* recent part of iterations with long pauses within */
	__u32 hint_dropped;	/* hint_id of the hint that was wrong */
	__u32 burst;		/* enum hcc_burst */
	__u32 holds;		/* bursts that were held, since the job appeared */
	__u32 unused;
};

/* Key of path_numbers: a job and the peer that it sends to. */
struct hcc_path_key {
	__u32 slot;
	__u32 peer[4];		/* its address, as in the packet; IPv4 is mapped */
};

/*
 * path_states[number]: the window that a job's flows to one peer share.
 * Written by BPF only.
 */
struct hcc_path_state {
	__u64 next_step_ns;	/* the window moves once a round trip */
	__u32 window_q10;	/* packets, all awake flows together; may be below one */
	__u32 q_sum_us;		/* queueing delay samples since the last step */
	__u32 q_samples;
	__u32 awake;		/* flows that are not parked */
	__u32 epoch;		/* job_state.epoch when last restarted */
	__u32 flags;		/* private to the congestion control */
	__u32 q_us;		/* queueing delay, mean of the last step */
	__s32 persists;		/* steps in a row below (positive) or above the target */
	__u32 base_us;		/* RTT without queueing: the minimum over all flows to the peer */
	__u32 q_peak_us;	/* longest queueing delay of the last few steps */
	struct hcc_path_key key;
	__u32 users;		/* sockets that hold it; 0: free */
};

enum hcc_flow_flags {
	HCC_FLOW_MANAGED = 1,	/* the agent chose its congestion control */
	HCC_FLOW_FOREIGN = 2,	/* its owner or an administrator did: leave it alone */
	HCC_FLOW_RETURNED = 4,	/* the agent did, and has undone it */
};

/* Socket storage: the job that a socket belongs to. */
struct hcc_flow {
	__u32 slot;		/* job slot, 0 none */
	__u16 flags;		/* enum hcc_flow_flags */
	__u16 grouped;		/* 1: assigned by its cgroup, not by a port rule */
};

/* config[0]: agent-wide, written by the agent only. */
struct hcc_config {
	__u64 heartbeat_ns;	/* CLOCK_MONOTONIC of the agent's latest heartbeat */
	__u64 stale_ns;		/* if it is older than this, act as the plain algorithm */
};

/* What a ring buffer record tells; all but the first only of jobs whose gate is armed. */
enum hcc_event_kind {
	HCC_EVENT_ITERATION = 0,	/* an iteration has ended */
	HCC_EVENT_BEGIN = 1,	/* a burst has begun, and its packets leave */
	HCC_EVENT_HELD = 2,	/* a burst has begun, and waits */
	HCC_EVENT_OPENED = 3,	/* the burst that waited goes on */
	HCC_EVENT_END = 4,	/* the bytes of a burst are acknowledged */
};

/* Ring buffer record. */
struct hcc_event {
	__u64 at_ns;
	__u32 slot;
	__u16 stance;		/* enum hcc_stance, of the next iteration */
	__u16 kind;		/* enum hcc_event_kind; the figures below are of an iteration */
	__u64 bytes;
	__u64 comm_ns;		/* communication time */
	__u64 period_ns;	/* start to start */
	__u64 yield_ns;		/* time at the floor rate */
};

/* One record per socket from the flow dump iterator. */
struct hcc_flow_record {
	__u32 slot;
	__u16 family;		/* AF_INET or AF_INET6 */
	__u8 state;		/* TCP state */
	__u8 managed;		/* enum hcc_flow_flags */
	__u8 laddr[16], raddr[16];	/* IPv4 in the first four bytes */
	__u16 lport, rport;	/* host order */
	__u32 cwnd, ssthresh;	/* packets */
	__u32 srtt_us, min_rtt_us, mss_bytes;
	__u32 retrans;		/* segments retransmitted, total */
	__u32 inflight;		/* packets out */
	__u64 bytes_acked;
	__u64 pacing_bps;	/* bytes per second, ~0 unlimited */
	__u64 cgroup_id;
	char ca_name[HCC_CA_NAME_LEN];
};

/* switch_req[0]: request to the iterator switch_tcp, and its results. */
struct hcc_switch {
	__u32 slot;		/* only sockets of this job; 0: of every job */
	__u32 to_default;	/* 1: back to default_ca */
	__u32 seen;		/* sockets of the job */
	__u32 switched;
	__u32 failed;
	__u32 foreign;		/* left alone: others chose their congestion control */
	char default_ca[HCC_CA_NAME_LEN];
};

/* job_ca[slot]: congestion control of a job's sockets; empty: the host's default. */
struct hcc_ca_name {
	char name[HCC_CA_NAME_LEN];
};

/* Key of port_rules. */
struct hcc_port_key {
	__u16 port;		/* host order */
	__u16 remote;		/* 0: local port, 1: remote port */
};

#endif
