/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The gate of a job: the first packets of a burst wait while another job of its group sends.
 *
 * A flow that comes to rest keeps a window of two packets, so that no more leave before its next
 * start is seen.  If the gate is open by then, it has its former window back at once, and sends it
 * paced until the first acknowledgement.  Otherwise it is paced, two packets at a time: each
 * acknowledgement looks at the gate.  The gate is a deadline, and without heartbeat it counts as
 * open, so nothing has to be undone for the job.
 */
#ifndef HOSTCC_GATE_BPF_H
#define HOSTCC_GATE_BPF_H

#define REST_CWND 2u
#define RESTART_CWND 10u		/* TCP_INIT_CWND: what the kernel leaves after a long idle time */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u32);
	__type(value, struct hcc_gate);
} gates SEC(".maps");
const enum hcc_burst *export_burst __attribute__((unused));
const enum hcc_event_kind *export_event_kind __attribute__((unused));

static __always_inline const struct hcc_gate *job_gate(u32 slot)
{
	return slot ? bpf_map_lookup_elem(&gates, &slot) : NULL;
}

/* Whether flows of the job are to wait now; never longer than its last period. */
__noinline int gate_is_closed(u32 slot, const struct hcc_job_state *s, u64 now)
{
	const struct hcc_gate *g = job_gate(slot);

	if (!g || !s || !g->armed || (s64)(g->closed_until_ns - now) <= 0)
		return 0;
	if (s->burst == HCC_BURST_HELD && hcc_elapsed_ns(now, s->held_since_ns) > s->period_ns)
		return 0;
	return agent_alive(now);
}

static void emit(u32 slot, enum hcc_event_kind kind, u64 now)
{
	struct hcc_event *e = new_event(slot, kind, now);

	/* The agent acts at once; ends of iterations wait for its next tick. */
	if (e)
		bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
}

/* An iteration has begun with its first packet. */
__noinline int burst_begins(u32 slot, struct hcc_job_state *s, u64 now)
{
	const struct hcc_gate *g = job_gate(slot);

	if (!g || !s)
		return 0;
	s->burst = HCC_BURST_NONE;
	if (!g->armed)
		return 0;
	if (gate_is_closed(slot, s, now) && hcc_in_pattern(s)) {
		s->held_since_ns = now;
		s->holds++;
		s->burst = HCC_BURST_HELD;
		emit(slot, HCC_EVENT_HELD, now);
	} else {
		s->burst = HCC_BURST_SENDING;
		emit(slot, HCC_EVENT_BEGIN, now);
	}
	return 0;
}

/* The first flow that finds the gate open says so. */
__noinline int burst_opens(u32 slot, struct hcc_job_state *s, u64 now)
{
	if (s && __sync_val_compare_and_swap(&s->burst, HCC_BURST_HELD, HCC_BURST_SENDING) ==
			 HCC_BURST_HELD) {
		s->held_ns += hcc_elapsed_ns(now, s->held_since_ns);
		emit(slot, HCC_EVENT_OPENED, now);
	}
	return 0;
}

/* Nothing of the job is on its way: if its bytes are sent, the burst is over. */
__noinline int burst_ends(u32 slot, struct hcc_job_state *s, u64 now)
{
	u32 burst;

	if (!s || !hcc_burst_is_sent(s))
		return 0;
	burst_opens(slot, s, now);
	burst = __sync_val_compare_and_swap(&s->burst, HCC_BURST_SENDING, HCC_BURST_NONE);
	if (burst == HCC_BURST_SENDING)
		emit(slot, HCC_EVENT_END, now);
	return 0;
}

/* Whether a flow may wait at the gate: not in recovery, nor where its owner paces it. */
static __always_inline bool gate_may_hold(struct sock *sk, const struct flow_priv *f)
{
	const struct hcc_gate *g = job_gate(f->slot);

	return g && g->armed && ca_state(sk) <= TCP_CA_Disorder &&
	       (sk->sk_max_pacing_rate == ~0UL || f->flags & FLOW_PACED);
}

/* All data is acknowledged: let no more than two packets leave before the next start is seen. */
static __always_inline void gate_rest(struct sock *sk, struct flow_priv *f)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (f->flags & FLOW_HELD) {
		f->flags &= ~FLOW_HELD;
		set_pacing(sk, f, 0);
	} else {
		if (f->flags & FLOW_RESTS || !gate_may_hold(sk, f))
			return;
		f->mark_us = 0;
		f->mark_seq = tp->snd_cwnd;
	}
	f->flags |= FLOW_RESTS;
	if (tp->snd_cwnd > REST_CWND)
		tp->snd_cwnd = REST_CWND;
}

