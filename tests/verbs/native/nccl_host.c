// SPDX-License-Identifier: Apache-2.0
/*
 * Uses an NCCL environment plugin as NCCL does: PLUGIN VERSION NAME...  loads it, finds
 * `ncclEnvPlugin_v2` (NCCL 2.30.7) or, where it has no other, `ncclEnvPlugin_v1`, calls init,
 * getEnv for each name from the thread and from another one, finalize.  An NCCL of version 1
 * does not look for the other symbol.  Lines that the plugin logs begin with the level.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void (*logger)(int, unsigned long, const char *, int, const char *, ...);
typedef struct {
	const char *name;
	int (*init)(uint8_t, uint8_t, uint8_t, const char *);
	int (*finalize)(void);
	const char *(*getEnv)(const char *);
} ncclEnv_v1_t;
typedef struct {
	const char *name;
	int (*init)(uint8_t, uint8_t, uint8_t, const char *, logger);
	int (*finalize)(void);
	const char *(*getEnv)(const char *);
} ncclEnv_v2_t;

static const char *(*get)(const char *);

static void log_line(int level, unsigned long flags, const char *file, int line,
		     const char *format, ...)
{
	va_list words;

	/* NCCL shows by default what is of INIT (1) or ENV (0x80). */
	if (!(flags & 0x81) || !file || line < 1)
		return;
	printf("%d ", level);
	va_start(words, format);
	vprintf(format, words);
	va_end(words);
	puts("");
}

static void *get_again(void *name)
{
	return (void *)get(name);
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	const ncclEnv_v2_t *second = NULL;
	const ncclEnv_v1_t *first = NULL;

	if (library && *argv[2] == '2')
		second = dlsym(library, "ncclEnvPlugin_v2");
	if (library && !second)
		first = dlsym(library, "ncclEnvPlugin_v1");
	if (!first && !second) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (second ? second->init(2, 30, 7, "", log_line) : first->init(2, 28, 9, ""))
		return 3;
	get = second ? second->getEnv : first->getEnv;
	puts(second ? second->name : first->name);
	for (int index = 3; index < argc; index++) {
		const char *value = get(argv[index]);
		pthread_t thread;
		void *again;

		if (pthread_create(&thread, NULL, get_again, argv[index]) ||
		    pthread_join(thread, &again))
			return 5;
		/* What was returned first stays valid until now. */
		if (!value != !again || (value && strcmp(value, again)))
			return 4;
		puts(value ? value : "(null)");
	}
	printf("%d\n", second ? second->finalize() : first->finalize());
	return 0;
}
