/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hostcc variant.  All flows of a job to one peer share a window that follows a
 * queueing-delay target.  The target rises with the job's urgency, so a job that is behind
 * yields before the queue overflows.
 *
 * It acts as plain cubic unless this is known to pay: until two iterations were alike; if the
 * job receives much while it sends, or this is unknown; if it pauses within its iterations; if
 * it is not periodic; if yielding did not pay; if the agent is gone; and after a retransmission
 * time-out.
 */
#ifndef HOSTCC_HOST_BPF_H
#define HOSTCC_HOST_BPF_H

#include "path.bpf.h"

#define WINDOW_MAX_Q10 (1u << 30)
#define PERSISTENCE 4			/* steps on one side of the target that call for a larger change */

/*
 * The RTT that this acknowledgement shows, us; 0: none.  A packet sent before its socket's
 * pending departure time (set_pacing) has that time as its time stamp, which makes the
 * kernel's RTT too short; then the flow's own sample is used.
 */
static __always_inline u32 true_rtt_us(struct sock *sk, struct flow_priv *f,
				      const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 now_us = (u32)tp->tcp_mstamp, sent_us = now_us - sample->rtt_us, own = 0;

	if (ca_state(sk) != TCP_CA_Open)
		f->mark_us = 0;
	if (f->mark_us && (s32)(tp->snd_una - f->mark_seq) > 0) {
		own = now_us - f->mark_us;
		f->mark_us = 0;
	}
	if (sample->rtt_us <= 0 || sent_us - f->hold_us + 2 < 5)
		return own;
	return sample->rtt_us;
}

/* Start an own RTT sample with the packet that this acknowledgement releases. */
static __always_inline void mark_next_packet(const struct tcp_sock *tp, struct flow_priv *f)
{
	if (f->mark_us || f->flags & FLOW_PACED || tp->packets_out >= tp->snd_cwnd ||
	    tp->write_seq == tp->snd_nxt)
		return;
	f->mark_seq = tp->snd_nxt;
	f->mark_us = (u32)tp->tcp_mstamp;
}

static __always_inline bool delay_mode(struct sock *sk, const struct flow_priv *f,
				       const struct hcc_job_conf *c, struct hcc_job_state *s)
{
	u32 why;

	if (!c || !s || c->mode != HCC_MODE_MLTCP || !c->target_max_us)
		return false;
	why = hcc_plain_window(s);
	if (!why && !f->path)
		why = HCC_PLAIN_NO_WINDOW;
	if (!why && hcc_path_too_long(s, tcp_sk(sk)->rtt_min.s[0].v))
		why = HCC_PLAIN_LONG_PATH;
	set_plain_reason(s, why);
	return !why && agent_alive(now_ns(tcp_sk(sk)));
}

