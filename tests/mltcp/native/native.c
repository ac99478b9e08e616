/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The congestion controls, compiled unchanged for this machine, with helpers and sockets in
 * memory: tests drive them with a clock of their own.  Time is in us, as in tcp_sock.
 */
#include "mltcp.bpf.c"

enum { FLOWS = 64 };

struct native_flow {
	struct tcp_sock tp;
	struct hcc_flow id;
};

struct hcc_job_conf native_confs[HCC_MAX_JOBS];
struct hcc_job_state native_states[HCC_MAX_JOBS];
struct hcc_path_state native_paths[HCC_PATHS];
struct hcc_gate native_gates[HCC_MAX_JOBS];
struct hcc_config native_config = { .stale_ns = ~0ULL >> 1 };
struct hcc_event native_event;
__u32 native_events;
static u32 native_arrived;
static struct native_flow native_flows[FLOWS];
static struct job_peers native_peers[HCC_MAX_JOBS];
/* path_numbers: few enough to look through. */
static struct { struct hcc_path_key key; u32 number; } native_numbers[FLOWS];

/* ---- what the kernel would do ---- */

static u32 *number_of(const struct hcc_path_key *key)
{
	for (u32 i = 0; i < FLOWS; i++)
		if (native_numbers[i].number && same_key(&native_numbers[i].key, key))
			return &native_numbers[i].number;
	return NULL;
}

void *bpf_map_lookup_elem(void *map, const void *key)
{
	u32 index = *(const u32 *)key;

	if (map == (void *)&job_confs)
		return index < HCC_MAX_JOBS ? &native_confs[index] : NULL;
	if (map == (void *)&job_states)
		return index < HCC_MAX_JOBS ? &native_states[index] : NULL;
	if (map == (void *)&gates)
		return index < HCC_MAX_JOBS ? &native_gates[index] : NULL;
	if (map == (void *)&path_states)
		return index < HCC_PATHS ? &native_paths[index] : NULL;
	if (map == (void *)&path_numbers)
		return number_of(key);
	if (map == (void *)&job_peers)
		return index < HCC_MAX_JOBS ? &native_peers[index] : NULL;
	return map == (void *)&config ? &native_config : NULL;
}

long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	u32 i;

	if (number_of(key)) {
		if (flags == BPF_NOEXIST)
			return -17;
		*number_of(key) = *(const u32 *)value;
		return 0;
	}
	for (i = 0; i < FLOWS && native_numbers[i].number; i++)
		;
	if (i == FLOWS)
		return -7;
	native_numbers[i].key = *(const struct hcc_path_key *)key;
	native_numbers[i].number = *(const u32 *)value;
	return 0;
}

long bpf_map_delete_elem(void *map, const void *key)
{
	u32 *number = number_of(key);

	if (!number)
		return -2;
	*number = 0;
	return 0;
}

void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags)
{
	return &((struct native_flow *)sk)->id;
}

void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags)
{
	return size == sizeof(native_event) ? &native_event : NULL;
}

void bpf_ringbuf_submit(void *data, __u64 flags)
{
	native_events++;
}

long bpf_setsockopt(void *sk, int level, int name, void *value, int size)
{
	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE)
		((struct sock *)sk)->sk_max_pacing_rate = *(u32 *)value == ~0U ? ~0UL : *(u32 *)value;
	return 0;
}

/* The same in every run. */
u32 bpf_get_prandom_u32(void)
{
	static u32 state;

	state = state * 1664525 + 1013904223;
	return state >> 16;
}

long bpf_tcp_send_ack(void *tp, __u32 rcv_nxt) { return 0; }

/* Additive increase of one packet a window, which is all that these tests need. */
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	tp->snd_cwnd_cnt += acked;
	tp->snd_cwnd += tp->snd_cwnd_cnt / w;
	tp->snd_cwnd_cnt %= w;
}

void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_cong_avoid_ai(tcp_sk(sk), tcp_sk(sk)->snd_cwnd, acked);
}

