// SPDX-License-Identifier: GPL-2.0-only
/*
 * MLTCP congestion controls: the window of a training job's flow is scaled by
 * F(bytes_ratio); bytes_ratio is the share of this iteration's bytes already acknowledged.
 *
 *   hostcc       follows the queueing delay, and paces below one packet (host.bpf.h)
 *   reno, cubic  the plain algorithm with its additive increase scaled by F
 *   dctcp        RFC 8257 with its increase scaled by F (dctcp.bpf.h)
 *
 * Every program acts as the plain algorithm when the agent's heartbeat is stale, the socket
 * has no job, or the job is not (yet) known to be periodic.
 * Sources: Rajasekaran, MIT thesis 2025, chapter 5; MLTCP, arXiv 2402.09589.
 */
#include "maps.bpf.h"
#include "flow_state.bpf.h"
#include "boundary.h"
#include "urgency.h"
#include "pace.h"
#include "mend.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Exports the constants of the headers to readers of the object's BTF. */
const struct {
	enum hcc_iteration iteration;
	enum hcc_boundary boundary;
	enum hcc_silence silence;
	enum hcc_urgency urgency;
	enum hcc_pace pace;
} *export_constants __attribute__((unused));

static __always_inline u8 ca_state(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);
}

static __always_inline struct hcc_job_state *job_state(u32 slot)
{
	return slot ? bpf_map_lookup_elem(&job_states, &slot) : NULL;
}

static __always_inline const struct hcc_job_conf *job_conf(u32 slot)
{
	return slot ? bpf_map_lookup_elem(&job_confs, &slot) : NULL;
}

static __always_inline u64 now_ns(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp * 1000;
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");
const struct hcc_event *export_event __attribute__((unused));

/* An event without figures; NULL when the buffer is full. */
static __always_inline struct hcc_event *new_event(u32 slot, enum hcc_event_kind kind, u64 now)
{
	struct hcc_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e)
		return NULL;
	__builtin_memset(e, 0, sizeof(*e));
	e->at_ns = now;
	e->slot = slot;
	e->kind = kind;
	return e;
}

static void emit_iteration(u32 slot, const struct hcc_job_state *s, u64 now, u64 bytes, u64 yield)
{
	struct hcc_event *e = new_event(slot, HCC_EVENT_ITERATION, now);

	if (!e)
		return;
	e->bytes = bytes;
	e->comm_ns = s->comm_ns;
	e->period_ns = s->period_ns;
	e->yield_ns = yield;
	e->stance = s->stance;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static void flow_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow_priv *f = priv(sk);
	struct hcc_flow *id = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct hcc_job_state *s;

	f->slot = id ? id->slot : 0;
	f->flags = sk->sk_pacing_status == SK_PACING_NONE ? 0 : FLOW_HAD_PACING;
	f->acked_mark = (u32)tp->bytes_acked;
	f->epoch = 0;
	f->park_us = 0;
	f->hold_us = 0;
	f->mark_us = 0;
	f->carry_q10 = 0;
	f->path = 0;
	f->flow_kib = 0;
	f->total_kib = 0;
	s = job_state(f->slot);
	if (s)
		__sync_fetch_and_add(&s->flows, 1);
}

static void set_pacing(struct sock *sk, struct flow_priv *f, u32 bps)
{
	u32 none = ~0U;

	if (bps) {
		f->flags |= FLOW_PACED;
		bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &bps, sizeof(bps));
	} else if (f->flags & FLOW_PACED) {
		f->flags &= ~FLOW_PACED;
		f->hold_us = tcp_sk(sk)->tcp_wstamp_ns / 1000;
		bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &none, sizeof(none));
		if (!(f->flags & FLOW_HAD_PACING))
			sk->sk_pacing_status = SK_PACING_NONE;
	}
}

#include "gate.bpf.h"

/* Functions of their own for the verifier, which goes through them once and not on every path. */
__noinline int judge_silence(struct hcc_job_state *s, const struct hcc_job_conf *c, u64 gap_ns,
			     u64 now, u32 srtt_us)
{
	return s && c ? hcc_judge_silence(s, c, gap_ns, now, srtt_us, agent_alive(now)) : 0;
}

