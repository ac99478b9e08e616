// SPDX-License-Identifier: Apache-2.0
/*
 * Semaphores of PCIe links: who may use a link next.  The rules are in docs/internals/pcie.md.
 *
 * Everything in the shared memory may be garbage: indices are checked, durations clamped,
 * loops bounded.  semaphore_os.h is what the tests replace to choose every interleaving.
 */
#include "semaphore.h"

#include <stddef.h>
#include <stdlib.h>

#ifndef HCC_SEM_SIMULATED
#include "semaphore_os.h"
#endif

#define US 1000ull
#define CHECK_NS (2000 * US) /* between looks at whether the owner still lives */
#define MAX_LINGER_US 100000u
#define MAX_AGING_US 10000000u
#define MAX_PATIENCE_US 10000000u
#define MAX_LEASE_US 10000000u
#define NOBODY (-1)
#define MAX_GIVE_UPS 4       /* in a row: then others do not keep the rules */
#define RESPITE_PATIENCES 32 /* for so many times its patience it then waits for nobody */

struct hcc_sem {
	struct hcc_sem_region *region;
	struct hcc_sem_link *link;
	uint32_t slot;
	uint32_t level;
	uint64_t held;  /* the owner word while the link is ours, else 0 */
	uint64_t bytes; /* since it became ours */
	uint32_t doubts;      /* give-ups in a row */
	uint64_t alone_until; /* CLOCK_MONOTONIC ns: until then it waits for nobody */
	_Atomic int cancelled;
};

const uint32_t hcc_sem_layout[] = {
	sizeof(struct hcc_sem_slot), sizeof(struct hcc_sem_link), sizeof(struct hcc_sem_region),
	offsetof(struct hcc_sem_region, beat), offsetof(struct hcc_sem_region, stale_us),
	offsetof(struct hcc_sem_link, linger_us), offsetof(struct hcc_sem_link, granule),
	offsetof(struct hcc_sem_link, given_up), offsetof(struct hcc_sem_link, owner),
	offsetof(struct hcc_sem_link, last_use), offsetof(struct hcc_sem_link, slots),
	offsetof(struct hcc_sem_slot, pidns), offsetof(struct hcc_sem_slot, since),
	offsetof(struct hcc_sem_slot, seen),
	HCC_SEM_LEVELS, HCC_SEM_CLIENTS, HCC_SEM_MAX_LINKS, HCC_SEM_NAME, HCC_SEM_VERSION, 0,
};

static uint64_t setting_ns(const _Atomic uint32_t *us, uint32_t most)
{
	uint32_t value = atomic_load_explicit(us, memory_order_relaxed);

	return (value < most ? value : most) * US;
}

static uint64_t bit(uint32_t slot)
{
	return 1ull << slot;
}

static int owner_slot(uint64_t owner)
{
	uint32_t slot = (uint32_t)(owner & 0xff);

	return slot >= 1 && slot <= HCC_SEM_CLIENTS ? (int)slot - 1 : NOBODY;
}

/* Whether no agent lives: then every participant goes ahead. */
static int unattended(const struct hcc_sem *sem, uint64_t now)
{
	uint64_t stale = setting_ns(&sem->region->stale_us, UINT32_MAX);
	uint64_t beat = atomic_load_explicit(&sem->region->beat, memory_order_relaxed);

	return stale && (now < beat ? beat - now : now - beat) > stale;
}

/* Time until no level above `level` has used the link for its linger time, ns. */
static uint64_t quiet_in(struct hcc_sem_link *link, uint32_t level, uint64_t now)
{
	uint64_t linger = setting_ns(&link->linger_us, MAX_LINGER_US), longest = 0;

	for (uint32_t above = 0; above < level; above++) {
		uint64_t used = atomic_load_explicit(&link->last_use[above], memory_order_relaxed);
		uint64_t ago = used < now ? now - used : 0;

		/* A moment far in the future is garbage. */
		if (used > now + linger || ago >= linger)
			continue;
		if (linger - ago > longest)
			longest = linger - ago;
	}
	return longest;
}

/* The level that a waiter has risen to. */
static uint32_t risen(struct hcc_sem_link *link, uint32_t slot, uint64_t now)
{
	uint32_t level = atomic_load(&link->slots[slot].level) % HCC_SEM_LEVELS;
	uint64_t since = atomic_load(&link->slots[slot].since);
	uint64_t aging = setting_ns(&link->aging_us, MAX_AGING_US);
	uint64_t steps = aging && since < now ? (now - since) / aging : 0;

	return steps < level ? level - (uint32_t)steps : 0;
}

