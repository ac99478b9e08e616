// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of jobs by the time of their next event, a binary heap that knows each job's place.
 */
#include "flowsim.h"

static void put(struct sim *s, int32_t place, int32_t job)
{
	s->heap[place] = job;
	s->jobs[job].heap_place = place;
}

static int earlier(const struct sim *s, int32_t a, int32_t b)
{
	return s->keys[a] < s->keys[b] || (s->keys[a] == s->keys[b] && a < b);
}

static void sift(struct sim *s, int32_t place, int32_t job)
{
	while (place && earlier(s, job, s->heap[(place - 1) / 2])) {
		put(s, place, s->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	for (int32_t child; (child = 2 * place + 1) < s->heap_count; place = child) {
		if (child + 1 < s->heap_count && earlier(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (!earlier(s, s->heap[child], job))
			break;
		put(s, place, s->heap[child]);
	}
	put(s, place, job);
}

void sim_dequeue(struct sim *s, int32_t job)
{
	int32_t place = s->jobs[job].heap_place;

	s->jobs[job].heap_place = -1;
	if (place >= 0 && place < --s->heap_count)
		sift(s, place, s->heap[s->heap_count]);
}

void sim_enqueue(struct sim *s, int32_t job, double when)
{
	int32_t place = s->jobs[job].heap_place;

	s->keys[job] = when;
	sift(s, place >= 0 ? place : s->heap_count++, job);
}

void sim_reschedule(struct sim *s, int32_t job)
{
	if (s->jobs[job].heap_place >= 0)
		sim_enqueue(s, job, sim_next(s, &s->jobs[job]));
}