/* Give a flow at rest its window back. */
static __always_inline void gate_wake(struct sock *sk, struct flow_priv *f)
{
	if (f->flags & FLOW_RESTS) {
		f->flags &= ~FLOW_RESTS;
		tcp_sk(sk)->snd_cwnd = f->mark_seq;
	}
}

/*
 * Flows of a job start at once, each with a window of its own, which together overflow a queue:
 * rings of eight flows took 8 % longer.  So the first windows are sent as fast as the job is.
 */
static __always_inline void gate_spread(struct sock *sk, struct flow_priv *f,
					const struct hcc_job_state *s)
{
	u32 bps;

	if (f->epoch == s->epoch) /* it has sent before in this iteration */
		return;
	bps = hcc_spread_bps(s, (u64)f->flow_kib << 10);
	if (bps) {
		f->flags |= FLOW_SPREADS;
		set_pacing(sk, f, bps);
	}
}

/*
 * A flow starts: whether it has to wait.  One whose last acknowledgement ended a recovery is not at
 * rest (1 in 25 in rings of eight flows), and sends what its first call may before it waits.
 */
static __always_inline bool gate_tx_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);
	u64 now = now_ns(tp);

	if (!(f->flags & FLOW_RESTS) && !gate_may_hold(sk, f))
		return false;
	gate_wake(sk, f);
	if (!s)
		return false;
	if (s->burst != HCC_BURST_HELD || !gate_is_closed(f->slot, s, now)) {
		gate_spread(sk, f, s);
		return false;
	}
	f->flags |= FLOW_HELD;
	f->mark_us = 0;
	f->mark_seq = tp->snd_cwnd;
	if (tp->snd_ssthresh < tp->snd_cwnd)
		tp->snd_ssthresh = tp->snd_cwnd;
	if (tp->snd_cwnd > REST_CWND)
		tp->snd_cwnd = REST_CWND;
	set_pacing(sk, f, (u64)2 * tp->mss_cache * 1000000 / hcc_hold_gap_us(s, tp->mss_cache));
	return true;
}

/* Whether a flow still waits, at an acknowledgement; opens it otherwise. */
static __always_inline bool gate_holds(struct sock *sk, struct flow_priv *f,
				       struct hcc_job_state *s)
{
	u64 now = now_ns(tcp_sk(sk));

	if (f->flags & FLOW_SPREADS) {
		f->flags &= ~FLOW_SPREADS;
		set_pacing(sk, f, 0);
	}
	if (!(f->flags & FLOW_HELD))
		return false;
	if (s->burst == HCC_BURST_HELD && gate_is_closed(f->slot, s, now))
		return true;
	burst_opens(f->slot, s, now);
	f->flags &= ~FLOW_HELD;
	set_pacing(sk, f, 0);
	tcp_sk(sk)->snd_cwnd = hcc_open_packets(s, f->mark_seq);
	return false;
}

/*
 * Whether the window may grow by this acknowledgement: not while the flow waits.  The one that
 * puts it to rest counts for the window that it comes back to; gate_rest_again follows.
 */
static __always_inline bool gate_may_grow(struct sock *sk, const struct flow_priv *f)
{
	if (f->flags & FLOW_HELD)
		return false;
	if (f->flags & FLOW_RESTS)
		tcp_sk(sk)->snd_cwnd = f->mark_seq;
	return true;
}

static __always_inline void gate_rest_again(struct sock *sk, struct flow_priv *f)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!(f->flags & FLOW_RESTS))
		return;
	f->mark_seq = tp->snd_cwnd;
	if (tp->snd_cwnd > REST_CWND)
		tp->snd_cwnd = REST_CWND;
}

/* ssthresh after a loss while the flow waits: it has sent next to nothing, so the window stays. */
static __always_inline u32 gate_ssthresh(const struct flow_priv *f)
{
	return f->mark_seq > REST_CWND ? f->mark_seq : REST_CWND;
}

/* The kernel takes the window of a flow that was idle for long. */
static __always_inline void gate_restart(struct flow_priv *f)
{
	if (f->flags & FLOW_RESTS && f->mark_seq > RESTART_CWND)
		f->mark_seq = RESTART_CWND;
}

#endif