static int dead(struct hcc_sem_link *link, uint32_t slot)
{
	struct hcc_sem_slot *one = &link->slots[slot];

	return !hcc_os_alive(atomic_load(&one->pid), atomic_load(&one->pidns));
}

/* Whether it cannot be waiting any more: killed, or marked for longer than anybody waits (its
 * process was killed, and another one has its number). */
static int gone(struct hcc_sem_link *link, uint32_t slot, uint64_t now)
{
	uint64_t longest = setting_ns(&link->patience_us, MAX_PATIENCE_US) + 5 * CHECK_NS;
	uint64_t since = atomic_load(&link->slots[slot].since);

	return since > now + longest || (since < now && now - since > longest) || dead(link, slot);
}

/* Whether the link can be taken from its owner: it is dead, or silent for its lease. */
static int abandoned(struct hcc_sem_link *link, uint64_t owner, uint64_t now)
{
	uint64_t since = (owner >> 8) * US;
	int slot = owner_slot(owner);

	if (slot == NOBODY || since > now + setting_ns(&link->lease_us, MAX_LEASE_US))
		return 1;
	if (since < now && now - since > setting_ns(&link->lease_us, MAX_LEASE_US))
		return 1;
	return dead(link, (uint32_t)slot);
}

/*
 * The waiter whose turn it is: of the highest level, the first that came.  `wait` becomes the
 * time that it still has to wait for higher levels to be quiet.  `self` lives, whatever its
 * slot says.
 */
static int next_in_turn(struct hcc_sem_link *link, uint32_t self, uint64_t now, uint64_t *wait)
{
	uint64_t left = atomic_load(&link->waiting) & (bit(HCC_SEM_CLIENTS) - 1);

	while (left) {
		uint32_t best = 0, best_level = HCC_SEM_LEVELS;
		uint64_t best_ticket = 0;

		for (uint64_t rest = left; rest; rest &= rest - 1) {
			uint32_t slot = (uint32_t)__builtin_ctzll(rest);
			uint32_t level = risen(link, slot, now);
			uint64_t ticket = atomic_load(&link->slots[slot].ticket);

			if (level < best_level || (level == best_level && ticket < best_ticket)) {
				best = slot;
				best_level = level;
				best_ticket = ticket;
			}
		}
		*wait = quiet_in(link, best_level, now);
		if (best == self || !gone(link, best, now))
			return (int)best;
		atomic_fetch_and(&link->waiting, ~bit(best));
		left &= ~bit(best);
	}
	return NOBODY;
}

static void ring(struct hcc_sem_link *link, uint32_t slot)
{
	atomic_fetch_add(&link->slots[slot].bell, 1);
	HCC_POINT();
	hcc_os_wake(&link->slots[slot].bell);
}

static int take(struct hcc_sem *sem, uint64_t expected, uint64_t now)
{
	uint64_t word = now / US << 8 | (sem->slot + 1);

	if (!atomic_compare_exchange_strong(&sem->link->owner, &expected, word))
		return 0;
	sem->held = word;
	sem->bytes = 0;
	atomic_store_explicit(&sem->link->slots[sem->slot].seen, now, memory_order_relaxed);
	return 1;
}

/* One look at the link: HELD, or how long to sleep. */
static int try_turn(struct hcc_sem *sem, uint64_t now, uint64_t *nap)
{
	struct hcc_sem_link *link = sem->link;
	uint64_t owner = atomic_load(&link->owner), wait = 0;
	int next;

	*nap = CHECK_NS;
	HCC_POINT();
	if (owner && !abandoned(link, owner, now)) {
		uint32_t slot = (uint32_t)owner_slot(owner);

		/* No one wakes lower levels when it leaves: they check again by themselves. */
		if (atomic_load(&link->slots[slot].level) % HCC_SEM_LEVELS <
		    risen(link, sem->slot, now))
			*nap = setting_ns(&link->linger_us, MAX_LINGER_US) + 10 * US;
		return HCC_SEM_OPEN;
	}
	next = next_in_turn(link, sem->slot, now, &wait);
	HCC_POINT();
	if (next == (int)sem->slot && !wait) {
		if (take(sem, owner, now)) {
			if (owner)
				atomic_fetch_add(&link->rescues, 1);
			return HCC_SEM_HELD;
		}
		*nap = 0;
	} else if (next == (int)sem->slot) {
		*nap = wait;
	} else if (next != NOBODY && !wait) {
		ring(link, (uint32_t)next);
	} else if (next == NOBODY) {
		*nap = 0; /* another participant took us for dead and cleared our bit */
		atomic_fetch_or(&link->waiting, bit(sem->slot));
	}
	return HCC_SEM_OPEN;
}