/* One step of the path's window. */
static __always_inline void path_step(struct sock *sk, struct flow_priv *f,
				      struct hcc_path_state *p, struct hcc_job_state *s,
				      const struct hcc_job_conf *c, u32 base, u32 acked, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 samples = p->q_samples, q = p->q_sum_us / (samples ? samples : 1), w = p->window_q10;
	u32 ratio = flow_ratio_q10(f, s, c);
	u32 urgency = hcc_urgency_q10(s, c, ratio);
	u32 target = hcc_target_us(c, base, s->q_loss_us, urgency);
	u32 most = hcc_target_us(c, base, s->q_loss_us, HCC_ONE);
	/*
	 * The queue exceeds even the highest target: too many flows send at the floor rate.
	 * Lower it.
	 */
	u32 gap_us = path_floor_gap_us(f, q > most + most / 4);
	u32 floor_q10 = (u64)BURST_Q10 * (base + q) / (gap_us + 1);
	/* A window that is not used must not grow: shrinking it again would take long. */
	u64 used_q10 = (u64)(2 * (tp->packets_out + acked) + BURST_SLACK) * HCC_ONE;
	u64 fill_q10 = hcc_fill_q10(s, base + target, tp->mss_cache);
	bool limited = f->flags & FLOW_PACED || used_q10 * (p->awake ?: 1) >= w;

	p->q_sum_us = 0;
	p->q_samples = 0;
	p->q_us = q;
	p->q_peak_us -= p->q_peak_us / 8;
	if (floor_q10 > BURST_Q10)
		floor_q10 = BURST_Q10;
	if (q <= target)
		p->persists = p->persists > 0 ? p->persists + 1 : 1;
	else
		p->persists = p->persists < 0 ? p->persists - 1 : -1;
	if (q <= target) {
		if (p->flags & PATH_YIELDS)
			p->flags = PATH_RAMP;
		if (!limited) {
			;
		} else if (p->flags & PATH_RAMP && (q < target / 2 || base > target) &&
			   (!fill_q10 || w < fill_q10)) {
			w += w < BURST_Q10 ? BURST_Q10 : base > target ? w / 2 : w;
			/* The delay shows growth a round trip late: stop at the target's window. */
			if (fill_q10 && w > fill_q10)
				w = fill_q10 > BURST_Q10 ? fill_q10 : BURST_Q10;
		} else {
			p->flags &= ~PATH_RAMP;
			w += (u64)w * (target - q) / (target + base + q) / 2 + hcc_f_q10(c, urgency);
			if (p->persists > PERSISTENCE)
				w += w / 4;
		}
	} else {
		u32 cut = (u64)w * (q - target) / (q + target);

		/* A more urgent job holds the queue above this target, however slightly: yield. */
		if (p->persists < -PERSISTENCE && cut < w / 4)
			cut = w / 4;
		w -= cut > w / 2 ? w / 2 : cut;
		p->flags &= ~PATH_RAMP;
		if (w <= floor_q10)
			p->flags |= PATH_YIELDS;
	}
	if (w < floor_q10)
		w = floor_q10;
	if (p->flags & PATH_YIELDS) {
		u64 elapsed = s->yield_since_ns ? hcc_elapsed_ns(now, s->yield_since_ns) : 0;

		s->yield_ns += elapsed;
		/* Stop yielding at once: plain for the rest of this iteration, and after it. */
		if (hcc_competitor_unresponsive(s, c, base, q, elapsed)) {
			s->yield_ns += 2 * hcc_patience_ns(s);
			s->escape = HCC_PLAIN_UNRESPONSIVE;
		}
		s->yield_since_ns = now;
	} else {
		s->yield_since_ns = 0;
	}
	p->window_q10 = w > WINDOW_MAX_Q10 ? WINDOW_MAX_Q10 : w;
}

/* A flow begins to send after silence. */
static void host_tx_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);
	const struct hcc_job_conf *c = job_conf(f->slot);
	struct hcc_path_state *p;
	u32 base, share;
	bool first = false;
	u64 start;

	if (!delay_mode(sk, f, c, s) || f->epoch == s->epoch)
		return;
	p = path_state(f);
	if (!p)
		return;
	base = path_base(sk, p, 0);
	flow_enter(f, s);
	f->flags &= ~(FLOW_AWAKE | FLOW_SPREADS);
	f->park_us = 0;
	f->mark_us = 0;
	if (p->epoch != s->epoch) {
		/* The first flow probes with little, so that a job further on keeps the link. */
		p->epoch = s->epoch;
		p->base_us += p->base_us >> 7;	/* routes change */
		p->awake = 0;
		start = hcc_start_window_q10(s, base, tp->mss_cache);
		p->window_q10 = start > BURST_Q10 ? start : BURST_Q10;
		p->flags = PATH_RAMP;
		p->q_sum_us = 0;
		p->q_samples = 0;
		p->next_step_ns = 0;
		p->q_us = 0;
		p->persists = 0;
		count_peer(f, s->epoch);
		first = true;
	}
	share = p->window_q10 / (s->flows ? s->flows : 1);
	if (share >= BURST_Q10) {
		/* A long path: all flows start at once, spread over a round trip. */
		wake(f, p);
		tp->snd_cwnd = share / HCC_ONE;
		pace_burst(sk, f, (u64)BURST_Q10 * base / share);
	} else if (first) {
		wake(f, p);
		set_pacing(sk, f, 0);
		tp->snd_cwnd = 2;
	} else {
		start_parked(sk, f, s->flows);
	}
}

