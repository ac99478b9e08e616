// SPDX-License-Identifier: Apache-2.0
/*
 * Events: jobs arrive, compute, send and leave, each with one place in a queue by time.
 *
 * At one instant first exchanges and iterations end and jobs arrive and leave; then the caller
 * may set orders; then iterations and exchanges begin; then rates are set.
 */
#include "flowsim.h"

#include <string.h>

#define SIMULTANEOUS_S 1e-9
#define SIMULTANEOUS_SHARE 0x1p-49 /* of the time: some units in the last place */

static double next_of_exchange(const struct sim *s, const struct job *job)
{
	const struct phase *phase = &s->phases[job->phase];
	double next = INFINITY;

	for (int32_t k = 0; k < job->live_count; k++)
		next = sim_least(next, s->flows[job->live[k]].end);
	for (int32_t r = phase->first_ring; r < phase->last_ring; r++)
		if (s->rings[r].active && !s->rings[r].live)
			next = sim_least(next, s->rings[r].tail);
	return next;
}

/* The job's next event but for its stop. */
static double next_own(const struct sim *s, const struct job *job)
{
	switch (job->state) {
	case ABSENT:
		return fmax(job->start, 0);
	case IDLE:
		return job->wait;
	case COMPUTING:
		return fmax(job->clock + s->phases[job->phase].start, 0);
	case SENDING:
		return next_of_exchange(s, job);
	case LAST:
		return job->clock + job->compute;
	case COASTING:
		if (job->iterations < 0)
			return INFINITY;
		/* The last iteration is played, so that its end has its place among others. */
		return job->begun + (job->iterations - job->done - 1) * job->coast_period;
	default:
		return INFINITY;
	}
}

double sim_next(const struct sim *s, const struct job *job)
{
	return job->state == ABSENT ? next_own(s, job) : sim_least(next_own(s, job), job->stop);
}

void sim_link(struct sim *s, const struct flow *flow, int32_t which)
{
	struct slot *slot = &s->slots[which];
	struct link *link = &s->links[slot->link];

	slot->on = 1;
	slot->flow = (int32_t)(flow - s->flows);
	slot->previous = -1;
	slot->next = link->first;
	if (link->first >= 0)
		s->slots[link->first].previous = which;
	link->first = which;
	sim_seed(s, s->jobs[flow->job].level, slot->link, 0);
}

/* The flow is one of the live ones of its links from now on. */
void sim_join(struct sim *s, struct flow *flow)
{
	struct job *job = &s->jobs[flow->job];

	flow->state = LIVE;
	flow->at = s->now;
	sim_hold(flow);
	flow->place = job->live_count;
	job->live[job->live_count++] = (int32_t)(flow - s->flows);
	s->rings[flow->ring].live++;
	sim_reweigh(s, flow);
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
		if (s->links[s->slots[i].link].contended)
			sim_link(s, flow, i);
}

void sim_part(struct sim *s, struct flow *flow, int state)
{
	struct job *job = &s->jobs[flow->job];
	int32_t last = job->live[--job->live_count];

	job->live[flow->place] = last;
	s->flows[last].place = flow->place;
	s->rings[flow->ring].live--;
	for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++) {
		struct slot *slot = &s->slots[i];

		if (!slot->on)
			continue;
		slot->on = 0;
		if (slot->previous >= 0)
			s->slots[slot->previous].next = slot->next;
		else
			s->links[slot->link].first = slot->next;
		if (slot->next >= 0)
			s->slots[slot->next].previous = slot->previous;
		sim_seed(s, job->level, slot->link, -flow->rate);
	}
	flow->state = state;
	flow->rate = 0;
}

static void start_flow(struct sim *s, struct flow *flow)
{
	flow->left = flow->bytes;
	flow->at = s->now;
	if (!flow->contended) {
		flow->state = FREE;
		flow->rate = flow->cap;
		return;
	}
	sim_first_step(s, flow);
	sim_join(s, flow);
}

