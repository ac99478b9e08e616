// SPDX-License-Identifier: Apache-2.0
/*
 * The survey: which links can the running jobs fill, and so which flows are simulated one by one.
 * It is made when jobs came or went, or routes or capacities are others.
 */
#include "flowsim.h"

#define FULL (1 + 1e-12)

static int in_flight(const struct sim *s, const struct ring *ring)
{
	const struct flow *flow = &s->flows[ring->first_flow];

	return ring->first_flow < ring->last_flow && s->jobs[flow->job].state == SENDING &&
	       ring->active;
}

void sim_tail(struct sim *s, struct ring *ring)
{
	ring->tail = ring->over;
	for (int32_t f = ring->first_flow; f < ring->last_flow; f++) {
		const struct flow *flow = &s->flows[f];

		if (flow->state == FREE)
			ring->tail = fmax(ring->tail, flow->at + flow->left / flow->rate + flow->delay);
	}
}

/* Keeps the flows of a ring one by one from now on. */
void sim_detail(struct sim *s, struct ring *ring)
{
	double past;

	if (!ring->plain)
		return;
	past = fmin(floor((s->due - ring->began) / ring->free_s), ring->rounds - ring->round - 1);
	if (past > 0) {
		ring->round += (int64_t)past;
		ring->began += past * ring->free_s;
	}
	ring->plain = 0;
	ring->over = ring->began;
	for (int32_t f = ring->first_flow; f < ring->last_flow; f++) {
		struct flow *flow = &s->flows[f];

		flow->state = sim_sends(flow) ? FREE : OVER;
		flow->left = flow->bytes;
		flow->at = ring->began;
		flow->rate = flow->cap;
	}
	sim_tail(s, ring);
}

/* Settles a flow that sends at its cap; returns whether it is still sending. */
static int settle_free(struct sim *s, struct flow *flow)
{
	struct ring *ring = &s->rings[flow->ring];
	double end = flow->rate > 0 ? flow->at + flow->left / flow->rate : INFINITY;

	if (end > s->due) {
		sim_settle(s, flow);
		return 1;
	}
	ring->over = fmax(ring->over, end + flow->delay);
	flow->state = OVER;
	return 0;
}

/* Takes over what the flow's links allow now. */
static void recap(struct sim *s, struct flow *flow)
{
	struct ring *ring = &s->rings[flow->ring];
	double cap = flow->own_rate, delay = 0;

	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++) {
		cap = fmin(cap, s->links[s->slots[i].link].capacity);
		delay += s->links[s->slots[i].link].delay;
	}
	if (cap == flow->cap && delay == flow->delay)
		return;
	sim_wake(s, flow->job, 0);
	if (in_flight(s, ring)) {
		sim_detail(s, ring);
		if (flow->state == FREE && settle_free(s, flow))
			flow->rate = cap;
		sim_touch(s, flow->job);
	}
	flow->cap = cap;
	flow->delay = delay;
	if (in_flight(s, ring))
		sim_tail(s, ring);
}

/* Adds what a phase sends to its links, or takes it over as the job's greatest so far. */
static void load_phase(struct sim *s, const struct phase *phase)
{
	for (int32_t f = phase->first_flow; f < phase->last_flow; f++)
		for (int32_t i = 0; sim_sends(&s->flows[f]) && i < s->flows[f].hops; i++)
			s->links[s->slots[s->flows[f].first_slot + i].link].phase_load +=
				s->flows[f].cap;
	for (int32_t f = phase->first_flow; f < phase->last_flow; f++)
		for (int32_t i = 0; i < s->flows[f].hops; i++) {
			struct link *link = &s->links[s->slots[s->flows[f].first_slot + i].link];
			double more = link->phase_load - link->job_load;

			link->phase_load = 0;
			if (more > 0) {
				link->load += more;
				link->job_load += more;
			}
		}
}

/* Phases of a job take turns, so it loads a link with the most that one of them can send. */
static void load_links(struct sim *s, const struct job *job)
{
	for (int32_t p = job->first_phase; p < job->last_phase; p++)
		load_phase(s, &s->phases[p]);
	for (int32_t f = job->first_flow; f < job->last_flow; f++)
		for (int32_t i = 0; i < s->flows[f].hops; i++)
			s->links[s->slots[s->flows[f].first_slot + i].link].job_load = 0;
}

