/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semaphores of PCIe links: the layout of the shared memory and the C interface.
 *
 * A region of sealed shared memory holds one semaphore per shared link.  It is a hint about
 * order, never a lock that protects data: every wait is bounded, and after the bound, or on
 * any doubt, the caller goes ahead.  docs/internals/pcie.md explains the rules.
 */
#ifndef HOSTCC_PCIE_SEMAPHORE_H
#define HOSTCC_PCIE_SEMAPHORE_H

#include <stdatomic.h>
#include <stdint.h>

#define HCC_SEM_MAGIC 0x6d65736363687063ull
#define HCC_SEM_VERSION 1u
#define HCC_SEM_LEVELS 8u
#define HCC_SEM_CLIENTS 62u
#define HCC_SEM_MAX_LINKS 64u
#define HCC_SEM_NAME 48u

/* One participant at one link. */
struct hcc_sem_slot {
	_Atomic uint32_t pid;   /* 0: free */
	_Atomic uint32_t level; /* 0 is the highest */
	_Atomic uint32_t bell;  /* futex: rung when it may be this one's turn */
	uint32_t reserved;
	_Atomic uint64_t pidns;  /* inode of its PID namespace; another's pids say nothing */
	_Atomic uint64_t ticket; /* order of arrival among waiters */
	_Atomic uint64_t since;  /* CLOCK_MONOTONIC ns at which it began to wait */
	_Atomic uint64_t seen;   /* the same, at which it joined or took the link last */
	uint64_t padding[2];
};

struct hcc_sem_link {
	char name[HCC_SEM_NAME];
	_Atomic uint32_t linger_us;   /* a level counts as using the link so long after a message */
	_Atomic uint32_t aging_us;    /* time of waiting after which a waiter rises by one level */
	_Atomic uint32_t patience_us; /* longest wait for one message */
	_Atomic uint32_t lease_us;    /* a holder without a message boundary for so long loses the link */
	_Atomic uint64_t granule;     /* bytes after which a holder makes way for its own level */
	_Atomic uint64_t handovers;   /* times that a participant waited and then got the link */
	_Atomic uint64_t rescues;     /* times that the link was taken from a dead or silent holder */
	_Atomic uint64_t given_up;    /* times that a participant went ahead after its patience */
	uint64_t padding[4];
	_Atomic uint64_t owner;   /* 0: free; else time in us << 8 | slot + 1 */
	_Atomic uint64_t waiting; /* a bit for each slot that waits */
	_Atomic uint64_t tickets;
	uint64_t padding2[5];
	_Atomic uint64_t last_use[HCC_SEM_LEVELS]; /* CLOCK_MONOTONIC ns */
	struct hcc_sem_slot slots[HCC_SEM_CLIENTS];
};

struct hcc_sem_region {
	uint64_t magic;
	uint32_t version;
	uint32_t links;
	uint64_t size;             /* of the whole region, bytes */
	_Atomic uint64_t beat;     /* CLOCK_MONOTONIC ns: the agent's last heartbeat */
	_Atomic uint32_t stale_us; /* without one for so long nobody waits; 0: there is no agent */
	uint32_t reserved;
	uint64_t padding[3];
	struct hcc_sem_link link[];
};

/* Results of hcc_sem_enter, hcc_sem_boundary and hcc_sem_ready. */
#define HCC_SEM_HELD 0 /* the link is the caller's */
#define HCC_SEM_OPEN 1 /* go ahead without it */
#define HCC_SEM_WAIT 2 /* hcc_sem_ready alone: hcc_sem_enter would wait */

struct hcc_sem; /* private to the process; one per thread and link */

/* A mapped region; what was checked when it was mapped is kept out of others' reach. */
struct hcc_sem_map {
	struct hcc_sem_region *region;
	uint64_t size;
	uint32_t links;
};

/* Map a region from a descriptor of sealed memory; 0, or -errno (-EINVAL: it is none). */
int hcc_sem_map(int fd, struct hcc_sem_map *map);
/* After the last hcc_sem_part. */
void hcc_sem_unmap(struct hcc_sem_map *map);
/* Write a fresh region of `links` links into a memfd, and seal it; 0, or -errno. */
int hcc_sem_format(int fd, uint32_t links);

/* Ask for the region that is given at a socket: a connection, or -errno.  Never waits. */
int hcc_sem_ask(const char *path);
/* Read the answer: a descriptor for hcc_sem_map, -EAGAIN (none yet), or -errno.  Never waits. */
int hcc_sem_answer(int link);

/* Join a link at a level; NULL when there is no such link or no room. */
struct hcc_sem *hcc_sem_join(const struct hcc_sem_map *map, uint32_t link, uint32_t level);
void hcc_sem_part(struct hcc_sem *sem);
/* From the next wait on. */
void hcc_sem_set_level(struct hcc_sem *sem, uint32_t level);

/* Before the first message of a burst: waits for the link. */
int hcc_sem_enter(struct hcc_sem *sem);
/* Between two messages, the last of `bytes`: makes way for a waiter of a higher level. */
int hcc_sem_boundary(struct hcc_sem *sem, uint64_t bytes);
/* After the last message of a burst. */
void hcc_sem_leave(struct hcc_sem *sem);
/* As hcc_sem_boundary, but never waits. */
int hcc_sem_ready(struct hcc_sem *sem, uint64_t bytes);
/* Longest time that hcc_sem_enter waits. */
uint64_t hcc_sem_patience_ns(const struct hcc_sem *sem);
/* End its present and future waits; the only call that any thread may make. */
void hcc_sem_cancel(struct hcc_sem *sem);

/* Offsets and sizes of the layout, for bindings to compare with theirs; 0 ends the list. */
extern const uint32_t hcc_sem_layout[];

#endif