/* A ring that crosses no contended link sends all its rounds as one. */
static void start_round(struct sim *s, struct ring *ring)
{
	ring->began = s->now;
	ring->plain = !ring->contended;
	ring->tail = ring->over = s->now;
	if (ring->plain) {
		ring->tail += (double)(ring->rounds - ring->round) * ring->free_s;
		return;
	}
	for (int32_t f = ring->first_flow; f < ring->last_flow; f++)
		if (sim_sends(&s->flows[f]))
			start_flow(s, &s->flows[f]);
	ring->tail = s->now + fmax(ring->free_s, 0);
}

static void end_round(struct sim *s, struct job *job, struct ring *ring)
{
	ring->round = ring->plain ? ring->rounds : ring->round + 1;
	if (ring->round < ring->rounds) {
		start_round(s, ring);
		return;
	}
	ring->active = 0;
	job->rings_left--;
	for (int32_t f = ring->first_flow; !ring->plain && f < ring->last_flow; f++)
		s->flows[f].state = OVER;
}

static void end_exchange(struct sim *s, struct job *job)
{
	s->phases[job->phase].done++;
	s->sending_changed = 1;
	if (s->phases[job->phase].blocks)
		job->clock += s->now - job->paused_at;
	job->phase++;
	job->state = job->phase < job->last_phase ? COMPUTING : LAST;
	if (job->late_routes)
		sim_apply_late_routes(s, (int32_t)(job - s->jobs));
}

static void begin_exchange(struct sim *s, struct job *job)
{
	struct phase *phase = &s->phases[job->phase];

	job->state = SENDING;
	job->paused_at = s->now;
	s->sending_changed = 1;
	for (int32_t r = phase->first_ring; r < phase->last_ring; r++) {
		struct ring *ring = &s->rings[r];

		ring->round = 0;
		ring->live = 0;
		ring->active = ring->contended || ring->free_s >= 0;
		if (ring->active) {
			job->rings_left++;
			start_round(s, ring);
		}
	}
}

/* Flows and rounds that are over now; returns whether the exchange is. */
static int end_flows(struct sim *s, struct job *job)
{
	const struct phase *phase = &s->phases[job->phase];

	for (int32_t k = job->live_count - 1; k >= 0; k--) {
		struct flow *flow = &s->flows[job->live[k]];
		struct ring *ring = &s->rings[flow->ring];

		if (flow->end > s->due)
			continue;
		s->events++;
		if (s->checked && !sim_is_whole(s, flow))
			s->lossy = 1;
		sim_settle(s, flow);
		if (flow->floor > 0) { /* not its last byte: another weight */
			flow->left = flow->floor;
			sim_next_step(s, flow);
			sim_reweigh(s, flow);
			flow->end = sim_end(flow);
			for (int32_t i = flow->first_slot; i < flow->first_slot + flow->hops; i++)
				if (s->slots[i].on)
					sim_seed(s, job->level, s->slots[i].link, 0);
			continue;
		}
		flow->left = 0;
		ring->over = fmax(ring->over, s->now + flow->delay);
		ring->tail = fmax(ring->tail, ring->over);
		sim_part(s, flow, OVER);
	}
	for (int32_t r = phase->first_ring; r < phase->last_ring && job->rings_left; r++)
		while (s->rings[r].active && !s->rings[r].live && s->rings[r].tail <= s->due)
			end_round(s, job, &s->rings[r]);
	return !job->rings_left;
}

/* Computing time of the present iteration until now. */
double sim_position(const struct sim *s, const struct job *job)
{
	double at = job->state == SENDING && s->phases[job->phase].blocks ? job->paused_at : s->now;

	return fmin(fmax(at - job->clock, 0), job->compute);
}

static void leave(struct sim *s, struct job *job)
{
	int32_t which = (int32_t)(job - s->jobs), k = 0;

	if (job->state >= COMPUTING && job->state <= LAST)
		job->partial = sim_position(s, job);
	sim_count(s, which);
	s->sending_changed |= job->state == SENDING;
	while (job->live_count)
		sim_part(s, &s->flows[job->live[job->live_count - 1]], OVER);
	job->state = GONE;
	job->finished = s->now;
	while (s->running[k] != which)
		k++;
	memmove(&s->running[k], &s->running[k + 1],
		(--s->running_count - k) * sizeof(*s->running));
	s->jobs_changed = 1;
	s->surveyed = 0;
}

