// SPDX-License-Identifier: Apache-2.0
/* Reading the agent's plan out of shared memory that may hold anything. */
#define _GNU_SOURCE
#include "plan.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_STALE_US 60000000u
#define TRIES 100

_Static_assert(sizeof(struct hcc_rdma_bins) <= HCC_RDMA_RINGS_AT, "rings begin after the rows");

const uint32_t hcc_plan_layout[] = {
	sizeof(struct hcc_rdma_path), sizeof(struct hcc_rdma_job), sizeof(struct hcc_rdma_plan),
	offsetof(struct hcc_rdma_plan, beat), offsetof(struct hcc_rdma_plan, generation),
	offsetof(struct hcc_rdma_plan, long_bytes), offsetof(struct hcc_rdma_count, longest),
	offsetof(struct hcc_rdma_count, errors), offsetof(struct hcc_rdma_count, completed),
	offsetof(struct hcc_rdma_count, busy_ns), offsetof(struct hcc_rdma_count, open_ns),
	offsetof(struct hcc_rdma_job, name), offsetof(struct hcc_rdma_job, traffic_class),
	offsetof(struct hcc_rdma_job, rate), offsetof(struct hcc_rdma_job, f_milli),
	offsetof(struct hcc_rdma_job, path), offsetof(struct hcc_rdma_path, ports),
	offsetof(struct hcc_rdma_path, count), offsetof(struct hcc_rdma_path, flags),
	offsetof(struct hcc_rdma_job, gates), offsetof(struct hcc_rdma_job, gate),
	offsetof(struct hcc_rdma_job, closed_until_ns), offsetof(struct hcc_rdma_job, burst_silence_ns),
	sizeof(struct hcc_rdma_gate),
	sizeof(struct hcc_rdma_count), sizeof(struct hcc_rdma_counts),
	offsetof(struct hcc_rdma_counts, iterations), offsetof(struct hcc_rdma_counts, qp),
	offsetof(struct hcc_rdma_count, bytes), offsetof(struct hcc_rdma_count, dgid),
	offsetof(struct hcc_rdma_count, device), offsetof(struct hcc_rdma_counts, iteration),
	offsetof(struct hcc_rdma_counts, left_alone), offsetof(struct hcc_rdma_counts, burst),
	offsetof(struct hcc_rdma_counts, held_ns),
	sizeof(struct hcc_rdma_series), sizeof(struct hcc_rdma_bins),
	offsetof(struct hcc_rdma_series, newest), offsetof(struct hcc_rdma_series, dgid),
	offsetof(struct hcc_rdma_series, device), offsetof(struct hcc_rdma_bins, rows),
	offsetof(struct hcc_rdma_bins, left_out), offsetof(struct hcc_rdma_bins, row),
	HCC_RDMA_BINS_VERSION, HCC_RDMA_BIN_SHIFT, HCC_RDMA_RING, HCC_RDMA_LATE, HCC_RDMA_RINGS_AT,
	HCC_RDMA_VERSION, HCC_RDMA_MAX_JOBS, HCC_RDMA_NAME, HCC_RDMA_PATHS, HCC_RDMA_PORTS,
	HCC_RDMA_F_POINTS, HCC_RDMA_QPS, HCC_RDMA_GATES, HCC_RDMA_DEVICE, HCC_RDMA_BACK, 0,
};

static uint64_t size_of(uint32_t jobs)
{
	return sizeof(struct hcc_rdma_plan) + jobs * sizeof(struct hcc_rdma_job);
}

/* By statx, which glibc has since 2.28: the others have new versions since 2.33. */
static uint64_t device_of(const struct statx *facts)
{
	return (uint64_t)facts->stx_dev_major << 32 | facts->stx_dev_minor;
}

