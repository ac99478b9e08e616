// SPDX-License-Identifier: Apache-2.0
/*
 * A proof that the present rates are the model's, made without the means that found them.
 *
 * Strict priority with weighted max-min below caps has one solution.  Rates are that solution
 * when no link carries more than its capacity, and each flow has its cap or a bottleneck: a
 * full link without flows of lower levels, on which no flow of its own level has more per weight.
 */
#include "flowsim.h"

#define SLACK 1e-9

static double rate_of(const struct sim *s, const struct flow *flow)
{
	const struct ring *ring = &s->rings[flow->ring];
	const struct job *job = &s->jobs[flow->job];
	double past;

	if (job->state != SENDING || !sim_sends(flow) || !ring->active ||
	    flow->ring < s->phases[job->phase].first_ring ||
	    flow->ring >= s->phases[job->phase].last_ring)
		return -1;
	if (ring->plain) {
		past = s->now - ring->began;
		if (past > ring->free_s)
			past -= floor(past / ring->free_s) * ring->free_s;
		return past * flow->cap < flow->bytes ? flow->cap : -1;
	}
	if (flow->state == FREE)
		return sim_end(flow) > s->due ? flow->cap : -1;
	return flow->state == LIVE ? flow->rate : -1;
}

static double weight_of(const struct sim *s, const struct flow *flow)
{
	return flow->own_weight * s->jobs[flow->job].weight *
	       (flow->state == LIVE ? s->ramp[flow->step] : 1);
}

static int crosses(const struct sim *s, const struct flow *flow, int32_t link)
{
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
		if (s->slots[i].link == link)
			return 1;
	return 0;
}

static int is_bottleneck(const struct sim *s, const struct flow *flow, int32_t which)
{
	const struct link *link = &s->links[which];
	double share = flow->fresh / weight_of(s, flow);

	if (link->load < link->capacity * (1 - SLACK))
		return 0;
	for (int64_t f = 0; f < s->flow_count; f++) {
		const struct flow *other = &s->flows[f];
		int32_t below = s->jobs[other->job].level - s->jobs[flow->job].level;

		if (other->fresh <= SLACK * link->capacity || below < 0 || !crosses(s, other, which))
			continue;
		if (below > 0 || other->fresh / weight_of(s, other) > share * (1 + SLACK) +
							SLACK * link->capacity / weight_of(s, other))
			return 0;
	}
	return 1;
}

/* Whether a flow that ends, or takes another weight, has sent just the bytes asked for. */
int sim_is_whole(const struct sim *s, const struct flow *flow)
{
	double rest = flow->left - flow->rate * (s->now - flow->at) - flow->floor;

	return fabs(rest) <= flow->rate * (s->due - s->now) + SLACK * flow->bytes;
}

int sim_is_fair(struct sim *s)
{
	if (s->lossy)
		return 0;
	for (int64_t l = 0; l < s->link_count; l++)
		s->links[l].load = 0;
	for (int64_t f = 0; f < s->flow_count; f++) {
		struct flow *flow = &s->flows[f];

		flow->fresh = rate_of(s, flow);
		for (int32_t i = 0; flow->fresh > 0 && i < flow->hops; i++)
			s->links[s->slots[flow->first_slot + i].link].load += flow->fresh;
	}
	for (int64_t l = 0; l < s->link_count; l++)
		if (s->links[l].load > s->links[l].capacity * (1 + SLACK))
			return 0;
	for (int64_t f = 0; f < s->flow_count; f++) {
		const struct flow *flow = &s->flows[f];
		double cap = flow->own_rate;
		int bound = 0;

		for (int32_t i = 0; i < flow->hops; i++)
			cap = fmin(cap, s->links[s->slots[flow->first_slot + i].link].capacity);
		if (flow->fresh < 0 || flow->fresh >= cap * (1 - SLACK))
			continue;
		for (int32_t i = 0; i < flow->hops && !bound; i++)
			bound = is_bottleneck(s, flow, s->slots[flow->first_slot + i].link);
		if (!bound)
			return 0;
	}
	return 1;
}