u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) { return acked; }
u32 tcp_reno_ssthresh(struct sock *sk) { return tcp_sk(sk)->snd_cwnd / 2; }
u32 tcp_reno_undo_cwnd(struct sock *sk) { return tcp_sk(sk)->snd_cwnd; }
void cubictcp_init(struct sock *sk) {}
u32 cubictcp_recalc_ssthresh(struct sock *sk) { return tcp_sk(sk)->snd_cwnd / 2; }
void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) { tcp_reno_cong_avoid(sk, ack, acked); }
void cubictcp_state(struct sock *sk, u8 new_state) {}
void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event ev) {}
void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) {}

/* ---- what tests call: sockets ---- */

static struct sock *sock_of(u32 flow)
{
	return (struct sock *)&native_flows[flow % FLOWS].tp;
}

void native_reset(void)
{
	__builtin_memset(native_confs, 0, sizeof(native_confs));
	__builtin_memset(native_states, 0, sizeof(native_states));
	__builtin_memset(native_paths, 0, sizeof(native_paths));
	__builtin_memset(native_gates, 0, sizeof(native_gates));
	__builtin_memset(native_flows, 0, sizeof(native_flows));
	__builtin_memset(native_peers, 0, sizeof(native_peers));
	__builtin_memset(native_numbers, 0, sizeof(native_numbers));
	native_config.heartbeat_ns = 0;
	native_config.stale_ns = ~0ULL >> 1;
	native_events = native_arrived = 0;
}

/* Sockets that tests open go to one peer unless they are told another's address. */
void native_open_to(u32 flow, u32 slot, u32 variant, u32 rtt_us, u32 peer)
{
	struct native_flow *f = &native_flows[flow % FLOWS];
	struct sock *sk = (struct sock *)&f->tp;

	__builtin_memset(f, 0, sizeof(*f));
	sk->__sk_common.skc_daddr = peer;
	f->id.slot = slot;
	f->tp.snd_cwnd = 10;
	f->tp.snd_ssthresh = 0x7fffffff;
	f->tp.mss_cache = 1448;
	f->tp.srtt_us = rtt_us << 3;
	f->tp.rtt_min.s[0].v = rtt_us;
	variant ? hcc_host_init(sock_of(flow)) : hcc_reno_init(sock_of(flow));
}

void native_open(u32 flow, u32 slot, u32 variant, u32 rtt_us)
{
	native_open_to(flow, slot, variant, rtt_us, 0);
}

__u32 native_path(u32 flow) { return priv(sock_of(flow))->path; }

/* The application writes and TCP sends at once: a transmission starts if nothing is out. */
void native_send(u32 flow, u32 variant, u64 at_us, u32 bytes)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));

	tp->tcp_mstamp = at_us;
	if (!tp->packets_out)
		variant ? hcc_host_event(sock_of(flow), CA_EVENT_TX_START) :
			  hcc_reno_event(sock_of(flow), CA_EVENT_TX_START);
	tp->write_seq += bytes;
	tp->snd_nxt += bytes;
	tp->packets_out += (bytes + tp->mss_cache - 1) / tp->mss_cache;
}

/* A SYN goes out: one byte, of which congestion control is told by its acknowledgement alone. */
void native_dial(u32 flow)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));

	tp->write_seq++;
	tp->snd_nxt++;
	tp->packets_out++;
}

/* Everything out is acknowledged. */
void native_ack(u32 flow, u32 variant, u64 at_us, s32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));
	struct ack_sample sample = { .pkts_acked = tp->packets_out, .rtt_us = rtt_us };

	tp->tcp_mstamp = at_us;
	tp->bytes_acked += tp->snd_nxt - tp->snd_una;
	tp->snd_una = tp->snd_nxt;
	tp->packets_out = 0;
	variant ? hcc_host_acked(sock_of(flow), &sample) : hcc_reno_acked(sock_of(flow), &sample);
}

/* ---- the same in smaller steps, for the hostcc variant, whose window counts ---- */

/* The application writes; nothing leaves yet. */
void native_write(u32 flow, u64 at_us, u32 bytes)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));

	tp->tcp_mstamp = at_us;
	if (!tp->packets_out && tp->write_seq == tp->snd_nxt)
		hcc_host_event(sock_of(flow), CA_EVENT_TX_START);
	tp->write_seq += bytes;
}