int hcc_plan_map(const char *path, struct hcc_plan_map *map)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const struct hcc_rdma_plan *plan;
	struct statx facts;
	uint32_t jobs;

	map->plan = NULL;
	if (fd < 0)
		return -1;
	/* Only root's word is taken for the agent's. */
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &facts) ||
	    !S_ISREG(facts.stx_mode) || facts.stx_mode & (S_IWGRP | S_IWOTH) ||
	    (facts.stx_uid && facts.stx_uid != geteuid()) || facts.stx_size < size_of(1) ||
	    facts.stx_size > size_of(HCC_RDMA_MAX_JOBS)) {
		close(fd);
		return -1;
	}
	plan = mmap(NULL, (size_t)facts.stx_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (plan == MAP_FAILED)
		return -1;
	jobs = plan->jobs;
	if (plan->magic != HCC_RDMA_MAGIC || plan->version != HCC_RDMA_VERSION || jobs < 1 ||
	    jobs > HCC_RDMA_MAX_JOBS || plan->size != size_of(jobs) ||
	    facts.stx_size != size_of(jobs)) {
		munmap((void *)plan, (size_t)facts.stx_size);
		return -1;
	}
	*map = (struct hcc_plan_map){
		.plan = plan, .size = facts.stx_size, .jobs = jobs,
		.device = device_of(&facts), .inode = facts.stx_ino};
	return 0;
}

void hcc_plan_renew(const char *path, struct hcc_plan_map *map)
{
	struct hcc_plan_map fresh;
	struct statx facts;

	if (!map->plan ||
	    statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &facts) ||
	    (device_of(&facts) == map->device && facts.stx_ino == map->inode) ||
	    hcc_plan_map(path, &fresh))
		return;
	/* In one step: whoever reads meanwhile reads the one or the other. */
	if (fresh.size != map->size || fresh.jobs != map->jobs ||
	    mremap((void *)fresh.plan, fresh.size, fresh.size, MREMAP_MAYMOVE | MREMAP_FIXED,
		   (void *)map->plan) == MAP_FAILED) {
		munmap((void *)fresh.plan, fresh.size);
		return;
	}
	map->device = fresh.device;
	map->inode = fresh.inode;
}

int hcc_plan_alive(const struct hcc_plan_map *map)
{
	struct timespec clock;
	uint64_t now, beat, stale;

	if (!map->plan)
		return 0;
	/* First: one that is written after we look at the clock would seem to be of the future. */
	beat = atomic_load_explicit(&map->plan->beat, memory_order_acquire);
	clock_gettime(CLOCK_MONOTONIC, &clock);
	now = (uint64_t)clock.tv_sec * 1000000000ull + (uint64_t)clock.tv_nsec;
	stale = atomic_load_explicit(&map->plan->stale_us, memory_order_relaxed);
	if (stale > MAX_STALE_US)
		stale = MAX_STALE_US;
	return beat <= now && now - beat <= stale * 1000;
}

/* What does not fit its bounds is not there. */
static void bound(struct hcc_rdma_job *job)
{
	if (job->traffic_class > 0xff || job->traffic_class & 3)
		job->flags &= ~HCC_RDMA_CLASS;
	if (!job->rate || !job->iteration_bytes)
		job->flags &= ~HCC_RDMA_RATE;
	if (job->paths > HCC_RDMA_PATHS)
		job->paths = 0;
	if (job->gates > HCC_RDMA_GATES)
		job->gates = 0;
	for (uint32_t index = 0; index < job->gates; index++)
		job->gate[index].device[HCC_RDMA_DEVICE - 1] = 0;
	for (uint32_t index = 0; index < job->paths; index++)
		if (job->path[index].count > HCC_RDMA_PORTS)
			job->path[index].count = 0;
}

const struct hcc_rdma_job *hcc_plan_entry(const struct hcc_plan_map *map, const char *name)
{
	for (uint32_t index = 0; map->plan && *name && index < map->jobs; index++)
		if (!strncmp(map->plan->job[index].name, name, HCC_RDMA_NAME))
			return &map->plan->job[index];
	return NULL;
}

int hcc_plan_read(const struct hcc_plan_map *map, const char *name, struct hcc_rdma_job *job)
{
	const struct hcc_rdma_job *entry = hcc_plan_entry(map, name);

	for (int attempt = 0; entry && attempt < TRIES; attempt++) {
		uint32_t before = atomic_load_explicit(&entry->sequence, memory_order_acquire);

		if (before & 1)
			continue;
		memcpy(job, (const void *)entry, sizeof(*job));
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&entry->sequence, memory_order_relaxed) != before)
			continue;
		if (strncmp(job->name, name, HCC_RDMA_NAME))
			return -1;
		bound(job);
		return 0;
	}
	return -1;
}
