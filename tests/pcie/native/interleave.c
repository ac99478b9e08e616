// SPDX-License-Identifier: Apache-2.0
/*
 * Every step of semaphore.c interleaved as a seed says: clients are coroutines, time and
 * death are simulated.  After each HCC_POINT another client may run, or this one may be
 * killed for good, and a holder may hang beyond its lease.  With some seeds the numbers of the
 * killed are other processes' at once, so that they seem to live.  Checked: everybody who lives
 * gets all its turns within bounds, and goes ahead without the link at most once for each of those
 * that seem to live; and, while nobody was killed or hung: never two holders,
 * nobody passes one who queued before it asked (of its level or above), nobody uses the link
 * while a level above lingers, and a hand-over takes no look at a clock.
 *
 *     interleave FIRST_SEED SEEDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static void sim_point(void);
static uint64_t hcc_os_now(void);
static uint32_t hcc_os_pid(void);
static uint64_t hcc_os_pidns(void);
static int hcc_os_alive(uint32_t pid, uint64_t pidns);
static void hcc_os_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);
static void hcc_os_wake(_Atomic uint32_t *word);
#define HCC_POINT() sim_point()
#define HCC_SEM_SIMULATED
#include "semaphore.c"

#define CLIENTS 5
#define TURNS 6
#define STACK (64 << 10)
#define MESSAGE_NS (50 * US)
#define LINGER_US 100
#define AGING_US 2000
#define PATIENCE_US 400000
#define LEASE_US 100000

enum state { READY, ASLEEP, DEAD, DONE };

struct client {
	ucontext_t context;
	char stack[STACK];
	enum state state;
	_Atomic uint32_t *word;
	uint64_t wake_at;
	struct hcc_sem *sem;
	uint32_t level;
	int inside, turns, ahead;
	uint64_t longest;
	uint64_t queued_at; /* when it first slept in this wait; 0: has not */
	uint64_t read_at;   /* the time as it last read it */
};

static struct client clients[CLIENTS];
static struct hcc_sem_region *region;
static struct hcc_sem_map map;
static ucontext_t scheduler;
static int running, kills, killed, hangs, reused;
static uint64_t now_ns, random_state;
static uint64_t freed_at; /* when the last holder began to leave; 0: the link was used since */
static uint32_t freed_level;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fail(const char *what)
{
	fprintf(stderr, "client %d: %s at %llu ns\n", running, what, (unsigned long long)now_ns);
	exit(1);
}

static void to_scheduler(void)
{
	swapcontext(&clients[running].context, &scheduler);
}

static void sim_point(void)
{
	now_ns += draw() % 200;
	if (kills && draw() % 150 == 0) {
		kills--;
		killed++;
		clients[running].state = DEAD;
		to_scheduler();
	}
	if (draw() % 2)
		to_scheduler();
}

static uint64_t hcc_os_now(void)
{
	clients[running].read_at = now_ns;
	return now_ns;
}

static uint32_t hcc_os_pid(void)
{
	return (uint32_t)running + 1;
}

static uint64_t hcc_os_pidns(void)
{
	return 1;
}

static int hcc_os_alive(uint32_t pid, uint64_t pidns)
{
	(void)pidns;
	return pid >= 1 && pid <= CLIENTS && (clients[pid - 1].state != DEAD || reused);
}

static void hcc_os_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	if (atomic_load(word) != value || draw() % 50 == 0) /* spurious wake-ups happen */
		return;
	if (!clients[running].queued_at)
		clients[running].queued_at = now_ns;
	clients[running].state = ASLEEP;
	clients[running].word = word;
	clients[running].wake_at = now_ns + ns;
	to_scheduler();
}

static void hcc_os_wake(_Atomic uint32_t *word)
{
	for (int index = 0; index < CLIENTS; index++)
		if (clients[index].state == ASLEEP && clients[index].word == word) {
			clients[index].state = READY;
			return;
		}
}

static void pause_for(uint64_t ns)
{
	static _Atomic uint32_t never;

	clients[running].state = ASLEEP;
	clients[running].word = &never;
	clients[running].wake_at = now_ns + ns;
	to_scheduler();
}

/* What must hold when the running client has just got the link, having asked at `asked`. */
static void check_turn(const struct client *self, uint64_t asked)
{
	struct hcc_sem_link *link = &region->link[0];
	uint32_t steps = (uint32_t)((self->read_at - asked) / (AGING_US * US));

	if (killed || hangs)
		return;
	for (int index = 0; index < CLIENTS; index++) {
		const struct client *other = &clients[index];

		if (other == self)
			continue;
		if (other->inside)
			fail("two holders");
		if (other->queued_at && other->queued_at < asked &&
		    (other->level == self->level || (other->level < self->level && !steps)))
			fail("passed somebody who came first");
	}
	for (uint32_t level = 0; level + steps < self->level; level++)
		if (link->last_use[level] <= self->read_at &&
		    self->read_at - link->last_use[level] < LINGER_US * US)
			fail("used the link while a level above lingers");
	if (freed_at && self->queued_at && self->queued_at < freed_at &&
	    self->level <= freed_level && now_ns - freed_at > 1000 * US)
		fail("a late hand-over");
	freed_at = 0;
}

