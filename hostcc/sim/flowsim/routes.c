// SPDX-License-Identifier: Apache-2.0
/*
 * Routes that change, and the bytes that links carried: each is counted on the route it took.
 */
#include "flowsim.h"

#include <stdlib.h>

/* Bytes of the present exchange that the flow has sent. */
static double sent_so_far(const struct sim *s, const struct job *job, const struct flow *flow)
{
	const struct ring *ring = &s->rings[flow->ring];
	const struct phase *phase;
	double round = (double)ring->round, past = s->now - ring->began;

	if (job->state != SENDING)
		return 0;
	phase = &s->phases[job->phase];
	if (flow->ring < phase->first_ring || flow->ring >= phase->last_ring)
		return 0;
	if (!ring->active)
		return flow->bytes * ring->rounds;
	if (ring->plain) {
		double whole = fmin(floor(past / ring->free_s), ring->rounds - 1 - round);

		if (whole > 0) /* a round may have no end */
			past -= whole * ring->free_s;
		else
			whole = 0;
		return (round + whole) * flow->bytes + fmin(flow->bytes, flow->cap * past);
	}
	if (flow->state == OVER)
		return (round + 1) * flow->bytes;
	return (round + 1) * flow->bytes - fmax(flow->left - flow->rate * (s->now - flow->at), 0);
}

static void count_flow(struct sim *s, struct job *job, struct flow *flow, int64_t done)
{
	double partial = sent_so_far(s, job, flow), bytes;

	bytes = done * flow->bytes * s->rings[flow->ring].rounds + partial - flow->credit;
	flow->credit = partial;
	job->sent += bytes;
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
		s->links[s->slots[i].link].carried += bytes;
}

/* Adds what the job has sent to its links. */
void sim_count(struct sim *s, int32_t which)
{
	struct job *job = &s->jobs[which];

	if (job->state == GONE) /* was counted when it left */
		return;
	sim_wake(s, which, 1);
	for (int32_t p = job->first_phase; p < job->last_phase; p++) {
		struct phase *phase = &s->phases[p];

		for (int32_t f = phase->first_flow; f < phase->last_flow; f++)
			if (sim_sends(&s->flows[f]))
				count_flow(s, job, &s->flows[f], phase->done);
		phase->done = 0;
	}
}

/* Where a route of so many hops has room; -1: no memory. */
static int32_t reserve(struct sim *s, int32_t hops)
{
	int64_t first = s->slot_count;

	if (first + hops > s->slot_room) {
		int64_t room = 2 * (first + hops);
		struct slot *more = room < INT32_MAX ? realloc(s->slots, room * sizeof(*more)) : 0;

		if (!more) {
			s->failed = 1;
			return -1;
		}
		s->slots = more;
		s->slot_room = room;
	}
	s->slot_count += hops;
	return (int32_t)first;
}

static void take_late_route(struct sim *s, struct flow *flow)
{
	int32_t slot = flow->first_slot, room = flow->room;

	flow->first_slot = flow->late_slot;
	flow->room = flow->late_room;
	flow->hops = flow->late_hops;
	flow->late_slot = slot;
	flow->late_room = room;
	flow->late_hops = -1;
	flow->cap = -1; /* for the survey */
	s->surveyed = 0;
}

void sim_apply_late_routes(struct sim *s, int32_t which)
{
	struct job *job = &s->jobs[which];

	sim_count(s, which);
	for (int32_t f = job->first_flow; f < job->last_flow; f++)
		if (s->flows[f].late_hops >= 0)
			take_late_route(s, &s->flows[f]);
	job->late_routes = 0;
}

static void reroute_in_flight(struct sim *s, struct ring *ring, struct flow *flow)
{
	sim_detail(s, ring);
	if (flow->state == LIVE) {
		sim_settle(s, flow);
		sim_part(s, flow, FREE); /* without a rate, until the survey */
	} else if (flow->state == FREE) {
		double end = flow->rate > 0 ? flow->at + flow->left / flow->rate : INFINITY;

		if (end <= s->due) {
			ring->over = fmax(ring->over, end + flow->delay);
			flow->state = OVER;
		} else {
			sim_settle(s, flow);
			flow->rate = 0;
		}
	}
	if (flow->state == FREE && !flow->late_hops) { /* no link is left to wait for */
		ring->over = fmax(ring->over, s->now);
		flow->state = OVER;
		flow->credit = 0;
	}
	take_late_route(s, flow);
	sim_tail(s, ring);
	sim_touch(s, flow->job);
}

/* Gives flows other routes: at once, or from their next exchange on. */
void hcc_sim_routes(struct sim *s, int64_t count, const int64_t *flows, const int64_t *first,
		    const int64_t *links, int64_t at_once)
{
	for (int64_t k = 0; k < count; k++) {
		struct flow *flow = &s->flows[flows[k]];
		struct job *job = &s->jobs[flow->job];
		struct ring *ring = &s->rings[flow->ring];
		const struct phase *phase;
		int32_t hops = (int32_t)(first[k + 1] - first[k]);

		if (flow->late_room < hops) {
			int32_t room = (hops + 3) / 4 * 4, slot = reserve(s, room);

			if (slot < 0)
				return;
			flow->late_slot = slot;
			flow->late_room = room;
		}
		for (int32_t i = 0; i < hops; i++)
			s->slots[flow->late_slot + i] =
				(struct slot){(int32_t)links[first[k] + i], -1, -1, -1, 0};
		flow->late_hops = hops;
		sim_wake(s, flow->job, 0);
		phase = &s->phases[job->phase < job->last_phase ? job->phase : job->first_phase];
		if (job->state == SENDING && flow->ring >= phase->first_ring &&
		    flow->ring < phase->last_ring && !(at_once && sim_sends(flow))) {
			job->late_routes = 1;
			continue;
		}
		sim_count(s, flow->job);
		if (job->state == SENDING && ring->active && flow->ring >= phase->first_ring &&
		    flow->ring < phase->last_ring)
			reroute_in_flight(s, ring, flow);
		else
			take_late_route(s, flow);
	}
}
