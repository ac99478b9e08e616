// SPDX-License-Identifier: Apache-2.0
/*
 * A simulation's state: made of checked arrays, given orders, read, freed.
 */
#include "flowsim.h"

#include <stdlib.h>
#include <string.h>

const uint64_t hcc_sim_layout[] = {sizeof(struct hcc_sim_input), sizeof(struct hcc_sim_output), 0};

void hcc_sim_free(struct sim *s)
{
	if (!s)
		return;
	for (int64_t j = 0; s->jobs && j < s->job_count; j++)
		free(s->jobs[j].live);
	free(s->jobs);
	free(s->phases);
	free(s->rings);
	free(s->flows);
	free(s->links);
	free(s->slots);
	free(s->ramp);
	free(s->heap);
	free(s->keys);
	free(s->running);
	free(s->starting);
	free(s->touched);
	free(s->seeds);
	free(s->part);
	free(s->part_links);
	free(s->dirtied);
	free(s->entries);
	free(s->record_job);
	free(s->record_time);
	free(s);
}

static int make_room(struct sim *s)
{
	s->jobs = calloc(s->job_count + 1, sizeof(*s->jobs));
	s->phases = calloc(s->phase_count + 1, sizeof(*s->phases));
	s->rings = calloc(s->ring_count + 1, sizeof(*s->rings));
	s->flows = calloc(s->flow_count + 1, sizeof(*s->flows));
	s->links = calloc(s->link_count + 1, sizeof(*s->links));
	s->slots = calloc(s->slot_room + 1, sizeof(*s->slots));
	s->ramp = calloc(s->ramp_steps, sizeof(*s->ramp));
	s->heap = calloc(s->job_count + 1, sizeof(*s->heap));
	s->keys = calloc(s->job_count + 1, sizeof(*s->keys));
	s->running = calloc(s->job_count + 1, sizeof(*s->running));
	s->starting = calloc(s->job_count + 1, sizeof(*s->starting));
	s->touched = calloc(s->job_count + 1, sizeof(*s->touched));
	s->part = calloc(s->flow_count + 1, sizeof(*s->part));
	s->part_links = calloc(s->link_count + 1, sizeof(*s->part_links));
	s->dirtied = calloc(s->link_count + 1, sizeof(*s->dirtied));
	s->entries = calloc(s->flow_count + s->link_count + 1, sizeof(*s->entries));
	s->record_job = calloc(s->record_room + 1, sizeof(*s->record_job));
	s->record_time = calloc(s->record_room + 1, sizeof(*s->record_time));
	return s->jobs && s->phases && s->rings && s->flows && s->links && s->slots && s->ramp &&
	       s->heap && s->keys && s->running && s->starting && s->touched && s->part &&
	       s->part_links && s->dirtied && s->entries && s->record_job && s->record_time;
}

static void fill_flow(struct sim *s, const struct hcc_sim_input *in, int32_t f)
{
	struct flow *flow = &s->flows[f];

	flow->bytes = in->flow_bytes[f];
	flow->own_weight = in->flow_weight[f];
	flow->own_rate = in->flow_rate[f];
	flow->cap = -1; /* for the first survey */
	flow->first_slot = (int32_t)in->flow_link[f];
	flow->room = flow->hops = (int32_t)(in->flow_link[f + 1] - in->flow_link[f]);
	flow->late_hops = -1;
	for (int64_t i = in->flow_link[f]; i < in->flow_link[f + 1]; i++)
		s->slots[i] = (struct slot){(int32_t)in->hop_link[i], f, -1, -1, 0};
}