static void end_iteration(struct sim *s, struct job *job)
{
	if (s->now <= job->begun)
		s->culprit = job - s->jobs;
	job->done++;
	if (job->recorded) {
		s->record_job[s->record_count] = (int32_t)(job - s->jobs);
		s->record_time[s->record_count++] = s->now;
	}
	job->state = IDLE;
	job->wait = s->now;
	job->aligned = 0;
	if (job->done == job->iterations)
		leave(s, job);
}

/* How long one iteration takes while the job crosses no contended link. */
static double alone(const struct sim *s, const struct job *job)
{
	double clock = 0, over = 0;

	for (int32_t p = job->first_phase; p < job->last_phase; p++) {
		double start = fmax(over, clock + s->phases[p].start);

		over = start;
		for (int32_t r = s->phases[p].first_ring; r < s->phases[p].last_ring; r++)
			if (s->rings[r].free_s >= 0)
				over = fmax(over, start + s->rings[r].rounds * s->rings[r].free_s);
		if (s->phases[p].blocks)
			clock += over - start;
	}
	return fmax(over, clock + job->compute);
}

/* Nothing can happen to it until it leaves or another survey says otherwise. */
static int can_coast(struct sim *s, struct job *job)
{
	if (job->contended || job->recorded || job->iterations == job->done + 1 ||
	    job->grid_period > 0 || job->shift > 0 || job->begun < 0 || job->stop < INFINITY ||
	    s->checked || s->tell_sending || s->replaying || !s->surveyed)
		return 0;
	job->coast_period = alone(s, job);
	return job->coast_period > 2 * (s->due - s->now) && job->coast_period < INFINITY;
}

static void begin_iteration(struct sim *s, struct job *job)
{
	job->begun = job->clock = job->start < 0 && !job->done ? job->start : s->now;
	job->phase = job->first_phase;
	job->rings_left = 0;
	if (can_coast(s, job))
		job->state = COASTING;
	else
		job->state = job->phase < job->last_phase ? COMPUTING : LAST;
}

static void arrive(struct sim *s, struct job *job)
{
	job->state = IDLE;
	job->wait = s->now;
	s->running[s->running_count++] = (int32_t)(job - s->jobs);
	s->jobs_changed = 1;
	s->surveyed = 0;
}

/* All that ends now; returns whether the job has something to begin now. */
static int end_all(struct sim *s, struct job *job)
{
	while (next_own(s, job) <= s->due && job->state != IDLE && job->state != COMPUTING) {
		s->events++;
		if (job->state == ABSENT) {
			arrive(s, job);
		} else if (job->state == SENDING) {
			if (end_flows(s, job))
				end_exchange(s, job);
		} else if (job->state == LAST) {
			end_iteration(s, job);
		} else {
			sim_wake(s, (int32_t)(job - s->jobs), 0);
		}
	}
	if (job->state != ABSENT && job->state != GONE && job->stop <= s->due)
		leave(s, job);
	return next_own(s, job) <= s->due;
}

/* Waits for the job's shift and grid before an iteration; returns whether there is a wait. */
static int align(struct sim *s, struct job *job)
{
	double late;

	if (job->aligned)
		return 0;
	job->aligned = 1;
	job->wait = s->now + job->shift;
	job->shift = 0;
	if (job->grid_period > 0) {
		late = fmod(job->wait - job->grid_origin, job->grid_period);
		if (late < 0)
			late += job->grid_period;
		if (fmin(late, job->grid_period - late) >
		    job->grid_slack * job->grid_period + SIMULTANEOUS_S)
			job->wait += job->grid_period - late;
	}
	if (job->wait <= s->due)
		return 0;
	job->start = 0; /* its first iteration begins after the wait */
	return 1;
}

static void begin_all(struct sim *s, struct job *job)
{
	if (job->state == IDLE && sim_next(s, job) <= s->due && !align(s, job))
		begin_iteration(s, job);
	if (job->state == COMPUTING && sim_next(s, job) <= s->due) {
		if (!s->surveyed && !s->replaying) /* the end of an exchange without flows gave others new routes */
			sim_survey(s);
		begin_exchange(s, job);
		if (!job->rings_left)
			end_exchange(s, job);
	}
}

