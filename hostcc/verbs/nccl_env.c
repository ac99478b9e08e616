// SPDX-License-Identifier: Apache-2.0
/*
 * NCCL environment plugin (libnccl-env-hostcc.so): NCCL_IB_TC of communicators that are made
 * from now on is the class that the agent's plan gives this job; docs/nccl.md describes it.
 *
 * The interfaces are NCCL's ncclEnv_v1_t (2.28.9 and newer) and ncclEnv_v2_t (2.30.7 and newer,
 * which also gives the function that logs).  Every other variable, and this one when the job
 * has set it, no agent lives, the plan has no class or the transport shim gives it, comes from the
 * plugin that the job has besides (nccl_next.c), else from the environment.
 */
#define _GNU_SOURCE
#include "nccl_env.h"

#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan.h"

#define PLAN_PATH "/dev/shm/hostcc-rdma"
#define SHIM_NAME "/libhostcc-rdma.so"
#define CLASS_NAME "NCCL_IB_TC"
#define LINE_BYTES 400 /* NCCL cuts a line at a thousand */

static struct hcc_plan_map map;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* not held while we call anybody */
static nccl_log log_of_host;
/*
 * NCCL keeps what it was given until it asks for the same name again or finalizes, and asks
 * from several threads: so texts are never changed, there is one for every class.
 */
static char texts[256][4];
static char said[LINE_BYTES]; /* the last line */

/* NCCL's own settings decide whether a line is shown; version 1 has no logging function. */
static void say(int level, const char *line)
{
	const char *wanted = getenv("NCCL_DEBUG");

	if (log_of_host)
		log_of_host(level, NCCL_INIT | NCCL_ENV, __FILE__, __LINE__, "%s", line);
	else if (wanted && (!strcasecmp(wanted, "INFO") || !strcasecmp(wanted, "TRACE") ||
			    (level == NCCL_WARN && !strcasecmp(wanted, "WARN"))))
		fprintf(stderr, "%s\n", line);
}

void nccl_say(int level, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list words;

	va_start(words, format);
	vsnprintf(line, sizeof(line), format, words);
	va_end(words);
	say(level, line);
}

static int is_shim(struct dl_phdr_info *library, size_t size, void *data)
{
	const char *end = library->dlpi_name ? strrchr(library->dlpi_name, '/') : NULL;

	(void)size, (void)data;
	return end && !strcmp(end, SHIM_NAME);
}

/* Who chooses the source ports of this process' queue pairs, in words. */
static void ports_in_words(const struct hcc_rdma_job *job, char *words, size_t size)
{
	const struct hcc_rdma_path *first = NULL;
	uint32_t destinations = 0;
	size_t length;

	for (uint32_t index = 0; index < job->paths; index++) {
		if (!job->path[index].count)
			continue;
		first = first ? first : &job->path[index];
		destinations++;
	}
	if (!first) {
		snprintf(words, size, "UDP source ports are the NIC's: the plan has none");
	} else if (!dl_iterate_phdr(is_shim, NULL)) {
		snprintf(words, size, "UDP source ports are the NIC's: libhostcc-rdma.so is not "
				      "loaded");
	} else {
		length = (size_t)snprintf(words, size, "UDP source port");
		for (uint32_t index = 0; index < first->count; index++)
			length += (size_t)snprintf(words + length, size - length, "%s%u",
						   index ? "," : " ", first->ports[index]);
		snprintf(words + length, size - length,
			 " by libhostcc-rdma.so: the planned path to the first of %u destination%s",
			 destinations, destinations == 1 ? "" : "s");
	}
}

/* The class of the job's plan; NULL: none, and why is in `reason`. */
static const char *class_of_job(const char **reason, struct hcc_rdma_job *job)
{
	const char *path = getenv("HOSTCC_RDMA_PLAN"), *name = getenv("HOSTCC_JOB");

	if (!name || !*name || strlen(name) >= HCC_RDMA_NAME) {
		*reason = "HOSTCC_JOB names no job";
		return NULL;
	}
	path = path && *path ? path : PLAN_PATH;
	if (map.plan && !hcc_plan_alive(&map))
		hcc_plan_renew(path, &map); /* another agent may have made another plan */
	if ((!map.plan && hcc_plan_map(path, &map)) || !hcc_plan_alive(&map)) {
		*reason = "no agent publishes a plan";
	} else if (hcc_plan_read(&map, name, job)) {
		*reason = "the agent's plan does not have the job";
	} else if (!(job->flags & HCC_RDMA_CLASS)) {
		*reason = "the agent's plan gives no class (rdma.dscp)";
	} else if (dl_iterate_phdr(is_shim, NULL)) {
		/* It takes one of NCCL's for the job's choice, which it keeps. */
		*reason = "libhostcc-rdma.so gives the plan's class";
	} else {
		uint32_t index = job->traffic_class & 0xff;

		if (!*texts[index])
			snprintf(texts[index], sizeof(texts[index]), "%u", index);
		*reason = "by the agent's plan";
		return texts[index];
	}
	return NULL;
}

/* What NCCL_IB_TC is; a line says so, when it is not what the last line says. */
static const char *answer(const char *own)
{
	char line[LINE_BYTES], ports[LINE_BYTES / 2];
	struct hcc_rdma_job job = {.flags = 0};
	const char *reason = NULL, *found, *name = getenv("HOSTCC_JOB");
	int news;

	pthread_mutex_lock(&lock);
	found = class_of_job(&reason, &job);
	ports_in_words(&job, ports, sizeof(ports));
	if (own)
		found = own, reason = "as the job has set it";
	snprintf(line, sizeof(line), "hostcc: job %.72s: " CLASS_NAME " %.16s %s; %s",
		 name && *name ? name : "-", found ? found : "not set:", reason, ports);
	news = strcmp(line, said);
	if (news)
		memcpy(said, line, sizeof(said));
	pthread_mutex_unlock(&lock);
	if (news)
		say(NCCL_INFO, line);
	return found;
}

static const char *get(const char *name)
{
	const char *own = nccl_next_get(name);

	return strcmp(name, CLASS_NAME) ? own : answer(own);
}

static nccl_result init_v2(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
			   nccl_log log)
{
	const struct nccl_host host = {major, minor, patch, suffix, log};

	log_of_host = log;
	nccl_next_open(&host);
	get(CLASS_NAME);
	return 0;
}

static nccl_result init_v1(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
	return init_v2(major, minor, patch, suffix, NULL);
}

static nccl_result finalize(void)
{
	log_of_host = NULL;
	return nccl_next_close();
}

__attribute__((visibility("default"))) struct nccl_env_v1 ncclEnvPlugin_v1 = {
	.name = "hostcc", .init = init_v1, .finalize = finalize, .get = get};
__attribute__((visibility("default"))) struct nccl_env_v2 ncclEnvPlugin_v2 = {
	.name = "hostcc", .init = init_v2, .finalize = finalize, .get = get};
