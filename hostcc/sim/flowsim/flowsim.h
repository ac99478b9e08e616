/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow-level simulation of periodic jobs: what the C files share.  The model is in
 * docs/internals/simulator.md; library.py declares the same structures for ctypes and validates all input.
 *
 * Words: a job iterates; its phases send one after the other; the flows of a ring send in rounds
 * and wait for each other after each.  A link is contended when the flows of running jobs could
 * fill it; only flows that cross such a link are simulated one by one (they are "live"), all
 * others send at their cap, the narrowest of their own rate and their links.
 */
#ifndef HCC_FLOWSIM_H
#define HCC_FLOWSIM_H

#include <math.h>
#include <stdint.h>

#define HCC_SIM_LEVELS 4096 /* 0 is served first */
#define HCC_SIM_WORDS (HCC_SIM_LEVELS / 64)

enum stop { /* why a run returns */
	STOP_TIME, /* the time asked for is reached */
	STOP_JOBS, /* jobs came or went: orders may be set before iterations begin */
	STOP_SENDING, /* jobs began or ended sending: orders may be set before rates are */
	STOP_EVENTS, /* so many events are over; goes on where it was */
	STOP_RECORDS, /* the buffer of iterations is full */
	STOP_ENDLESS = -1, /* `culprit` iterates without taking time */
	STOP_UNFAIR = -2, /* checked: rates or bytes are not what the model asks for */
	STOP_MEMORY = -3,
};

struct hcc_sim_input { /* arrays; offsets are (N + 1,), see workload.py */
	int64_t jobs, phases, rings, flows, links, ramp_steps, records;
	const double *job_start, *job_compute, *job_stop;
	const int64_t *job_iterations, *job_phase;
	const uint8_t *job_recorded;
	const double *phase_start;
	const uint8_t *phase_blocks;
	const int64_t *phase_ring, *ring_rounds, *ring_flow;
	const double *flow_bytes, *flow_weight, *flow_rate;
	const int64_t *flow_link, *hop_link;
	const double *link_capacity, *link_delay, *ramp;
	int64_t checked, tell_sending;
};

struct hcc_sim_output { /* filled by hcc_sim_read; arrays of jobs and links */
	double *compute, *finished, *sent, *carried;
	int64_t *iterations;
	uint8_t *running;
};

enum job_state { ABSENT, IDLE, COMPUTING, SENDING, LAST, COASTING, GONE };
enum flow_state { OVER, FREE, LIVE };

struct job {
	double start, compute, stop, begun, clock, wait, paused_at;
	double weight, shift, grid_period, grid_origin, grid_slack;
	double coast_period, partial, finished;
	double sent;
	int64_t iterations, done;
	int32_t first_phase, last_phase, phase; /* last is one past */
	int32_t first_ring, last_ring, first_flow, last_flow;
	int32_t level, rings_left, heap_place;
	int32_t *live; /* its live flows */
	int32_t live_count, live_room;
	uint8_t state, aligned, recorded, contended, touched, late_routes;
};

struct phase {
	double start;
	int64_t done; /* times that it was sent since bytes were counted */
	int32_t first_ring, last_ring, first_flow, last_flow;
	uint8_t blocks;
};

struct ring {
	double began; /* the round */
	double over; /* when flows that have ended are over, their delay included */
	double tail; /* the same, and flows that send at their cap */
	double free_s; /* a round of the flows that cross no contended link; < 0: there are none */
	int64_t rounds, round;
	int32_t first_flow, last_flow, live;
	uint8_t contended, active, plain; /* plain: flows are as at `began`, not kept one by one */
};

struct flow {
	double bytes, own_weight, own_rate, cap, delay;
	double left, floor, at, rate, weight; /* as of time `at`; floor: bytes left at the next step */
	double end; /* of a live one: when it ends, or takes another weight, at its rate */
	double fresh; /* rate found by the present refill */
	double credit; /* bytes of the present exchange that are counted already */
	int32_t job, ring, place, step;
	int32_t first_slot, hops, room;
	int32_t late_slot, late_hops, late_room; /* a route for after the exchange; hops -1: none */
	int32_t next_queued;
	uint64_t queued, gathered, frozen; /* stamps */
	uint8_t state, contended;
};

struct slot { /* one hop of a flow */
	int32_t link, flow, previous, next; /* neighbours among the link's live flows */
	uint8_t on;
};

struct link {
	double capacity, delay, carried;
	double free, weight, delta, change; /* of a refill; change: at higher levels, until now */
	double load, phase_load, job_load; /* of a survey */
	uint64_t gathered;
	int32_t first, waiting;
	uint8_t contended, dirty, stale, listed;
};