__noinline int judge_waiting(const struct hcc_job_state *s, const struct hcc_job_conf *c,
			     u64 gap_ns, u64 now)
{
	return s && c ? hcc_judge_waiting(s, c, gap_ns, agent_alive(now)) : HCC_SILENCE_NONE;
}

__noinline int learn_silence(struct hcc_job_state *s, const struct hcc_job_conf *c, u64 gap_ns,
			     u64 now, u32 silence)
{
	if (s && c)
		hcc_learn_silence(s, c, gap_ns, silence, agent_alive(now));
	return 0;
}

/* Called when a flow sends after silence: begin an iteration if the job was silent. */
static void flow_tx_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);
	const struct hcc_job_conf *c = job_conf(f->slot);
	u64 now = now_ns(tp), last, gap, pause;
	u32 silence, others;

	if (!s || !c || f->flags & FLOW_BUSY)
		return;
	f->flags |= FLOW_BUSY;
	others = __sync_fetch_and_add(&s->busy, 1);
	last = s->last_active_ns;
	gap = now - last;
	if ((s64)gap <= 0)
		return;
	/* The queue lengthens the mean RTT, and must not hide pauses. */
	pause = gap >= hcc_min_silence_ns(tp->rtt_min.s[0].v) ? gap : 0;
	silence = others ? judge_waiting(s, c, gap, now) :
			   judge_silence(s, c, gap, now, tp->srtt_us >> 3);
	if (silence == HCC_SILENCE_NONE)
		return;
	/* The first iteration needs no silence: it may begin right after the handshake. */
	if (!s->iteration_start_ns || silence != HCC_SILENCE_SHORT) {
		/* If several flows start at once, one of them ends the iteration. */
		if (__sync_val_compare_and_swap(&s->last_active_ns, last, now) != last)
			return;
		if (!s->iteration_start_ns || s->iteration_bytes < HCC_MIN_ITERATION_BYTES) {
			/* Nothing, or only a message such as a handshake: too little to learn from. */
			s->iteration_start_ns = now;
			s->iteration_bytes = 0;
			s->pause_ns = 0;
			s->epoch++;
			burst_begins(f->slot, s, now);
		} else {
			u64 bytes = s->iteration_bytes, yielded = s->yield_ns;

			s->last_active_ns = last;
			learn_silence(s, c, gap, now, silence);
			if (silence == HCC_SILENCE_END) {
				hcc_iteration_end(s, c, now);
				emit_iteration(f->slot, s, now, bytes, yielded);
				burst_begins(f->slot, s, now);
			} else {
				s->pause_ns += pause;
			}
			s->last_active_ns = now;
		}
	} else {
		s->last_active_ns = now;
		s->pause_ns += pause;
	}
}

/* Record that this flow takes part in the job's current iteration. */
static __always_inline void flow_enter(struct flow_priv *f, const struct hcc_job_state *s)
{
	f->epoch = s->epoch;
	f->total_kib = f->flow_kib;
	f->flow_kib = 0;
}

/* Decrement, but not below 0: a reused slot begins at 0, and old flows may end later. */
static __always_inline void decrement(u32 *count)
{
	if (!*(volatile u32 *)count)
		return;
	if ((s32)__sync_fetch_and_sub(count, 1) <= 0)
		__sync_fetch_and_add(count, 1);
}

/* Record that all data of the application has been acknowledged. */
static __always_inline void flow_idle(struct flow_priv *f, struct hcc_job_state *s)
{
	if (f->flags & FLOW_BUSY) {
		f->flags &= ~FLOW_BUSY;
		decrement(&s->busy);
	}
}

