// SPDX-License-Identifier: Apache-2.0
/*
 * Rates: strict priority between levels, weighted max-min within one, none above a flow's cap.
 *
 * A change is refilled level by level, from its own level down.  At each level only flows are
 * filled that are connected, by links and flows of this level, with a link on which higher
 * levels or members of this one changed.  Where the sum of a link's rates comes out as it was,
 * lower levels keep theirs.
 */
#include "flowsim.h"

#include <stdlib.h>

#define SAME_LINK 1e-12 /* of the capacity: such a change of a sum is rounding */
#define SAME_RATE 4e-15 /* of the cap */
#define SAME_SHARE (1 + 1e-13)

void sim_seed(struct sim *s, int32_t level, int32_t link, double delta)
{
	if (s->seed_count == s->seed_room) {
		int32_t room = s->seed_room ? 2 * s->seed_room : 1024;
		struct seed *more = realloc(s->seeds, room * sizeof(*more));

		if (!more) {
			s->failed = 1;
			return;
		}
		s->seeds = more;
		s->seed_room = room;
	}
	s->seeds[s->seed_count] = (struct seed){delta, link, s->seed_first[level]};
	s->seed_first[level] = s->seed_count++;
	s->pending[level / 64] |= 1ull << (level % 64);
}

void sim_reweigh(struct sim *s, struct flow *flow)
{
	flow->weight = flow->own_weight * s->jobs[flow->job].weight * s->ramp[flow->step];
}

static void queue_flows(struct sim *s, const struct link *link, int32_t level)
{
	for (int32_t i = link->first; i >= 0; i = s->slots[i].next) {
		struct flow *flow = &s->flows[s->slots[i].flow];
		int32_t own = s->jobs[flow->job].level;

		if (own < level || flow->queued == s->stamp)
			continue;
		flow->queued = s->stamp;
		flow->next_queued = s->queue_first[own];
		s->queue_first[own] = s->slots[i].flow;
		s->pending[own / 64] |= 1ull << (own % 64);
	}
}

static void mark_dirty(struct sim *s, int32_t which, int32_t level)
{
	struct link *link = &s->links[which];

	if (link->dirty)
		return;
	link->dirty = 1;
	link->change = 0;
	if (!link->listed) {
		link->listed = 1;
		s->dirtied[s->dirtied_count++] = which;
	}
	queue_flows(s, link, level);
}

static int has_dirty_link(const struct sim *s, const struct flow *flow)
{
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
		if (s->slots[i].on && s->links[s->slots[i].link].dirty)
			return 1;
	return 0;
}

static void gather_flow(struct sim *s, int32_t flow)
{
	if (s->flows[flow].gathered != s->component) {
		s->flows[flow].gathered = s->component;
		s->part[s->part_count++] = flow;
	}
}

/* Returns whether all flows of the level can have their caps. */
static int gather_link(struct sim *s, int32_t which, int32_t level)
{
	struct link *link = &s->links[which];
	double caps = 0;

	link->gathered = s->component;
	link->free = link->capacity;
	link->weight = 0;
	link->delta = 0;
	link->waiting = 0;
	link->stale = 0;
	s->part_links[s->part_link_count++] = which;
	for (int32_t i = link->first; i >= 0; i = s->slots[i].next) {
		const struct flow *flow = &s->flows[s->slots[i].flow];
		int32_t own = s->jobs[flow->job].level;

		if (own < level) {
			link->free -= flow->rate;
		} else if (own == level) {
			link->waiting++;
			link->weight += flow->weight;
			caps += flow->cap;
			gather_flow(s, s->slots[i].flow);
		}
	}
	if (link->free < SAME_LINK * link->capacity)
		link->free = 0;
	return caps <= link->free;
}

/* Flows of one level that share links, directly or over others, and these links. */
static int gather(struct sim *s, int32_t first, int32_t level)
{
	int roomy = 1;

	s->component++;
	s->part_count = s->part_link_count = 0;
	gather_flow(s, first);
	for (int32_t k = 0; k < s->part_count; k++) {
		const struct flow *flow = &s->flows[s->part[k]];

		for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
			if (s->slots[i].on && s->links[s->slots[i].link].gathered != s->component)
				roomy &= gather_link(s, s->slots[i].link, level);
	}
	return roomy;
}