/*
 * A coasting job is where it would be had its events been played.  At this very instant an
 * iteration has ended and the next one begun, or is still to, so that orders come between.
 */
void sim_wake(struct sim *s, int32_t which, int begun)
{
	struct job *job = &s->jobs[which];
	double now = s->now, due = s->due, next;
	int64_t count;

	if (job->state != COASTING)
		return;
	count = (int64_t)floor((due - job->begun) / job->coast_period);
	if (!begun && count && job->begun + count * job->coast_period >= 2 * now - due)
		count--;
	job->done += count;
	for (int32_t p = job->first_phase; p < job->last_phase; p++)
		s->phases[p].done += count;
	job->begun += count * job->coast_period;
	job->clock = job->begun;
	job->phase = job->first_phase;
	job->state = job->phase < job->last_phase ? COMPUTING : LAST;
	s->replaying = 1;
	s->now = job->begun;
	while (job->state != LAST && (next = next_own(s, job)) <= due) {
		if (!begun && job->state == COMPUTING && next >= 2 * now - due)
			break;
		s->now = fmin(fmax(next, s->now), now); /* one that is late is due at once */
		s->due = fmax(next, s->now);
		if (job->state == SENDING && end_flows(s, job))
			end_exchange(s, job);
		begin_all(s, job);
	}
	s->replaying = 0;
	s->now = now;
	s->due = due;
	sim_reschedule(s, which);
}

static void move_to(struct sim *s, double when)
{
	s->now = fmax(s->now, when);
	s->due = s->now + fmax(SIMULTANEOUS_S, s->now * SIMULTANEOUS_SHARE);
}

static int due_now(const struct sim *s)
{
	return s->heap_count && s->keys[s->heap[0]] <= s->due;
}

/*
 * Runs until a time, or a reason to return.  At `again` it returns as if jobs had changed; `most`
 * bounds the events of this call.
 */
int hcc_sim_run(struct sim *s, double until, double again, int64_t most)
{
	enum { ENDS, BEGINS, RATES };
	int64_t last = s->events + most;
	double next;

	if (!s->surveyed)
		sim_survey(s);
	for (;;) {
		if (s->culprit >= 0)
			return STOP_ENDLESS;
		if (s->failed)
			return STOP_MEMORY;
		if (s->stage == ENDS) {
			while (due_now(s)) {
				int32_t job = s->heap[0];

				if (s->record_count == s->record_room)
					return STOP_RECORDS;
				sim_dequeue(s, job);
				if (end_all(s, &s->jobs[job]))
					s->starting[s->starting_count++] = job;
				else if (s->jobs[job].state != GONE)
					sim_enqueue(s, job, sim_next(s, &s->jobs[job]));
			}
			s->stage = BEGINS;
			if (s->jobs_changed || again <= s->due) {
				s->jobs_changed = 0;
				return STOP_JOBS;
			}
		}
		if (s->stage == BEGINS) {
			if (!s->surveyed)
				sim_survey(s);
			for (int32_t k = 0; k < s->starting_count; k++) {
				begin_all(s, &s->jobs[s->starting[k]]);
				sim_enqueue(s, s->starting[k], sim_next(s, &s->jobs[s->starting[k]]));
			}
			s->starting_count = 0;
			if (due_now(s)) {
				s->stage = ENDS;
				continue;
			}
			s->stage = RATES;
			if (s->sending_changed && s->tell_sending) {
				s->sending_changed = 0;
				return STOP_SENDING;
			}
		}
		if (!s->surveyed)
			sim_survey(s);
		if (s->seed_count || s->touched_count)
			sim_refill(s);
		s->stage = ENDS;
		if (due_now(s))
			continue;
		if (s->checked && !sim_is_fair(s))
			return STOP_UNFAIR;
		if (s->now >= until)
			return STOP_TIME;
		if (s->events >= last)
			return STOP_EVENTS;
		next = s->heap_count ? s->keys[s->heap[0]] : INFINITY;
		move_to(s, fmin(fmin(next, again), until));
	}
}