static void fill_job(struct sim *s, const struct hcc_sim_input *in, int32_t j)
{
	struct job *job = &s->jobs[j];

	job->start = in->job_start[j];
	job->compute = in->job_compute[j];
	job->stop = in->job_stop[j];
	job->iterations = in->job_iterations[j];
	job->recorded = in->job_recorded[j];
	job->weight = 1;
	job->finished = NAN;
	job->heap_place = -1;
	job->first_phase = (int32_t)in->job_phase[j];
	job->last_phase = (int32_t)in->job_phase[j + 1];
	job->first_ring = (int32_t)in->phase_ring[job->first_phase];
	job->last_ring = (int32_t)in->phase_ring[job->last_phase];
	job->first_flow = (int32_t)in->ring_flow[job->first_ring];
	job->last_flow = (int32_t)in->ring_flow[job->last_ring];
	for (int32_t r = job->first_ring; r < job->last_ring; r++)
		for (int32_t f = s->rings[r].first_flow; f < s->rings[r].last_flow; f++) {
			s->flows[f].job = j;
			s->flows[f].ring = r;
		}
	for (int32_t p = job->first_phase; p < job->last_phase; p++) {
		int32_t count = s->phases[p].last_flow - s->phases[p].first_flow;

		if (count > job->live_room)
			job->live_room = count;
	}
}

/* Returns NULL without memory. */
struct sim *hcc_sim_make(const struct hcc_sim_input *in)
{
	struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->job_count = in->jobs;
	s->phase_count = in->phases;
	s->ring_count = in->rings;
	s->flow_count = in->flows;
	s->link_count = in->links;
	s->slot_count = s->slot_room = in->flow_link[in->flows];
	s->ramp_steps = (int32_t)in->ramp_steps;
	s->record_room = in->records;
	s->culprit = -1;
	s->checked = in->checked != 0;
	s->tell_sending = in->tell_sending != 0;
	s->surveyed = 1; /* nothing runs */
	s->due = 1e-9; /* what begins at 0 is due */
	if (!make_room(s)) {
		hcc_sim_free(s);
		return NULL;
	}
	memcpy(s->ramp, in->ramp, s->ramp_steps * sizeof(*s->ramp));
	memset(s->seed_first, -1, sizeof(s->seed_first));
	memset(s->queue_first, -1, sizeof(s->queue_first));
	for (int32_t l = 0; l < s->link_count; l++)
		s->links[l] = (struct link){.capacity = in->link_capacity[l],
					    .delay = in->link_delay[l], .first = -1};
	for (int32_t f = 0; f < s->flow_count; f++)
		fill_flow(s, in, f);
	for (int32_t r = 0; r < s->ring_count; r++)
		s->rings[r] = (struct ring){.rounds = in->ring_rounds[r], .free_s = -1,
					    .first_flow = (int32_t)in->ring_flow[r],
					    .last_flow = (int32_t)in->ring_flow[r + 1]};
	for (int32_t p = 0; p < s->phase_count; p++)
		s->phases[p] = (struct phase){.start = in->phase_start[p],
			.blocks = in->phase_blocks[p],
			.first_ring = (int32_t)in->phase_ring[p],
			.last_ring = (int32_t)in->phase_ring[p + 1],
			.first_flow = (int32_t)in->ring_flow[in->phase_ring[p]],
			.last_flow = (int32_t)in->ring_flow[in->phase_ring[p + 1]]};
	for (int32_t j = 0; j < s->job_count; j++) {
		fill_job(s, in, j);
		s->jobs[j].live = calloc(s->jobs[j].live_room + 1, sizeof(int32_t));
		if (!s->jobs[j].live) {
			hcc_sim_free(s);
			return NULL;
		}
		sim_enqueue(s, j, sim_next(s, &s->jobs[j]));
	}
	return s;
}

/* Flows in flight go on, among those of the new level. */
void hcc_sim_levels(struct sim *s, int64_t count, const int64_t *jobs, const int64_t *levels)
{
	for (int64_t k = 0; k < count; k++) {
		struct job *job = &s->jobs[jobs[k]];

		if (job->level == levels[k])
			continue;
		for (int pass = 0; pass < 2; pass++) {
			for (int32_t i = 0; i < job->live_count; i++) {
				struct flow *flow = &s->flows[job->live[i]];

				for (int32_t n = flow->first_slot; n < flow->first_slot + flow->hops; n++)
					if (s->slots[n].on)
						sim_seed(s, job->level, s->slots[n].link,
							 pass ? 0 : -flow->rate);
				if (!pass)
					sim_settle(s, flow);
				else
					sim_hold(flow);
			}
			job->level = (int32_t)levels[k];
		}
		sim_touch(s, (int32_t)jobs[k]);
	}
}