/* Count the bytes that were acknowledged since the last call. */
static void flow_count(struct sock *sk, struct flow_priv *f, struct hcc_job_state *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before = f->acked_mark, bytes = (u32)tp->bytes_acked - before;
	u64 now = now_ns(tp);

	f->acked_mark = (u32)tp->bytes_acked;
	if (f->epoch != s->epoch)
		flow_enter(f, s);
	/* What is left of a KiB counts the next time. */
	f->flow_kib += ((before & 1023) + (u64)bytes) >> 10;
	__sync_fetch_and_add(&s->iteration_bytes, bytes);
	__sync_fetch_and_add(&s->bytes_acked, bytes);
	/* A race between two CPUs costs a few microseconds of accuracy. */
	if (hcc_elapsed_ns(now, s->last_active_ns))
		s->last_active_ns = now;
	hcc_learn_rate(s, now);
	if (!tp->packets_out && tp->write_seq == tp->snd_nxt) {
		flow_idle(f, s);
		gate_rest(sk, f);
		if (!s->busy && s->burst)
			burst_ends(f->slot, s, now);
	}
}

static __always_inline u32 flow_ratio_q10(const struct flow_priv *f, const struct hcc_job_state *s,
					  const struct hcc_job_conf *c)
{
	if (c->scope == HCC_SCOPE_FLOW)
		return hcc_ratio_q10(f->flow_kib, f->total_kib);
	return hcc_ratio_q10(s->iteration_bytes, s->total_bytes);
}

/* F for this socket now; HCC_ONE whenever it should act as the plain algorithm. */
static __always_inline u32 flow_f_q10(struct sock *sk, struct flow_priv *f)
{
	const struct hcc_job_conf *c = job_conf(f->slot);
	struct hcc_job_state *s = job_state(f->slot);

	if (!c || !s || c->mode == HCC_MODE_OFF || !agent_alive(now_ns(tcp_sk(sk))))
		return HCC_ONE;
	if (c->mode == HCC_MODE_STATIC)
		return c->static_f_q10;
	if (hcc_plain_growth(s))
		return HCC_ONE;
	return hcc_f_q10(c, flow_ratio_q10(f, s, c));
}

/* For status only; the flow with the latest acknowledgement decides. */
static __always_inline void set_plain_reason(struct hcc_job_state *s, u32 why)
{
	if (s->plain != why)
		s->plain = why;
}

/* F of a variant whose window always follows loss. */
static __always_inline u32 loss_f_q10(struct sock *sk, struct flow_priv *f)
{
	struct hcc_job_state *s = job_state(f->slot);

	if (s)
		set_plain_reason(s, hcc_plain_growth(s));
	return flow_f_q10(sk, f);
}

/* `acked` packets scaled by F; the fraction is carried over to the next call. */
static __always_inline u32 scale_acked(struct flow_priv *f, u32 acked, u32 f_q10)
{
	u64 q = (u64)acked * f_q10;

	if (f_q10 == HCC_ONE)
		return acked;
	q += f->carry_q10;
	f->carry_q10 = q & (HCC_ONE - 1);
	return q >> 10;
}

static void flow_release(struct sock *sk)
{
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);

	gate_wake(sk, f);
	if (f->flags & FLOW_PACED && !(f->flags & FLOW_HAD_PACING))
		sk->sk_pacing_status = SK_PACING_NONE;
	if (!s)
		return;
	flow_idle(f, s);
	decrement(&s->flows);
}

/* Events that every variant follows; whether the flow has to wait. */
static __always_inline bool flow_event(struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_CWND_RESTART)
		gate_restart(priv(sk));
	if (ev != CA_EVENT_TX_START)
		return false;
	flow_tx_start(sk);
	return gate_tx_start(sk);
}

#ifdef HCC_TX_START_OP
SEC("struct_ops/hcc_restart")
void BPF_PROG(hcc_restart, struct sock *sk, enum tcp_ca_event ev)
{
	flow_event(sk, ev);
}
#endif

SEC("struct_ops/hcc_release")
void BPF_PROG(hcc_release, struct sock *sk)
{
	flow_release(sk);
}

/* ---- reno ---- */

SEC("struct_ops/hcc_reno_init")
void BPF_PROG(hcc_reno_init, struct sock *sk)
{
	flow_init(sk);
}

SEC("struct_ops/hcc_reno_event")
void BPF_PROG(hcc_reno_event, EVENT_ARGS)
{
	flow_event(sk, EVENT);
}