/* The gate of a flow has opened: start as if it had not waited. */
static __always_inline void host_tx_opened(struct sock *sk, struct flow_priv *f)
{
	u32 kib = f->flow_kib, total = f->total_kib, epoch = f->epoch;

	f->epoch--;	/* for what follows, its first packets are not sent yet */
	host_tx_start(sk);
	f->epoch = epoch;
	f->flow_kib = kib;
	f->total_kib = total;
}

SEC("struct_ops/hcc_host_init")
void BPF_PROG(hcc_host_init, struct sock *sk)
{
	struct flow_priv *f = priv(sk);

	cubictcp_init(sk);
	flow_init(sk);
	if (f->slot)
		f->path = path_acquire(sk, f->slot);
}

SEC("struct_ops/hcc_host_release")
void BPF_PROG(hcc_host_release, struct sock *sk)
{
	struct flow_priv *f = priv(sk);
	struct hcc_path_state *p = path_state(f);

	if (p) {
		sleep(f, p);
		path_release(p, f->path);
		f->path = 0;
	}
	flow_release(sk);
}

SEC("struct_ops/hcc_host_event")
void BPF_PROG(hcc_host_event, EVENT_ARGS)
{
	cubic_event();
	if (!flow_event(sk, EVENT) && EVENT == CA_EVENT_TX_START)
		host_tx_start(sk);
}

static __always_inline u32 host_ssthresh(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);
	const struct hcc_job_conf *c = job_conf(f->slot);
	struct hcc_path_state *p = path_state(f);
	u32 keep, w;
	u64 now = now_ns(tp);

	/* Packets next to the lost one saw a nearly full buffer, those before it less. */
	if (s && p && p->q_peak_us > 100 && f->flags & FLOW_AWAKE) {
		if (!s->q_loss_us)
			s->q_loss_us = p->q_peak_us;
		else if (p->q_peak_us > s->q_loss_us)
			s->q_loss_us += (p->q_peak_us - s->q_loss_us) / 16;
		else
			s->q_loss_us -= (s->q_loss_us - p->q_peak_us) / 8;
	}
	if (f->flags & FLOW_HELD)
		return gate_ssthresh(f);
	if (!p || !delay_mode(sk, f, c, s))
		return cubictcp_recalc_ssthresh(sk);
	keep = HCC_ONE / 2 + hcc_urgency_q10(s, c, flow_ratio_q10(f, s, c)) / 4;
	/* If several flows lose packets in one overflow, the window is cut once. */
	if (now >= p->next_step_ns || p->flags & PATH_RAMP) {
		p->next_step_ns = now + (u64)(tp->srtt_us >> 3) * 1000;
		p->window_q10 = (u64)p->window_q10 * keep / HCC_ONE;
		p->flags &= ~PATH_RAMP;
	}
	w = tp->snd_cwnd * keep / HCC_ONE;
	return w > 2 ? w : 2;
}

SEC("struct_ops/hcc_host_acked")
void BPF_PROG(hcc_host_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);
	const struct hcc_job_conf *c = job_conf(f->slot);
	struct hcc_path_state *p = path_state(f);
	u32 rtt, base, q;
	u64 now = now_ns(tp), due;
	u32 pause, turn;
	bool usable, waits = f->flags & FLOW_HELD;

	mend(sk, ca_state(sk), host_ssthresh);
	cubictcp_acked(sk, sample);
	if (!s || !c)
		return;
	if (!p) {
		flow_count(sk, f, s);
		gate_holds(sk, f, s);
		return;
	}
	rtt = true_rtt_us(sk, f, sample);
	base = path_base(sk, p, rtt);
	/* A single packet may include the delayed ACK timer: then q is only an upper bound. */
	q = rtt > base ? rtt - base : 0;
	usable = rtt && (sample->pkts_acked > 1 || q <= p->q_us || q < 4 * c->target_max_us);
	flow_count(sk, f, s);
	if (gate_holds(sk, f, s))
		return;
	if (waits && !(f->flags & FLOW_RESTS))
		host_tx_opened(sk, f);
	if (!delay_mode(sk, f, c, s)) {
		sleep(f, p);
		set_pacing(sk, f, 0);
		return;
	}
	if (usable) {
		__sync_fetch_and_add(&p->q_sum_us, q);
		__sync_fetch_and_add(&p->q_samples, 1);
		if (q > p->q_peak_us)
			p->q_peak_us = q;
		due = p->next_step_ns;
		if (now >= due && __sync_val_compare_and_swap(&p->next_step_ns, due,
							      now + (base + q) * 1000ULL) == due)
			path_step(sk, f, p, s, c, base, sample->pkts_acked, now);
	}
	if (!tp->packets_out && tp->write_seq == tp->snd_nxt) {
		sleep(f, p);
		return;
	}
	if (ca_state(sk) == TCP_CA_Loss)
		return;
	pause = hcc_pause_us(s, flow_ratio_q10(f, s, c));
	if (p->flags & PATH_YIELDS) {
		pause = hcc_scaled_pause_us(pause, s->flows);
	} else {
		turn = hcc_serving_pause_us(s->flows, base + q, p->window_q10);
		if (turn < pause)
			pause = turn;
	}
	take_share(sk, f, p, base + q, sample->pkts_acked,
		   hcc_scaled_pause_us(HCC_PARK_MIN_US, s->flows), pause);
	mark_next_packet(tp, f);
}