void hcc_sim_weights(struct sim *s, int64_t count, const int64_t *jobs, const double *weights)
{
	for (int64_t k = 0; k < count; k++) {
		struct job *job = &s->jobs[jobs[k]];

		job->weight = weights[k];
		for (int32_t i = 0; i < job->live_count; i++) {
			struct flow *flow = &s->flows[job->live[i]];

			sim_reweigh(s, flow);
			for (int32_t n = flow->first_slot; n < flow->first_slot + flow->hops; n++)
				if (s->slots[n].on)
					sim_seed(s, job->level, s->slots[n].link, 0);
		}
	}
}

/* The next iteration begins so many seconds later. */
void hcc_sim_shifts(struct sim *s, int64_t count, const int64_t *jobs, const double *shifts)
{
	for (int64_t k = 0; k < count; k++) {
		sim_wake(s, (int32_t)jobs[k], 0);
		s->jobs[jobs[k]].shift += shifts[k];
	}
}

/* Iterations begin at whole periods from an origin, if they would be off by more than the slack
 * (a share of the period); a period of 0 ends that. */
void hcc_sim_grids(struct sim *s, int64_t count, const int64_t *jobs, const double *periods,
		   const double *origins, const double *slacks)
{
	for (int64_t k = 0; k < count; k++) {
		struct job *job = &s->jobs[jobs[k]];

		sim_wake(s, (int32_t)jobs[k], 0);
		job->grid_period = periods[k];
		job->grid_origin = origins[k];
		job->grid_slack = slacks[k];
	}
}

void hcc_sim_capacities(struct sim *s, int64_t count, const int64_t *links, const double *rates)
{
	for (int64_t k = 0; k < count; k++)
		s->links[links[k]].capacity = rates[k];
	s->surveyed &= !count;
}

static double computed(const struct sim *s, const struct job *job)
{
	double past = job->done * job->compute;

	if (job->state == GONE)
		return past + job->partial;
	if (job->state < COMPUTING)
		return past;
	return past + sim_position(s, job);
}

/* Totals since the beginning, as of now. */
void hcc_sim_read(struct sim *s, struct hcc_sim_output *out)
{
	for (int32_t k = 0; k < s->running_count; k++)
		sim_count(s, s->running[k]);
	for (int32_t j = 0; j < s->job_count; j++) {
		const struct job *job = &s->jobs[j];

		out->compute[j] = computed(s, job);
		out->iterations[j] = job->done;
		out->finished[j] = job->finished;
		out->sent[j] = job->sent;
		out->running[j] = job->state != ABSENT && job->state != GONE;
	}
	for (int32_t l = 0; l < s->link_count; l++)
		out->carried[l] = s->links[l].carried;
}

void hcc_sim_running(const struct sim *s, uint8_t *running, uint8_t *sending)
{
	for (int32_t j = 0; j < s->job_count; j++) {
		running[j] = s->jobs[j].state != ABSENT && s->jobs[j].state != GONE;
		sending[j] = s->jobs[j].state == SENDING;
	}
}

/* Iterations that ended since the last call: job and time of each; returns how many. */
int64_t hcc_sim_records(struct sim *s, int32_t *jobs, double *times)
{
	int64_t count = s->record_count;

	memcpy(jobs, s->record_job, count * sizeof(*jobs));
	memcpy(times, s->record_time, count * sizeof(*times));
	s->record_count = 0;
	return count;
}

double hcc_sim_now(const struct sim *s)
{
	return s->now;
}

int64_t hcc_sim_events(const struct sim *s)
{
	return s->events;
}

int64_t hcc_sim_refills(const struct sim *s)
{
	return s->refills;
}

int64_t hcc_sim_culprit(const struct sim *s)
{
	return s->culprit;
}