static void life(void)
{
	struct client *self = &clients[running];

	self->sem = hcc_sem_join(&map, 0, self->level);
	if (!self->sem)
		fail("no room");
	while (self->turns < TURNS) {
		uint64_t asked = now_ns;
		int result;

		self->queued_at = 0;
		result = hcc_sem_enter(self->sem);
		if (now_ns - asked > self->longest)
			self->longest = now_ns - asked;
		if (result == HCC_SEM_HELD) {
			check_turn(self, asked);
			self->queued_at = 0;
			self->inside = 1;
			pause_for(MESSAGE_NS);
			if (draw() % 200 == 0) { /* a holder that hangs beyond its lease */
				hangs++;
				pause_for(2 * LEASE_US * US);
			}
			self->inside = 0;
			if (draw() % 2) {
				asked = now_ns;
				freed_at = 0;
				result = hcc_sem_boundary(self->sem, 1 << 19);
				if (result == HCC_SEM_HELD) {
					if (self->queued_at)
						check_turn(self, asked);
					self->queued_at = 0;
					self->inside = 1;
					pause_for(MESSAGE_NS);
					self->inside = 0;
				}
			}
			freed_at = now_ns;
			freed_level = self->level;
			hcc_sem_leave(self->sem);
		} else if (!killed && !hangs) {
			fail("went ahead without need");
		} else {
			self->ahead++;
		}
		self->turns++;
		if (draw() % 2)
			pause_for(draw() % (4 * MESSAGE_NS));
	}
	hcc_sem_part(self->sem);
	self->sem = NULL;
	self->state = DONE;
	to_scheduler();
}

static void start(int index)
{
	struct client *self = &clients[index];

	memset(self, 0, offsetof(struct client, stack));
	self->state = READY;
	self->sem = NULL;
	self->inside = self->turns = self->ahead = 0;
	self->longest = self->queued_at = self->read_at = 0;
	self->level = (uint32_t)(draw() % 3);
	getcontext(&self->context);
	self->context.uc_stack.ss_sp = self->stack;
	self->context.uc_stack.ss_size = STACK;
	self->context.uc_link = &scheduler;
	makecontext(&self->context, life, 0);
}

/* The next client that can run, drawn; when all sleep, time passes.  0: all have ended. */
static int choose(void)
{
	int ready[CLIENTS], count = 0;
	uint64_t soonest = UINT64_MAX;

	for (int index = 0; index < CLIENTS; index++) {
		struct client *one = &clients[index];

		if (one->state == ASLEEP && one->wake_at <= now_ns)
			one->state = READY;
		if (one->state == READY)
			ready[count++] = index;
		else if (one->state == ASLEEP && one->wake_at < soonest)
			soonest = one->wake_at;
	}
	if (count) {
		running = ready[draw() % (uint64_t)count];
		return 1;
	}
	if (soonest == UINT64_MAX)
		return 0;
	now_ns = soonest;
	return choose();
}

static void reset(uint64_t seed)
{
	struct hcc_sem_link *link = &region->link[0];

	random_state = seed * 0x9e3779b97f4a7c15ull + 1;
	memset(region, 0, sizeof(*region) + sizeof(*link));
	link->linger_us = LINGER_US;
	link->aging_us = AGING_US;
	link->patience_us = PATIENCE_US;
	link->lease_us = LEASE_US;
	link->granule = 1 << 20;
	now_ns = 1000000000;
	freed_at = 0;
	killed = hangs = 0;
	reused = seed % 4 == 3;
	kills = seed % 2 ? (int)(draw() % CLIENTS) : 0;
	for (int index = 0; index < CLIENTS; index++)
		start(index);
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
	uint64_t steps = 0, deaths = 0, rescues = 0, longest = 0, longest_plain = 0;

	region = calloc(1, sizeof(*region) + sizeof(struct hcc_sem_link));
	map = (struct hcc_sem_map){.region = region, .links = 1};
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		uint64_t began;

		reset(seed);
		began = now_ns;
		while (choose()) {
			if (++steps, now_ns - began > 20000000000ull)
				fail("somebody never got its turns");
			swapcontext(&scheduler, &clients[running].context);
		}
		for (int index = 0; index < CLIENTS; index++) {
			if (clients[index].longest > longest)
				longest = clients[index].longest;
			if (!killed && !hangs && clients[index].longest > longest_plain)
				longest_plain = clients[index].longest;
			if (clients[index].state == DONE && clients[index].turns != TURNS)
				fail("turns are missing");
			if (clients[index].longest > PATIENCE_US * US + 1000 * US)
				fail("waited beyond its patience");
			if (reused && !hangs && clients[index].ahead > killed)
				fail("held up again and again by one that is gone");
			if (!reused && !hangs && clients[index].longest > LEASE_US * US / 4)
				fail("took a lease to notice a death");
			free(clients[index].sem);
		}
		deaths += (uint64_t)killed;
		rescues += atomic_load(&region->link[0].rescues);
	}
	printf("{\"seeds\": %llu, \"steps\": %llu, \"deaths\": %llu, \"rescues\": %llu, "
	       "\"longest_us\": %.1f, \"longest_without_deaths_us\": %.1f}\n",
	       (unsigned long long)seeds, (unsigned long long)steps, (unsigned long long)deaths,
	       (unsigned long long)rescues, (double)longest / 1e3, (double)longest_plain / 1e3);
	free(region);
	return 0;
}