/*
 * F where the window follows loss.  For a two-way job, or one that sends in bursts, only its
 * weight: with growth by bytes_ratio, rings and DistributedDataParallel were slower than with
 * plain growth.
 */
static __always_inline u32 host_f_q10(struct sock *sk, struct flow_priv *f,
				      const struct hcc_job_conf *c, const struct hcc_job_state *s)
{
	u32 scale;

	if (c && s && c->mode == HCC_MODE_MLTCP &&
	    (s->direction != HCC_DIRECTION_ONE_WAY || hcc_in_bursts(s))) {
		if (s->direction == HCC_DIRECTION_UNKNOWN || !agent_alive(now_ns(tcp_sk(sk))))
			return HCC_ONE;
		return c->plain_q10;
	}
	scale = flow_f_q10(sk, f);
	if (!c || !s || c->mode != HCC_MODE_MLTCP)
		return scale;
	if (!f->path)
		return HCC_ONE;	/* all windows of this host are taken */
	/* Beside a competitor that does not yield, less than plain growth only loses. */
	return s->stance == HCC_STANCE_PLAIN && scale < HCC_ONE ? HCC_ONE : scale;
}

SEC("struct_ops/hcc_host_avoid")
void BPF_PROG(hcc_host_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct flow_priv *f = priv(sk);
	const struct hcc_job_conf *c = job_conf(f->slot);
	struct hcc_job_state *s = job_state(f->slot);

	/* After a time-out the kernel's slow start rebuilds the window. */
	if (ca_state(sk) != TCP_CA_Loss && delay_mode(sk, f, c, s))
		return;
	if (!gate_may_grow(sk, f))
		return;
	if (!tcp_in_slow_start(tcp_sk(sk)))
		acked = scale_acked(f, acked, host_f_q10(sk, f, c, s));
	cubictcp_cong_avoid(sk, ack, acked);
	gate_rest_again(sk, f);
}

SEC("struct_ops/hcc_host_ssthresh")
u32 BPF_PROG(hcc_host_ssthresh, struct sock *sk)
{
	return host_ssthresh(sk);
}

SEC("struct_ops/hcc_host_state")
void BPF_PROG(hcc_host_state, struct sock *sk, u8 new_state)
{
	mend(sk, new_state, host_ssthresh);
	cubictcp_state(sk, new_state);
	if (new_state == TCP_CA_Loss)
		set_pacing(sk, priv(sk), 0);
}

SEC(".struct_ops")
struct tcp_congestion_ops hcc_host = {
	.init = (void *)hcc_host_init,
	.release = (void *)hcc_host_release,
	.ssthresh = (void *)hcc_host_ssthresh,
	.cong_avoid = (void *)hcc_host_avoid,
	.set_state = (void *)hcc_host_state,
	EVENT_OPS(hcc_host_event),
	.pkts_acked = (void *)hcc_host_acked,
	.undo_cwnd = (void *)hcc_reno_undo,
	.name = "hcc_host",
};

#endif