static int crosses_contended(const struct sim *s, const struct flow *flow)
{
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
		if (s->links[s->slots[i].link].contended)
			return 1;
	return 0;
}

static void free_flow(struct sim *s, struct flow *flow)
{
	sim_settle(s, flow);
	sim_part(s, flow, FREE);
	flow->rate = flow->cap;
}

static void catch_flow(struct sim *s, struct flow *flow)
{
	if (!settle_free(s, flow))
		return;
	sim_first_step(s, flow);
	while (flow->floor > 0 && flow->left <= flow->floor)
		sim_next_step(s, flow);
	sim_join(s, flow);
}

/* A flow in flight becomes a live one, or one that sends at its cap. */
static void convert(struct sim *s, struct ring *ring)
{
	sim_detail(s, ring);
	for (int32_t f = ring->first_flow; f < ring->last_flow; f++) {
		struct flow *flow = &s->flows[f];

		if (flow->state == LIVE && !flow->contended)
			free_flow(s, flow);
		else if (flow->state == FREE && flow->contended)
			catch_flow(s, flow);
	}
	sim_tail(s, ring);
	sim_touch(s, s->flows[ring->first_flow].job);
}

static void classify(struct sim *s, struct ring *ring)
{
	double free_s = -1;
	uint8_t contended = 0, changed = 0;

	for (int32_t f = ring->first_flow; f < ring->last_flow; f++) {
		struct flow *flow = &s->flows[f];
		uint8_t crosses = sim_sends(flow) && crosses_contended(s, flow);

		changed |= crosses != flow->contended ||
			   (!ring->plain && flow->state == (crosses ? FREE : LIVE));
		contended |= crosses;
		flow->contended = crosses;
		if (sim_sends(flow) && !crosses)
			free_s = fmax(free_s, flow->bytes / flow->cap + flow->delay);
	}
	if (changed || free_s != ring->free_s) {
		sim_wake(s, s->flows[ring->first_flow].job, 0);
		if (in_flight(s, ring))
			convert(s, ring);
	}
	ring->contended = contended;
	ring->free_s = free_s;
}

static void unlink_all(struct sim *s)
{
	for (int64_t l = 0; l < s->link_count; l++) {
		s->links[l].first = -1;
		s->links[l].load = 0;
	}
	for (int32_t k = 0; k < s->running_count; k++) {
		const struct job *job = &s->jobs[s->running[k]];

		for (int32_t i = 0; i < job->live_count; i++) {
			const struct flow *flow = &s->flows[job->live[i]];

			for (int32_t n = 0; n < flow->hops; n++)
				s->slots[flow->first_slot + n].on = 0;
		}
	}
}

/* All live flows get new rates: they may have links in common that they did not have. */
static void link_live(struct sim *s, const struct job *job)
{
	for (int32_t i = 0; i < job->live_count; i++) {
		struct flow *flow = &s->flows[job->live[i]];

		for (int32_t n = flow->first_slot; n < flow->first_slot + flow->hops; n++)
			if (!s->slots[n].on && s->links[s->slots[n].link].contended)
				sim_link(s, flow, n);
	}
}

void sim_survey(struct sim *s)
{
	s->surveyed = 1;
	unlink_all(s);
	for (int32_t k = 0; k < s->running_count; k++) {
		struct job *job = &s->jobs[s->running[k]];

		for (int32_t f = job->first_flow; f < job->last_flow; f++)
			recap(s, &s->flows[f]);
		load_links(s, job);
	}
	for (int64_t l = 0; l < s->link_count; l++)
		s->links[l].contended = s->links[l].load > s->links[l].capacity * FULL;
	for (int32_t k = 0; k < s->running_count; k++) {
		struct job *job = &s->jobs[s->running[k]];

		job->contended = 0;
		for (int32_t r = job->first_ring; r < job->last_ring; r++) {
			classify(s, &s->rings[r]);
			job->contended |= s->rings[r].contended;
		}
		link_live(s, job);
	}
}
