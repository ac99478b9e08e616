// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that add to one plain number, each while it holds the link: with exclusion the sum
 * is exact, and ThreadSanitizer sees no race.  Leases are too long to be lost here.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "semaphore.h"

#define THREADS 4
#define TURNS 2000

static struct hcc_sem_map map;
static uint64_t sum, skipped;

static void *life(void *argument)
{
	struct hcc_sem *sem = hcc_sem_join(&map, 0, (uint32_t)(uintptr_t)argument % 2);

	for (int turn = 0; turn < TURNS; turn++) {
		if (hcc_sem_enter(sem) == HCC_SEM_HELD) {
			sum++;
			if (hcc_sem_boundary(sem, 1 << 20) == HCC_SEM_HELD)
				sum++;
			else
				__atomic_fetch_add(&skipped, 1, __ATOMIC_RELAXED);
		} else {
			__atomic_fetch_add(&skipped, 2, __ATOMIC_RELAXED);
		}
		hcc_sem_leave(sem);
	}
	hcc_sem_part(sem);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int fd = memfd_create("stress", MFD_ALLOW_SEALING);

	if (hcc_sem_format(fd, 1) || hcc_sem_map(fd, &map))
		return 2;
	map.region->link[0].lease_us = map.region->link[0].patience_us = 10000000;
	map.region->link[0].linger_us = 0;
	for (uintptr_t index = 0; index < THREADS; index++)
		if (pthread_create(&threads[index], NULL, life, (void *)index))
			return 2;
	for (int index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
	hcc_sem_unmap(&map);
	if (sum + skipped != 2 * THREADS * TURNS)
		fprintf(stderr, "sum %llu, skipped %llu\n", (unsigned long long)sum,
			(unsigned long long)skipped);
	return sum + skipped != 2 * THREADS * TURNS;
}
