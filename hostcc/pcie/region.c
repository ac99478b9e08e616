// SPDX-License-Identifier: Apache-2.0
/* The shared memory that semaphores live in: made by the agent, mapped by jobs. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "semaphore.h"

static uint64_t size_of(uint32_t links)
{
	return sizeof(struct hcc_sem_region) + links * sizeof(struct hcc_sem_link);
}

int hcc_sem_format(int fd, uint32_t links)
{
	struct hcc_sem_region *region;
	int error;

	if (!links || links > HCC_SEM_MAX_LINKS)
		return -EINVAL;
	if (ftruncate(fd, 0))
		return -errno;
	/* With its pages: in a full /dev/shm whoever first writes to a hole dies. */
	error = posix_fallocate(fd, 0, (off_t)size_of(links));
	if (error)
		return -error;
	region = mmap(NULL, size_of(links), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (region == MAP_FAILED)
		return -errno;
	region->version = HCC_SEM_VERSION;
	region->links = links;
	region->size = size_of(links);
	for (uint32_t index = 0; index < links; index++) {
		region->link[index].linger_us = 100;
		region->link[index].aging_us = 20000;
		region->link[index].patience_us = 1000000;
		region->link[index].lease_us = 100000;
		region->link[index].granule = 1 << 20;
	}
	atomic_thread_fence(memory_order_seq_cst);
	region->magic = HCC_SEM_MAGIC; /* last: it is complete */
	munmap(region, size_of(links));
	return 0;
}

int hcc_sem_map(int fd, struct hcc_sem_map *map)
{
	struct hcc_sem_region *region;
	struct stat facts;
	uint32_t links;

	map->region = NULL;
	if (fstat(fd, &facts))
		return -errno;
	/* The size of the file is what can be touched, whatever the header says. */
	if (!S_ISREG(facts.st_mode) || facts.st_size < (off_t)size_of(1) ||
	    facts.st_size > (off_t)size_of(HCC_SEM_MAX_LINKS))
		return -EINVAL;
	region = mmap(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (region == MAP_FAILED)
		return -errno;
	links = region->links;
	if (region->magic != HCC_SEM_MAGIC || region->version != HCC_SEM_VERSION || links < 1 ||
	    links > HCC_SEM_MAX_LINKS || (uint64_t)facts.st_size != size_of(links) ||
	    region->size != size_of(links)) {
		munmap(region, (size_t)facts.st_size);
		return -EINVAL;
	}
	*map = (struct hcc_sem_map){
		.region = region, .size = (uint64_t)facts.st_size, .links = links};
	return 0;
}

void hcc_sem_unmap(struct hcc_sem_map *map)
{
	if (map->region)
		munmap(map->region, map->size);
	map->region = NULL;
}
