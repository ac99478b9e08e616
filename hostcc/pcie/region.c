// SPDX-License-Identifier: Apache-2.0
/*
 * The shared memory that semaphores live in: made by the agent, mapped by jobs of several users.
 *
 * It is sealed memory (memfd): who could cut it short would kill all that have it mapped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "semaphore.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

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
	/* With its pages: where memory is short this fails, not whoever first writes to a hole. */
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
	return fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) ? -errno : 0;
}

int hcc_sem_ask(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred giver;
	socklen_t size = sizeof(giver);
	int link, error;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (link < 0)
		return -errno;
	error = connect(link, (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
	/* Only root's word is taken for the agent's: anybody may put a socket into /dev/shm. */
	if (!error && (getsockopt(link, SOL_SOCKET, SO_PEERCRED, &giver, &size) ||
		       (giver.uid && giver.uid != geteuid())))
		error = EPERM;
	if (!error)
		return link;
	close(link);
	return -error;
}

int hcc_sem_answer(int link)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} given = {0};
	char one;
	struct iovec data = {.iov_base = &one, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &given,
				 .msg_controllen = sizeof(given)};
	struct cmsghdr *head;
	int fd;

	if (recvmsg(link, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
	head = CMSG_FIRSTHDR(&message);
	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
	    head->cmsg_len != CMSG_LEN(sizeof(fd)))
		return -ENOMSG;
	memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

int hcc_sem_map(int fd, struct hcc_sem_map *map)
{
	struct hcc_sem_region *region;
	struct stat facts;
	uint32_t links;
	int seals = fcntl(fd, F_GET_SEALS);

	map->region = NULL;
	if (fstat(fd, &facts))
		return -errno;
	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EINVAL;
	/* Its size is what can be touched, and stays, whatever the header says. */
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