SEC("struct_ops/hcc_reno_acked")
void BPF_PROG(hcc_reno_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);

	mend(sk, ca_state(sk), tcp_reno_ssthresh);
	if (s) {
		flow_count(sk, f, s);
		gate_holds(sk, f, s);
	}
}

SEC("struct_ops/hcc_reno_avoid")
void BPF_PROG(hcc_reno_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct flow_priv *f = priv(sk);

	if (!gate_may_grow(sk, f))
		return;
	if (!tcp_in_slow_start(tcp_sk(sk)))
		acked = scale_acked(f, acked, loss_f_q10(sk, f));
	tcp_reno_cong_avoid(sk, ack, acked);
	gate_rest_again(sk, f);
}

SEC("struct_ops/hcc_reno_ssthresh")
u32 BPF_PROG(hcc_reno_ssthresh, struct sock *sk)
{
	if (priv(sk)->flags & FLOW_HELD)
		return gate_ssthresh(priv(sk));
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/hcc_reno_state")
void BPF_PROG(hcc_reno_state, struct sock *sk, u8 new_state)
{
	mend(sk, new_state, tcp_reno_ssthresh);
}

SEC("struct_ops/hcc_reno_undo")
u32 BPF_PROG(hcc_reno_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops hcc_reno = {
	.init = (void *)hcc_reno_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)hcc_reno_ssthresh,
	.cong_avoid = (void *)hcc_reno_avoid,
	.set_state = (void *)hcc_reno_state,
	EVENT_OPS(hcc_reno_event),
	.pkts_acked = (void *)hcc_reno_acked,
	.undo_cwnd = (void *)hcc_reno_undo,
	.name = "hcc_reno",
};

/* ---- cubic ---- */

SEC("struct_ops/hcc_cubic_init")
void BPF_PROG(hcc_cubic_init, struct sock *sk)
{
	cubictcp_init(sk);
	flow_init(sk);
}

SEC("struct_ops/hcc_cubic_event")
void BPF_PROG(hcc_cubic_event, EVENT_ARGS)
{
	cubic_event();
	flow_event(sk, EVENT);
}

SEC("struct_ops/hcc_cubic_acked")
void BPF_PROG(hcc_cubic_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow_priv *f = priv(sk);
	struct hcc_job_state *s = job_state(f->slot);

	mend(sk, ca_state(sk), cubictcp_recalc_ssthresh);
	cubictcp_acked(sk, sample);
	if (s) {
		flow_count(sk, f, s);
		gate_holds(sk, f, s);
	}
}

SEC("struct_ops/hcc_cubic_avoid")
void BPF_PROG(hcc_cubic_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct flow_priv *f = priv(sk);

	if (!gate_may_grow(sk, f))
		return;
	if (!tcp_in_slow_start(tcp_sk(sk)))
		acked = scale_acked(f, acked, loss_f_q10(sk, f));
	cubictcp_cong_avoid(sk, ack, acked);
	gate_rest_again(sk, f);
}

SEC("struct_ops/hcc_cubic_ssthresh")
u32 BPF_PROG(hcc_cubic_ssthresh, struct sock *sk)
{
	if (priv(sk)->flags & FLOW_HELD)
		return gate_ssthresh(priv(sk));
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops/hcc_cubic_state")
void BPF_PROG(hcc_cubic_state, struct sock *sk, u8 new_state)
{
	mend(sk, new_state, cubictcp_recalc_ssthresh);
	cubictcp_state(sk, new_state);
}

SEC(".struct_ops")
struct tcp_congestion_ops hcc_cubic = {
	.init = (void *)hcc_cubic_init,
	.release = (void *)hcc_release,
	.ssthresh = (void *)hcc_cubic_ssthresh,
	.cong_avoid = (void *)hcc_cubic_avoid,
	.set_state = (void *)hcc_cubic_state,
	EVENT_OPS(hcc_cubic_event),
	.pkts_acked = (void *)hcc_cubic_acked,
	.undo_cwnd = (void *)hcc_reno_undo,
	.name = "hcc_cubic",
};

#include "dctcp.bpf.h"
#include "host.bpf.h"