struct seed { /* a link on which something of a level changed, and its rate there */
	double delta;
	int32_t link, next;
};

struct entry {
	double key;
	int32_t id; /* link, or ~flow */
};

struct sim {
	double now, due; /* due: events until then are simultaneous */
	int64_t events, refills, job_count, phase_count, ring_count, flow_count, link_count;
	int64_t culprit;
	struct job *jobs;
	struct phase *phases;
	struct ring *rings;
	struct flow *flows;
	struct link *links;
	struct slot *slots;
	int64_t slot_count, slot_room;
	double *ramp;
	int32_t ramp_steps;
	int32_t *heap, heap_count;
	double *keys;
	int32_t *running, running_count;
	int32_t *starting, starting_count;
	int32_t *touched, touched_count;
	struct seed *seeds;
	int32_t seed_count, seed_room;
	int32_t seed_first[HCC_SIM_LEVELS], queue_first[HCC_SIM_LEVELS];
	uint64_t pending[HCC_SIM_WORDS];
	uint64_t stamp, component;
	int32_t *part, *part_links, *dirtied;
	int32_t part_count, part_link_count, dirtied_count;
	int32_t unfrozen; /* flows of the part that have no rate yet */
	struct entry *entries;
	int32_t *record_job;
	double *record_time;
	int64_t record_count, record_room;
	int stage, failed;
	uint8_t jobs_changed, sending_changed, surveyed, checked, tell_sending, replaying, lossy;
};

/* queue.c */
void sim_enqueue(struct sim *s, int32_t job, double when);
void sim_dequeue(struct sim *s, int32_t job);
void sim_reschedule(struct sim *s, int32_t job);
/* events.c */
double sim_next(const struct sim *s, const struct job *job);
double sim_position(const struct sim *s, const struct job *job);
void sim_wake(struct sim *s, int32_t job, int begun);
void sim_link(struct sim *s, const struct flow *flow, int32_t slot);
void sim_join(struct sim *s, struct flow *flow);
void sim_part(struct sim *s, struct flow *flow, int state);
/* rates.c */
void sim_seed(struct sim *s, int32_t level, int32_t link, double delta);
void sim_reweigh(struct sim *s, struct flow *flow);
void sim_refill(struct sim *s);
/* survey.c */
void sim_survey(struct sim *s);
void sim_detail(struct sim *s, struct ring *ring);
void sim_tail(struct sim *s, struct ring *ring);
/* routes.c */
void sim_count(struct sim *s, int32_t job);
void sim_apply_late_routes(struct sim *s, int32_t job);
/* check.c */
int sim_is_fair(struct sim *s);
int sim_is_whole(const struct sim *s, const struct flow *flow);

/* fmin() without its cases for NaN, which nothing here is. */
static inline double sim_least(double a, double b)
{
	return a < b ? a : b;
}

static inline int sim_sends(const struct flow *flow)
{
	return flow->bytes > 0 && flow->hops > 0;
}

static inline void sim_settle(struct sim *s, struct flow *flow)
{
	double left = flow->left - flow->rate * (s->now - flow->at);

	flow->left = left > 0 ? left : 0;
	flow->at = s->now;
}

/* The weight's steps: by bytes within a round, or by rounds where there are several. */
static inline void sim_first_step(const struct sim *s, struct flow *flow)
{
	const struct ring *ring = &s->rings[flow->ring];
	int32_t steps = s->ramp_steps;

	flow->step = (int32_t)(ring->round * steps / ring->rounds);
	flow->floor = ring->rounds == 1 ? flow->bytes * (steps - 1) / steps : 0;
}

static inline void sim_next_step(const struct sim *s, struct flow *flow)
{
	flow->step++;
	flow->floor = flow->bytes * (s->ramp_steps - 1 - flow->step) / s->ramp_steps;
}

static inline double sim_end(const struct flow *flow)
{
	double rest = flow->left - flow->floor;

	/* A rate of 0 has no end; what ends now may already have nothing left. */
	return flow->rate > 0 ? flow->at + (rest > 0 ? rest : 0) / flow->rate : INFINITY;
}

/* Until a refill. */
static inline void sim_hold(struct flow *flow)
{
	flow->rate = 0;
	flow->end = INFINITY;
}

static inline void sim_touch(struct sim *s, int32_t job)
{
	if (!s->jobs[job].touched) {
		s->jobs[job].touched = 1;
		s->touched[s->touched_count++] = job;
	}
}

#endif