static int wait_for_turn(struct hcc_sem *sem, uint64_t began)
{
	struct hcc_sem_link *link = sem->link;
	struct hcc_sem_slot *slot = &link->slots[sem->slot];
	uint64_t patience, now = began, nap;
	int result;

	atomic_store(&slot->level, sem->level);
	atomic_store(&slot->since, began);
	atomic_store(&slot->ticket, atomic_fetch_add(&link->tickets, 1));
	HCC_POINT();
	atomic_fetch_or(&link->waiting, bit(sem->slot));
	for (;;) {
		uint32_t bell = atomic_load(&slot->bell);

		/* Each time: what somebody has put there the agent mends at its next beat. */
		patience = setting_ns(&link->patience_us, MAX_PATIENCE_US);
		HCC_POINT();
		result = try_turn(sem, now, &nap);
		HCC_POINT();
		if (result == HCC_SEM_HELD || now - began >= patience ||
		    atomic_load(&sem->cancelled))
			break;
		if (nap > patience - (now - began))
			nap = patience - (now - began);
		if (nap)
			hcc_os_wait(&slot->bell, bell, nap);
		now = hcc_os_now();
		if (now < began)
			break;
	}
	atomic_fetch_and(&link->waiting, ~bit(sem->slot));
	atomic_fetch_add(result == HCC_SEM_HELD ? &link->handovers : &link->given_up, 1);
	if (result == HCC_SEM_HELD)
		sem->doubts = 0;
	else if (now - began >= patience && ++sem->doubts >= MAX_GIVE_UPS)
		sem->alone_until = now + RESPITE_PATIENCES * (now - began);
	return result;
}

/* Take an unused link; else return whether there is anything to wait for. */
static int ask(struct hcc_sem *sem, uint64_t now)
{
	struct hcc_sem_link *link = sem->link;

	if (unattended(sem, now) || atomic_load_explicit(&sem->cancelled, memory_order_relaxed))
		return HCC_SEM_OPEN;
	if (!atomic_load(&link->waiting) && !quiet_in(link, sem->level, now) && take(sem, 0, now))
		return HCC_SEM_HELD;
	return now < sem->alone_until ? HCC_SEM_OPEN : HCC_SEM_WAIT;
}

int hcc_sem_enter(struct hcc_sem *sem)
{
	uint64_t now;
	int result;

	if (!sem || sem->held)
		return HCC_SEM_OPEN;
	now = hcc_os_now();
	result = ask(sem, now);
	HCC_POINT();
	return result == HCC_SEM_WAIT ? wait_for_turn(sem, now) : result;
}

uint64_t hcc_sem_patience_ns(const struct hcc_sem *sem)
{
	return sem ? setting_ns(&sem->link->patience_us, MAX_PATIENCE_US) : 0;
}

void hcc_sem_cancel(struct hcc_sem *sem)
{
	atomic_store(&sem->cancelled, 1);
	ring(sem->link, sem->slot);
}

void hcc_sem_leave(struct hcc_sem *sem)
{
	struct hcc_sem_link *link;
	uint64_t now, wait = 0, held;
	int next;

	if (!sem || !sem->held)
		return;
	link = sem->link;
	now = hcc_os_now();
	held = sem->held;
	sem->held = 0;
	atomic_store_explicit(&link->last_use[sem->level], now, memory_order_relaxed);
	HCC_POINT();
	if (!atomic_compare_exchange_strong(&link->owner, &held, 0))
		return; /* another participant took us for dead: the link is its */
	HCC_POINT();
	if (!atomic_load(&link->waiting))
		return;
	next = next_in_turn(link, HCC_SEM_CLIENTS, now, &wait);
	HCC_POINT();
	if (next != NOBODY && !wait)
		ring(link, (uint32_t)next);
}

/* Whether the holder has to make way for a waiter. */
static int must_yield(const struct hcc_sem *sem, uint64_t waiting, uint64_t now)
{
	struct hcc_sem_link *link = sem->link;
	int spent = sem->bytes >= atomic_load_explicit(&link->granule, memory_order_relaxed);

	for (; waiting; waiting &= waiting - 1) {
		uint32_t level = risen(link, (uint32_t)__builtin_ctzll(waiting), now);

		if (level < sem->level || (spent && level == sem->level))
			return 1;
	}
	return 0;
}

