/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's interface of environment plugins, versions 1 and 2, and the plugin behind ours. */
#ifndef HOSTCC_VERBS_NCCL_ENV_H
#define HOSTCC_VERBS_NCCL_ENV_H

#include <stdint.h>

typedef int nccl_result; /* ncclResult_t; 0 is ncclSuccess */

enum { NCCL_WARN = 2, NCCL_INFO = 3 };       /* ncclDebugLogLevel */
enum { NCCL_INIT = 0x1, NCCL_ENV = 0x80 };   /* ncclDebugLogSubSys */
typedef void (*nccl_log)(int level, unsigned long flags, const char *file, int line,
			 const char *format, ...);

struct nccl_env_v1 {
	const char *name;
	nccl_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix);
	nccl_result (*finalize)(void);
	const char *(*get)(const char *name);
};

struct nccl_env_v2 {
	const char *name;
	nccl_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
			    nccl_log log);
	nccl_result (*finalize)(void);
	const char *(*get)(const char *name);
};

extern struct nccl_env_v1 ncclEnvPlugin_v1;
extern struct nccl_env_v2 ncclEnvPlugin_v2;

/* The NCCL that loads us; `log` is NULL where it has version 1. */
struct nccl_host {
	uint8_t major, minor, patch;
	const char *suffix;
	nccl_log log;
};

/* nccl_env.c */
void nccl_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* nccl_next.c: the environment plugin that the job would have without us. */
void nccl_next_open(const struct nccl_host *host);
const char *nccl_next_get(const char *name); /* without one: the environment's */
nccl_result nccl_next_close(void);

#endif
