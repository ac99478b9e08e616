// SPDX-License-Identifier: Apache-2.0
/* Another environment plugin of NCCL's, of version VERSION; it fails to start where FAILS is set. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*logger)(int, unsigned long, const char *, int, const char *, ...);

static int finalize(void)
{
	puts("other: finalized");
	fflush(stdout);
	return 7;
}

static const char *get(const char *name)
{
	if (!strcmp(name, "NCCL_DEBUG"))
		return "OTHER";
	if (!strcmp(name, "NCCL_IB_TC"))
		return getenv("OTHER_TC");
	return NULL;
}

#if VERSION == 1
static int init(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
	(void)major, (void)minor, (void)patch, (void)suffix;
	return getenv("FAILS") ? 3 : 0;
}

struct {
	const char *name;
	int (*init)(uint8_t, uint8_t, uint8_t, const char *);
	int (*finalize)(void);
	const char *(*get)(const char *);
} ncclEnvPlugin_v1 = {"other", init, finalize, get};
#elif VERSION == 2
static int init(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix, logger log)
{
	(void)major, (void)minor, (void)patch, (void)suffix;
	log(3, 1, __FILE__, __LINE__, "other: %s", "started");
	return getenv("FAILS") ? 3 : 0;
}

struct {
	const char *name;
	int (*init)(uint8_t, uint8_t, uint8_t, const char *, logger);
	int (*finalize)(void);
	const char *(*get)(const char *);
} ncclEnvPlugin_v2 = {"other", init, finalize, get};
#endif