static int before(struct entry a, struct entry b)
{
	/* Without branches, which could not be foreseen. */
	return (a.key < b.key) | ((a.key == b.key) & (a.id < b.id));
}

static void sift_down(struct entry *heap, int32_t count, int32_t place)
{
	struct entry moved = heap[place];

	for (;;) {
		int32_t child = 2 * place + 1;

		if (child >= count)
			break;
		if (child + 1 < count)
			child += before(heap[child + 1], heap[child]);
		if (!before(heap[child], moved))
			break;
		heap[place] = heap[child];
		place = child;
	}
	heap[place] = moved;
}

static void freeze(struct sim *s, struct flow *flow, double rate)
{
	flow->fresh = rate;
	flow->frozen = s->component;
	s->unfrozen--;
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++) {
		struct link *link = &s->links[s->slots[i].link];

		if (!s->slots[i].on)
			continue;
		link->free = link->free > rate ? link->free - rate : 0;
		link->waiting--;
		link->stale = 1;
	}
}

/* Sums anew instead of subtracting: weights may differ by orders of magnitude. */
static void sum_weights(struct sim *s, struct link *link, int32_t level)
{
	link->weight = 0;
	link->stale = 0;
	for (int32_t i = link->first; i >= 0; i = s->slots[i].next) {
		const struct flow *flow = &s->flows[s->slots[i].flow];

		if (s->jobs[flow->job].level == level && flow->frozen != s->component)
			link->weight += flow->weight;
	}
}

static void freeze_link(struct sim *s, struct link *link, int32_t level, double share)
{
	for (int32_t i = link->first; i >= 0; i = s->slots[i].next) {
		struct flow *flow = &s->flows[s->slots[i].flow];

		if (s->jobs[flow->job].level == level && flow->frozen != s->component)
			freeze(s, flow, sim_least(share * flow->weight, flow->cap));
	}
}

static struct entry pop(struct entry *heap, int32_t *count)
{
	struct entry least = heap[0];

	heap[0] = heap[--*count];
	if (*count)
		sift_down(heap, *count, 0);
	return least;
}

static void make_heap(struct entry *heap, int32_t count)
{
	for (int32_t k = count / 2 - 1; k >= 0; k--)
		sift_down(heap, count, k);
}

static struct entry cap_of(const struct sim *s, int32_t flow)
{
	return (struct entry){s->flows[flow].cap / s->flows[flow].weight, ~flow};
}

/* The caps of flows that have no rate yet, as a heap; returns how many. */
static int32_t order_caps(const struct sim *s, struct entry *heap)
{
	int32_t count = 0;

	for (int32_t k = 0; k < s->part_count; k++)
		if (s->flows[s->part[k]].frozen != s->component)
			heap[count++] = cap_of(s, s->part[k]);
	make_heap(heap, count);
	return count;
}

/*
 * Progressive filling: the smallest share of any link, or cap, is final.  Links bind most flows
 * before their caps do, so caps are put in order only once the smallest is next.
 */
static void fill(struct sim *s, int32_t level)
{
	struct entry *links = s->entries, *caps = links + s->part_link_count;
	struct entry least_cap = cap_of(s, s->part[0]);
	int32_t link_count = s->part_link_count, cap_count = -1;

	s->unfrozen = s->part_count;
	for (int32_t k = 0; k < link_count; k++) {
		const struct link *link = &s->links[s->part_links[k]];

		links[k] = (struct entry){link->free / link->weight, s->part_links[k]};
	}
	make_heap(links, link_count);
	for (int32_t k = 1; k < s->part_count; k++) {
		struct entry cap = cap_of(s, s->part[k]);

		if (before(cap, least_cap))
			least_cap = cap;
	}
	while (s->unfrozen) {
		struct link *link;

		if (!link_count || before(least_cap, links[0])) {
			if (cap_count < 0) {
				cap_count = order_caps(s, caps);
			} else {
				struct flow *flow = &s->flows[~pop(caps, &cap_count).id];

				if (flow->frozen != s->component)
					freeze(s, flow, flow->cap);
			}
			least_cap = cap_count ? caps[0] : (struct entry){INFINITY, INT32_MAX};
			continue;
		}
		link = &s->links[links[0].id];
		if (link->waiting && link->stale) {
			/* Shares only grow, so an old one is a lower bound. */
			double old = links[0].key;

			sum_weights(s, link, level);
			links[0].key = link->free / link->weight;
			if (links[0].key > old * SAME_SHARE) {
				sift_down(links, link_count, 0);
				continue;
			}
		}
		if (link->waiting)
			freeze_link(s, link, level, link->free / link->weight);
		pop(links, &link_count);
	}
}

