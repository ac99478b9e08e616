// SPDX-License-Identifier: Apache-2.0
/*
 * NCCL environment plugin (libnccl-env.so): NCCL_IB_TC of communicators that are made from
 * now on is the class that the agent's plan gives this job.
 *
 * The interface is NCCL's ncclEnv_v1_t (NCCL 2.28 and newer, plugins/env).  Every other
 * variable, and this one when the job has set it, no agent lives or the plan has no class,
 * comes from the environment, as without the plugin.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

#define PLAN_PATH "/dev/shm/hostcc-rdma"

typedef int nccl_result; /* ncclResult_t; 0 is ncclSuccess */

struct nccl_env_v1 {
	const char *name;
	nccl_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix);
	nccl_result (*finalize)(void);
	const char *(*get)(const char *name);
};

static struct hcc_plan_map map;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * NCCL keeps what it was given until it asks for the same name again or finalizes, and asks
 * from several threads: so texts are never changed, there is one for every class.
 */
static char texts[256][4];

static nccl_result init(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
	(void)major, (void)minor, (void)patch, (void)suffix;
	return 0;
}

static nccl_result finalize(void)
{
	return 0;
}

static const char *class_of_job(void)
{
	const char *path = getenv("HOSTCC_RDMA_PLAN"), *name = getenv("HOSTCC_JOB");
	const char *found = NULL;
	struct hcc_rdma_job job;

	if (!name || !*name || strlen(name) >= HCC_RDMA_NAME)
		return NULL;
	pthread_mutex_lock(&lock);
	path = path && *path ? path : PLAN_PATH;
	if (map.plan && !hcc_plan_alive(&map))
		hcc_plan_renew(path, &map); /* another agent may have made another plan */
	if ((map.plan || !hcc_plan_map(path, &map)) &&
	    hcc_plan_alive(&map) && !hcc_plan_read(&map, name, &job) &&
	    job.flags & HCC_RDMA_CLASS) {
		uint32_t index = job.traffic_class & 0xff;

		if (!*texts[index])
			snprintf(texts[index], sizeof(texts[index]), "%u", index);
		found = texts[index];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static const char *get(const char *name)
{
	const char *own = getenv(name), *ours;

	if (own || strcmp(name, "NCCL_IB_TC"))
		return own;
	ours = class_of_job();
	return ours ? ours : own;
}

__attribute__((visibility("default"))) struct nccl_env_v1 ncclEnvPlugin_v1 = {
	.name = "hostcc", .init = init, .finalize = finalize, .get = get};