/* Up to `packets` leave, as far as the window and what was written allow; returns how many. */
u32 native_leave(u32 flow, u32 packets)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));
	u32 unsent = (tp->write_seq - tp->snd_nxt) / tp->mss_cache;
	u32 room = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd - tp->packets_out : 0;

	packets = packets < unsent ? packets : unsent;
	packets = packets < room ? packets : room;
	tp->snd_nxt += packets * tp->mss_cache;
	tp->packets_out += packets;
	return packets;
}

/* The oldest packets are acknowledged; the kernel takes the RTT from their time stamps. */
void native_take(u32 flow, u64 at_us, u32 packets, s32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));
	struct ack_sample sample = { .pkts_acked = packets, .rtt_us = rtt_us };

	tp->tcp_mstamp = at_us;
	tp->snd_una += packets * tp->mss_cache;
	tp->bytes_acked += packets * tp->mss_cache;
	tp->packets_out -= packets;
	hcc_host_acked(sock_of(flow), &sample);
}

/* ---- several CPUs at once: a thread for each flow, in lockstep on a made-up clock ---- */

int sched_yield(void);

static void meet(u32 *times, u32 cpus)
{
	u32 all = ++*times * cpus;

	__sync_fetch_and_add(&native_arrived, 1);
	while (*(volatile u32 *)&native_arrived < all)
		sched_yield();
}

/*
 * All begin an iteration at once, and are acknowledged at once in so many pieces; the second
 * thread's clock is 1 us behind the first's, and so on.
 */
void native_cpu(u32 flow, u32 cpus, u32 rounds, u32 pieces, u32 packets, u32 every_us, u64 gap_us)
{
	u64 now_us = 1000000 - flow;
	u32 times = 0;

	for (u32 round = 0; round < rounds; round++) {
		meet(&times, cpus);
		native_send(flow, 1, now_us, pieces * packets * 1448);
		for (u32 piece = 0; piece < pieces; piece++) {
			now_us += every_us;
			meet(&times, cpus);
			native_take(flow, now_us, packets, 200);
		}
		now_us += gap_us;
	}
	meet(&times, cpus);
}

__u32 native_lose(u32 flow) { return hcc_host_ssthresh(sock_of(flow)); }

/* A time-out on a kernel that gets `wrong` for an answer; returns ssthresh afterwards. */
__u32 native_time_out(u32 flow, u32 variant, u32 wrong)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));

	tp->prior_cwnd = 10;
	tp->snd_cwnd = 1;
	tp->snd_ssthresh = wrong;
	variant ? hcc_host_state(sock_of(flow), TCP_CA_Loss) :
		  hcc_reno_state(sock_of(flow), TCP_CA_Loss);
	return tp->snd_ssthresh;
}

/* Back to normal. */
__u32 native_leave_state(u32 flow, u32 ssthresh)
{
	tcp_sk(sock_of(flow))->snd_ssthresh = ssthresh;
	hcc_reno_state(sock_of(flow), TCP_CA_Open);
	return tcp_sk(sock_of(flow))->snd_ssthresh;
}

/* A reduction is undone, on such a kernel; returns cwnd afterwards. */
__u32 native_undo(u32 flow, u32 variant, u32 wrong)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));

	tp->prior_cwnd = 10;
	tp->snd_cwnd = wrong;
	variant ? hcc_host_state(sock_of(flow), TCP_CA_Open) :
		  hcc_reno_state(sock_of(flow), TCP_CA_Open);
	return tp->snd_cwnd;
}

/* Congestion avoidance; returns the window. */
__u32 native_grow(u32 flow, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sock_of(flow));

	tp->snd_ssthresh = 2;
	hcc_host_avoid(sock_of(flow), 0, acked);
	return tp->snd_cwnd;
}

__u32 native_out(u32 flow) { return tcp_sk(sock_of(flow))->packets_out; }
__u64 native_pace(u32 flow) { return sock_of(flow)->sk_max_pacing_rate; }

/* The pace has put the next packet's departure there. */
void native_depart(u32 flow, u64 at_us)
{
	tcp_sk(sock_of(flow))->tcp_wstamp_ns = at_us * 1000;
}

void native_close(u32 flow, u32 variant)
{
	variant ? hcc_host_release(sock_of(flow)) : hcc_release(sock_of(flow));
}

__u32 native_flow_f_q10(u32 flow)
{
	return flow_f_q10(sock_of(flow), priv(sock_of(flow)));
}