int hcc_sem_ready(struct hcc_sem *sem, uint64_t bytes)
{
	struct hcc_sem_link *link;
	uint64_t waiting, now, word;

	if (!sem)
		return HCC_SEM_OPEN;
	if (!sem->held)
		return ask(sem, hcc_os_now());
	link = sem->link;
	sem->bytes = sem->bytes + bytes < sem->bytes ? UINT64_MAX : sem->bytes + bytes;
	now = hcc_os_now();
	waiting = atomic_load(&link->waiting) & (bit(HCC_SEM_CLIENTS) - 1) & ~bit(sem->slot);
	if (waiting && must_yield(sem, waiting, now)) {
		hcc_sem_leave(sem);
		HCC_POINT();
		return ask(sem, hcc_os_now());
	}
	/* A sign of life, so that the lease starts again. */
	word = now / US << 8 | (sem->slot + 1);
	if (!atomic_compare_exchange_strong(&link->owner, &sem->held, word)) {
		sem->held = 0;
		return ask(sem, hcc_os_now());
	}
	sem->held = word;
	return HCC_SEM_HELD;
}

int hcc_sem_boundary(struct hcc_sem *sem, uint64_t bytes)
{
	int result = hcc_sem_ready(sem, bytes);

	return result == HCC_SEM_WAIT ? hcc_sem_enter(sem) : result;
}

void hcc_sem_set_level(struct hcc_sem *sem, uint32_t level)
{
	if (!sem || level >= HCC_SEM_LEVELS || level == sem->level)
		return;
	if (sem->held)
		hcc_sem_leave(sem);
	sem->level = level;
	atomic_store(&sem->link->slots[sem->slot].level, level);
}

/* Take a place that was `pid`'s, 0: nobody's. */
static int occupy(struct hcc_sem_link *link, uint32_t slot, uint32_t pid, uint32_t level)
{
	struct hcc_sem_slot *one = &link->slots[slot];
	uint64_t owner;

	if (!atomic_compare_exchange_strong(&one->pid, &pid, hcc_os_pid()))
		return 0;
	HCC_POINT();
	/* It died with the link: from now on it would seem to live. */
	owner = atomic_load(&link->owner);
	if (owner_slot(owner) == (int)slot)
		atomic_compare_exchange_strong(&link->owner, &owner, 0);
	atomic_store(&one->pidns, hcc_os_pidns());
	atomic_store(&one->level, level);
	atomic_store(&one->seen, hcc_os_now());
	atomic_fetch_and(&link->waiting, ~bit(slot));
	return 1;
}

static int claim(struct hcc_sem_link *link, uint32_t slot, uint32_t level)
{
	uint32_t pid = atomic_load(&link->slots[slot].pid);

	return (!pid || dead(link, slot)) && occupy(link, slot, pid, level);
}

/*
 * Where all places are taken: nobody knows which processes of other PID namespaces have died, so
 * the one that took part least lately makes room.  If it lives after all, two share a place, and
 * wait for their patience at most.
 */
static int displace(struct hcc_sem_link *link, uint32_t *slot, uint32_t level)
{
	uint64_t waiting = atomic_load(&link->waiting), ours = hcc_os_pidns(), oldest = UINT64_MAX;
	int owner = owner_slot(atomic_load(&link->owner));
	uint32_t pid = 0;

	for (uint32_t index = 0; index < HCC_SEM_CLIENTS; index++) {
		struct hcc_sem_slot *one = &link->slots[index];
		uint64_t seen = atomic_load(&one->seen);

		if (!ours || atomic_load(&one->pidns) == ours || waiting & bit(index) ||
		    (int)index == owner || seen >= oldest)
			continue;
		oldest = seen;
		*slot = index;
		pid = atomic_load(&one->pid);
	}
	return oldest < UINT64_MAX && occupy(link, *slot, pid, level);
}

struct hcc_sem *hcc_sem_join(const struct hcc_sem_map *map, uint32_t link, uint32_t level)
{
	struct hcc_sem *sem;

	if (!map || !map->region || link >= map->links || level >= HCC_SEM_LEVELS)
		return NULL;
	sem = calloc(1, sizeof(*sem));
	if (!sem)
		return NULL;
	sem->region = map->region;
	sem->link = &map->region->link[link];
	sem->level = level;
	for (sem->slot = 0; sem->slot < HCC_SEM_CLIENTS; sem->slot++)
		if (claim(sem->link, sem->slot, level))
			return sem;
	if (displace(sem->link, &sem->slot, level))
		return sem;
	free(sem);
	return NULL;
}

void hcc_sem_part(struct hcc_sem *sem)
{
	if (!sem)
		return;
	hcc_sem_leave(sem);
	atomic_fetch_and(&sem->link->waiting, ~bit(sem->slot));
	atomic_store(&sem->link->slots[sem->slot].pid, 0);
	free(sem);
}
