// SPDX-License-Identifier: Apache-2.0
/*
 * The environment plugin behind ours: NCCL loads one, so ours loads the job's own, found as
 * NCCL finds it.  HOSTCC_NCCL_ENV_PLUGIN names it; without that NCCL's default is tried, as
 * NCCL would have.  What does not load or start is left out, and a line says so.
 */
#define _GNU_SOURCE
#include "nccl_env.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NEXT_VARIABLE "HOSTCC_NCCL_ENV_PLUGIN"
#define DEFAULT_FILE "libnccl-env.so"
#define NAME_BYTES 255 /* NCCL's bound */

static struct {
	void *library;
	const char *(*get)(const char *name);
	nccl_result (*finalize)(void);
} next;

/* For a plugin of version 2 in an NCCL that has no logging function to give. */
static void silent(int level, unsigned long flags, const char *file, int line,
		   const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

/* The library of that name, file or path. */
static void *opened(const char *name)
{
	char file[NAME_BYTES + 1];
	void *library;

	if (!strcasecmp(name, "STATIC_PLUGIN"))
		return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library || strchr(name, '/'))
		return library;
	snprintf(file, sizeof(file), "libnccl-env-%.200s.so", name);
	return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

/* 0, or -1: it is none that we know, or does not start. */
static int start(void *library, const struct nccl_host *host)
{
	struct nccl_env_v2 *second = dlsym(library, "ncclEnvPlugin_v2");
	struct nccl_env_v1 *first = dlsym(library, "ncclEnvPlugin_v1");
	const char *name;
	nccl_result result;

	/* By a link of that name, or STATIC_PLUGIN: we would be our own successor. */
	if (second == &ncclEnvPlugin_v2 || first == &ncclEnvPlugin_v1)
		return -1;
	if (second && second->init && second->get) {
		result = second->init(host->major, host->minor, host->patch, host->suffix,
				      host->log ? host->log : silent);
		name = second->name;
		next.get = second->get;
		next.finalize = second->finalize;
	} else if (first && first->init && first->get) {
		result = first->init(host->major, host->minor, host->patch, host->suffix);
		name = first->name;
		next.get = first->get;
		next.finalize = first->finalize;
	} else {
		nccl_say(NCCL_WARN, "hostcc: the job's environment plugin has no version that "
				    "hostcc knows, and is left out");
		return -1;
	}
	if (result) {
		next.get = NULL;
		next.finalize = NULL;
		nccl_say(NCCL_WARN, "hostcc: the job's environment plugin %.80s does not start "
				    "(%d), and is left out", name ? name : "-", result);
		return -1;
	}
	nccl_say(NCCL_INFO, "hostcc: other variables come from the job's environment plugin %.80s",
		 name ? name : "-");
	return 0;
}

void nccl_next_open(const struct nccl_host *host)
{
	const char *name = getenv(NEXT_VARIABLE);
	int asked = name && *name;

	if (next.library || (asked && !strcasecmp(name, "none")))
		return;
	next.library = opened(asked ? name : DEFAULT_FILE);
	if (!next.library) {
		const char *why = dlerror();

		if (asked)
			nccl_say(NCCL_WARN, "hostcc: " NEXT_VARIABLE "=%.120s does not load: %.160s",
				 name, why ? why : "-");
		return;
	}
	if (start(next.library, host)) {
		dlclose(next.library);
		next.library = NULL;
	}
}

const char *nccl_next_get(const char *name)
{
	return next.get ? next.get(name) : getenv(name);
}

nccl_result nccl_next_close(void)
{
	nccl_result result = next.finalize ? next.finalize() : 0;

	next.get = NULL;
	next.finalize = NULL;
	if (next.library)
		dlclose(next.library);
	next.library = NULL;
	return result;
}
