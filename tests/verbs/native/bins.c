// SPDX-License-Identifier: Apache-2.0
/*
 * The shim's bins at times that a test says: its own source, and one queue pair.
 *
 *     bins PREFIX     does what each line says, and answers each with "ok"
 *
 *     open DEPTH | posted BYTES SIGNALLED AT | completed COUNT AT | refused BYTES SIGNALLED |
 *     settle AT | close | race THREADS POSTS AT | end
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim_bins.c"

#include <fcntl.h>

#define BYTES 1000
#define MAX_THREADS 16

static struct hcc_rdma_count counters = {.qpn = 17, .source = 1 << 16 | 3, .device = "rxa"};
static struct shim_qp pair = {.count = &counters, .series = {.lock = PTHREAD_MUTEX_INITIALIZER}};
static unsigned long long now_ns;
static unsigned long long posts;

int shim_own_file(char path[SHIM_PATH], const char *prefix, const char *kind, uint64_t bytes)
{
	(void)bytes;
	snprintf(path, SHIM_PATH, "%.255s%s.%d", prefix, kind, (int)getpid());
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
}

void shim_each(void (*visit)(struct shim_qp *))
{
	visit(&pair);
}

uint64_t shim_now_ns(void)
{
	return now_ns;
}

/* Posts and completions of several threads, each a microsecond after the one before. */
static void *post_and_poll(void *unused)
{
	for (unsigned long long index = 0; index < posts; index++) {
		shim_bins_posted(&pair, BYTES, 1, now_ns + index * 1000);
		shim_bins_completed(&pair, 1, now_ns + index * 1000 + 500);
	}
	return unused;
}

static int race(unsigned long long threads)
{
	pthread_t thread[MAX_THREADS];

	for (unsigned long long index = 0; index < threads && index < MAX_THREADS; index++)
		pthread_create(&thread[index], NULL, post_and_poll, NULL);
	for (unsigned long long index = 0; index < threads && index < MAX_THREADS; index++)
		pthread_join(thread[index], NULL);
	return 1;
}

static int done(const char *line)
{
	unsigned long long first, second, third;

	if (sscanf(line, "posted %llu %llu %llu", &first, &second, &third) == 3)
		shim_bins_posted(&pair, first, (int64_t)second, third);
	else if (sscanf(line, "completed %llu %llu", &first, &second) == 2)
		shim_bins_completed(&pair, (int64_t)first, second);
	else if (sscanf(line, "refused %llu %llu", &first, &second) == 2)
		shim_bins_refused(&pair, first, (int64_t)second);
	else if (sscanf(line, "race %llu %llu %llu", &first, &posts, &now_ns) == 3)
		return race(first);
	else if (sscanf(line, "settle %llu", &now_ns) == 1)
		shim_bins_settle();
	else if (sscanf(line, "open %llu", &first) == 1)
		shim_bins_open(&pair, (uint32_t)first);
	else if (!strcmp(line, "close\n"))
		shim_bins_close(&pair);
	else
		return 0;
	return 1;
}

int main(int argc, char **argv)
{
	char line[128];

	memcpy(counters.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x12\0\1", 16);
	if (argc < 2)
		return 2;
	shim_bins_make(argv[1], "job");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n")) {
		if (!done(line))
			return 3;
		puts("ok");
		fflush(stdout);
	}
	shim_bins_remove();
	return 0;
}
