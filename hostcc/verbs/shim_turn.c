// SPDX-License-Identifier: Apache-2.0
/*
 * Turns at shared PCIe links: which queue pairs take part in the use of which link, by their
 * devices, and when they have to wait.  All that pairs do on one device is one participant.
 *
 * So threads that post there wait together: the first waits for the link, the others for the
 * end of its wait, whatever it came to.  No lock is held meanwhile.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "semaphore_os.h"

#define LINKS HCC_RDMA_GATES /* PCIe links that one process takes part in: all of a plan */
#define FIRST_ANSWER_MS 100 /* once, when a process has its first plan */

_Atomic int shim_turns;

/* Part in the use of one PCIe link; all queue pairs on its devices share it. */
static struct gate {
	pthread_mutex_t lock;        /* nobody waits while holding it */
	struct hcc_sem *sem;         /* NULL: no part; while somebody waits that thread's alone */
	uint32_t link, level;
	int waiting;                 /* a thread waits, for all that post meanwhile */
	uint64_t until;              /* the end of its patience, CLOCK_MONOTONIC ns */
	uint64_t bytes;              /* posted after its wait by the others: not in `sem` yet */
	_Atomic uint32_t waits;      /* futex: how many waits are over */
	_Atomic int64_t outstanding; /* signalled sends that have not been completed */
} gates[LINKS] = {[0 ... LINKS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* Which link each device's queue pairs use, as the plan has it. */
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hcc_sem_map region;
static dev_t region_device; /* of the socket that it was given at */
static ino_t region_inode;
static int asked = -1; /* a connection there, while no answer has come */
static dev_t asked_device;
static ino_t asked_inode;
static struct hcc_rdma_gate planned[HCC_RDMA_GATES];
static uint32_t planned_count;

/* Until the wait that is going on is over, or that time; the lock is let go meanwhile. */
static void await(struct gate *gate, uint64_t until)
{
	uint32_t seen = atomic_load(&gate->waits);
	uint64_t now;

	pthread_mutex_unlock(&gate->lock);
	while (atomic_load(&gate->waits) == seen && (now = hcc_os_now()) < until)
		hcc_os_wait(&gate->waits, seen, until - now);
	pthread_mutex_lock(&gate->lock);
}

static void part(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	while (gate->waiting) {
		hcc_sem_cancel(gate->sem); /* ends at once, and nobody begins another one */
		await(gate, UINT64_MAX);
	}
	hcc_sem_part(gate->sem);
	gate->sem = NULL;
	pthread_mutex_unlock(&gate->lock);
}

/* Ask for the region of semaphores, unless the one at hand is that of the agent that is there. */
static void ask_for_region(void)
{
	struct stat facts;

	if (lstat(shim_semaphores(), &facts) ||
	    (region.region && facts.st_dev == region_device && facts.st_ino == region_inode))
		return;
	asked = hcc_sem_ask(shim_semaphores());
	asked_device = facts.st_dev;
	asked_inode = facts.st_ino;
	if (asked == -EAGAIN)
		shim_look_again();
}

/* Map the region of semaphores, anew where another agent has made another one. */
static void find_region(void)
{
	static int has_waited;
	struct hcc_sem_map found;
	int fd;

	if (asked < 0)
		ask_for_region();
	if (asked < 0)
		return;
	if (!has_waited) { /* so that the first posts take turns, too: once in a process's life */
		struct pollfd answer = {.fd = asked, .events = POLLIN};

		has_waited = 1;
		poll(&answer, 1, FIRST_ANSWER_MS);
	}
	fd = hcc_sem_answer(asked);
	if (fd == -EAGAIN) {
		shim_look_again();
		return;
	}
	close(asked);
	asked = -1;
	if (fd < 0) { /* the agent has just ended, or nobody knows what that is */
		shim_look_again();
		return;
	}
	if (!hcc_sem_map(fd, &found)) {
		for (uint32_t index = 0; index < LINKS; index++)
			part(&gates[index]);
		hcc_sem_unmap(&region);
		region = found;
		region_device = asked_device;
		region_inode = asked_inode;
	}
	close(fd);
}

static int is_planned(uint32_t link)
{
	for (uint32_t index = 0; index < planned_count; index++)
		if (planned[index].link == link)
			return 1;
	return 0;
}

static void join(uint32_t link, uint32_t level)
{
	struct gate *spare = NULL;

	for (uint32_t index = 0; index < LINKS; index++) {
		struct gate *gate = &gates[index];

		if (gate->sem && gate->link == link) {
			pthread_mutex_lock(&gate->lock);
			gate->level = level;
			if (!gate->waiting)
				hcc_sem_set_level(gate->sem, level);
			pthread_mutex_unlock(&gate->lock);
			return;
		}
		if (!gate->sem && !spare)
			spare = gate;
	}
	if (!spare)
		return;
	pthread_mutex_lock(&spare->lock);
	spare->link = link;
	spare->level = level;
	spare->bytes = 0;
	atomic_store(&spare->outstanding, 0);
	spare->sem = hcc_sem_join(&region, link, level);
	pthread_mutex_unlock(&spare->lock);
}

/* The number of the gate that a queue pair's posts go through, from 1. */
static void assign(struct shim_qp *one)
{
	int found = 0;

	for (uint32_t index = 0; !found && index < planned_count; index++) {
		const char *device = planned[index].device;

		if (*device && strncmp(device, one->count->device, HCC_RDMA_DEVICE))
			continue;
		for (uint32_t number = 0; !found && number < LINKS; number++)
			if (gates[number].sem && gates[number].link == planned[index].link)
				found = (int)number + 1;
	}
	if (found != atomic_load(&one->gate))
		shim_turn_gone(one); /* its completions will be counted elsewhere */
	atomic_store(&one->gate, found);
}

void shim_turn_plan(const struct hcc_rdma_job *job)
{
	int any = 0;

	if (!job) { /* maybe in a child of fork: no lock */
		atomic_store(&shim_turns, 0);
		return;
	}
	pthread_mutex_lock(&plan_lock);
	planned_count = job->flags & HCC_RDMA_GATE ? job->gates : 0;
	memcpy(planned, job->gate, sizeof(planned));
	if (planned_count)
		find_region();
	for (uint32_t index = 0; index < LINKS; index++)
		if (!is_planned(gates[index].link))
			part(&gates[index]);
	for (uint32_t index = 0; region.region && index < planned_count; index++)
		join(planned[index].link, job->level);
	for (uint32_t index = 0; index < LINKS; index++)
		any |= gates[index].sem != NULL;
	shim_each(assign);
	pthread_mutex_unlock(&plan_lock);
	atomic_store(&shim_turns, any);
}

void shim_turn_assign(struct shim_qp *one)
{
	pthread_mutex_lock(&plan_lock);
	assign(one);
	pthread_mutex_unlock(&plan_lock);
}

/* The first that posts waits, the lock let go; those that come meanwhile go ahead with it. */
static void enter(struct gate *gate, uint64_t bytes)
{
	int result = hcc_sem_ready(gate->sem, gate->bytes + bytes);

	gate->bytes = 0;
	if (result != HCC_SEM_WAIT)
		return;
	gate->waiting = 1;
	gate->until = hcc_os_now() + hcc_sem_patience_ns(gate->sem);
	pthread_mutex_unlock(&gate->lock);
	hcc_sem_enter(gate->sem);
	pthread_mutex_lock(&gate->lock);
	gate->waiting = 0;
	hcc_sem_set_level(gate->sem, gate->level);
	atomic_fetch_add(&gate->waits, 1);
	syscall(SYS_futex, &gate->waits, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int shim_turn_wait(struct shim_qp *one, uint64_t bytes)
{
	int number = atomic_load_explicit(&one->gate, memory_order_relaxed);
	struct gate *gate;

	if (!number || !atomic_load_explicit(&shim_turns, memory_order_relaxed))
		return 0;
	gate = &gates[number - 1];
	pthread_mutex_lock(&gate->lock);
	if (gate->waiting) {
		gate->bytes += bytes;
		await(gate, gate->until);
	} else if (shim_alive()) {
		enter(gate, bytes);
	}
	pthread_mutex_unlock(&gate->lock);
	return 1;
}

void shim_turn_used(struct shim_qp *one, uint64_t bytes)
{
	int number = atomic_load_explicit(&one->gate, memory_order_relaxed);

	if (!number || !atomic_load_explicit(&shim_turns, memory_order_relaxed))
		return;
	pthread_mutex_lock(&gates[number - 1].lock);
	gates[number - 1].bytes += bytes;
	pthread_mutex_unlock(&gates[number - 1].lock);
}

void shim_turn_posted(struct shim_qp *one, int64_t signalled)
{
	int number = atomic_load_explicit(&one->gate, memory_order_relaxed);

	if (!number || !signalled)
		return;
	atomic_fetch_add(&gates[number - 1].outstanding, signalled);
	atomic_fetch_add(&one->at_link, signalled);
}

/* Take from a count that is never below 0: some may have been posted before we looked. */
static int64_t take_from(_Atomic int64_t *outstanding, int64_t count)
{
	int64_t left = atomic_fetch_sub(outstanding, count) - count;

	if (left < 0)
		atomic_compare_exchange_strong(outstanding, &left, 0);
	return left;
}

void shim_turn_completed(struct shim_qp *one, int64_t count)
{
	int number = atomic_load_explicit(&one->gate, memory_order_relaxed);
	struct gate *gate;

	if (!number)
		return;
	gate = &gates[number - 1];
	take_from(&one->at_link, count);
	/* Also while there is no agent: what was posted is counted then, too. */
	if (take_from(&gate->outstanding, count) > 0 ||
	    !atomic_load_explicit(&shim_turns, memory_order_relaxed))
		return;
	/* Who has the lock, or waits, is about to post. */
	if (pthread_mutex_trylock(&gate->lock))
		return;
	if (!gate->waiting && atomic_load(&gate->outstanding) <= 0)
		hcc_sem_leave(gate->sem);
	pthread_mutex_unlock(&gate->lock);
}

void shim_turn_gone(struct shim_qp *one)
{
	int64_t count = atomic_load(&one->at_link);

	if (count > 0)
		shim_turn_completed(one, count);
}