/* What fill() gives to the only flow of a part. */
static double alone(const struct sim *s, const struct flow *flow)
{
	double share = flow->cap / flow->weight;
	int bound = 0;

	for (int32_t k = 0; k < s->part_link_count; k++) {
		double own = s->links[s->part_links[k]].free / flow->weight;

		if (own < share) {
			share = own;
			bound = 1;
		}
	}
	return bound ? sim_least(share * flow->weight, flow->cap) : flow->cap;
}

static void apply(struct sim *s, int32_t level)
{
	for (int32_t k = 0; k < s->part_count; k++) {
		struct flow *flow = &s->flows[s->part[k]];
		double delta = flow->fresh - flow->rate;

		if (fabs(delta) <= SAME_RATE * flow->cap)
			continue;
		for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
			if (s->slots[i].on)
				s->links[s->slots[i].link].delta += delta;
		sim_settle(s, flow);
		flow->rate = flow->fresh;
		flow->end = sim_end(flow);
		sim_touch(s, flow->job);
	}
	for (int32_t k = 0; k < s->part_link_count; k++) {
		struct link *link = &s->links[s->part_links[k]];

		if (link->dirty) {
			link->change += link->delta;
			if (fabs(link->change) <= SAME_LINK * link->capacity)
				link->dirty = 0;
		} else if (fabs(link->delta) > SAME_LINK * link->capacity) {
			mark_dirty(s, s->part_links[k], level + 1);
			link->change = link->delta;
		}
	}
}

static void refill_level(struct sim *s, int32_t level)
{
	int32_t seeds = s->seed_first[level];

	s->seed_first[level] = -1;
	for (int32_t k = seeds; k >= 0; k = s->seeds[k].next) {
		mark_dirty(s, s->seeds[k].link, level);
		s->links[s->seeds[k].link].change += s->seeds[k].delta;
	}
	for (int32_t k = s->queue_first[level]; k >= 0; k = s->flows[k].next_queued) {
		if (s->flows[k].gathered > s->stamp || !has_dirty_link(s, &s->flows[k]))
			continue;
		if (gather(s, k, level))
			for (int32_t i = 0; i < s->part_count; i++)
				s->flows[s->part[i]].fresh = s->flows[s->part[i]].cap;
		else if (s->part_count == 1)
			s->flows[k].fresh = alone(s, &s->flows[k]);
		else
			fill(s, level);
		apply(s, level);
	}
	s->queue_first[level] = -1;
	for (int32_t k = seeds; k >= 0; k = s->seeds[k].next) {
		struct link *link = &s->links[s->seeds[k].link];

		if (fabs(link->change) <= SAME_LINK * link->capacity)
			link->dirty = 0;
	}
}

void sim_refill(struct sim *s)
{
	s->refills++;
	/* Stamps of components and refills come from one counter: later ones are larger. */
	s->stamp = ++s->component;
	for (int32_t word = 0; word < HCC_SIM_WORDS; word++) {
		while (s->pending[word]) {
			int32_t level = 64 * word + __builtin_ctzll(s->pending[word]);

			s->pending[word] &= s->pending[word] - 1;
			refill_level(s, level);
		}
	}
	s->seed_count = 0;
	for (int32_t k = 0; k < s->dirtied_count; k++)
		s->links[s->dirtied[k]].dirty = s->links[s->dirtied[k]].listed = 0;
	s->dirtied_count = 0;
	for (int32_t k = 0; k < s->touched_count; k++) {
		s->jobs[s->touched[k]].touched = 0;
		sim_reschedule(s, s->touched[k]);
	}
	s->touched_count = 0;
}
