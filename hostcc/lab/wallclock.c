// SPDX-License-Identifier: Apache-2.0
/*
 * The wall clock of one process, to be preloaded: CLOCK_REALTIME is the machine's plus as many
 * seconds as the file HOSTCC_LAB_CLOCK holds (a 64-bit number), whenever it is asked.  Other
 * clocks, and the machine's own, stay as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef int (*gettime)(clockid_t, struct timespec *);

static gettime real;
static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("HOSTCC_LAB_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*ahead_s), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		ahead_s = at;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result;

	if (!real)
		real = (gettime)dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (!result && ahead_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *ahead_s;
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec at;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &at))
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *where)
{
	struct timespec at;

	if (clock_gettime(CLOCK_REALTIME, &at))
		return -1;
	if (where)
		*where = at.tv_sec;
	return at.tv_sec;
}