__u32 native_scale_acked(u32 flow, u32 acked, u32 f_q10)
{
	return scale_acked(priv(sock_of(flow)), acked, f_q10);
}

/* ---- what tests call: iteration.h, urgency.h, pace.h ---- */

__u32 native_state_bytes(void) { return sizeof(struct hcc_job_state); }
__u32 native_conf_bytes(void) { return sizeof(struct hcc_job_conf); }
__u32 native_path_bytes(void) { return sizeof(struct hcc_path_state); }

__u64 native_silence_ns(const struct hcc_job_state *s, const struct hcc_job_conf *c, __u32 srtt_us)
{
	return hcc_silence_ns(s, c, srtt_us);
}

__u64 native_min_silence_ns(__u32 srtt_us) { return hcc_min_silence_ns(srtt_us); }
void native_learn_gap(struct hcc_job_state *s, __u64 gap_ns) { hcc_learn_gap(s, gap_ns); }
__u32 native_judge_silence(struct hcc_job_state *s, const struct hcc_job_conf *c, __u64 gap_ns,
			   __u64 now_ns, __u32 srtt_us)
{
	return judge_silence(s, c, gap_ns, now_ns, srtt_us);
}

void native_learn_silence(struct hcc_job_state *s, const struct hcc_job_conf *c, __u64 gap_ns,
			  __u64 now_ns, __u32 silence)
{
	learn_silence(s, c, gap_ns, now_ns, silence);
}

/* The agent's heartbeat ends; native_reset brings it back. */
void native_end_agent(void) { native_config.stale_ns = 0; }

__u64 native_patience_ns(const struct hcc_job_state *s) { return hcc_patience_ns(s); }

void native_iteration_end(struct hcc_job_state *s, const struct hcc_job_conf *c, __u64 now_ns)
{
	hcc_iteration_end(s, c, now_ns);
}

__u32 native_ratio_q10(__u64 bytes, __u64 total) { return hcc_ratio_q10(bytes, total); }
__u32 native_f_q10(const struct hcc_job_conf *c, __u32 ratio) { return hcc_f_q10(c, ratio); }
__u32 native_log2_q10(__u32 x) { return hcc_log2_q10(x); }

__u32 native_urgency_q10(const struct hcc_job_state *s, const struct hcc_job_conf *c, __u32 ratio)
{
	return hcc_urgency_q10(s, c, ratio);
}

__u32 native_target_us(const struct hcc_job_conf *c, __u32 base_us, __u32 q_loss_us,
		       __u32 urgency_q10)
{
	return hcc_target_us(c, base_us, q_loss_us, urgency_q10);
}

void native_learn_rate(struct hcc_job_state *s, __u64 now_ns) { hcc_learn_rate(s, now_ns); }
__u64 native_work_ns(const struct hcc_job_state *s) { return hcc_work_ns(s); }

__u32 native_tie_break_q10(const struct hcc_job_state *s, const struct hcc_job_conf *c, __u32 ratio)
{
	return hcc_tie_break_q10(s, c, ratio);
}

__u32 native_pause_us(const struct hcc_job_state *s, __u32 ratio)
{
	return hcc_pause_us(s, ratio);
}

__u32 native_scaled_pause_us(__u32 pause_us, __u32 flows)
{
	return hcc_scaled_pause_us(pause_us, flows);
}

__u32 native_hold_gap_us(const struct hcc_job_state *s, __u32 mss)
{
	return hcc_hold_gap_us(s, mss);
}

__u32 native_in_pattern(const struct hcc_job_state *s) { return hcc_in_pattern(s); }

__u32 native_burst_is_sent(const struct hcc_job_state *s) { return hcc_burst_is_sent(s); }

__u32 native_spread_bps(const struct hcc_job_state *s, __u64 flow_bytes)
{
	return hcc_spread_bps(s, flow_bytes);
}

__u32 native_open_packets(const struct hcc_job_state *s, __u32 had)
{
	return hcc_open_packets(s, had);
}

__u32 native_floor_gap_us(__u32 gap_us, __u32 peers)
{
	return hcc_floor_gap_us(gap_us, peers);
}

__u64 native_fill_q10(const struct hcc_job_state *s, __u32 us, __u32 mss)
{
	return hcc_fill_q10(s, us, mss);
}
