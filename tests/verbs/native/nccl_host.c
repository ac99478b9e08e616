// SPDX-License-Identifier: Apache-2.0
/*
 * Uses an NCCL environment plugin as NCCL 2.28 does: loads it, finds `ncclEnvPlugin_v1`, which
 * is a struct of a name and three functions, calls init, getEnv for each name, finalize.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
	const char *name;
	int (*init)(uint8_t, uint8_t, uint8_t, const char *);
	int (*finalize)(void);
	const char *(*getEnv)(const char *);
} ncclEnv_v1_t;

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	const ncclEnv_v1_t *plugin = library ? dlsym(library, "ncclEnvPlugin_v1") : NULL;

	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (plugin->init(2, 28, 3, ""))
		return 3;
	puts(plugin->name);
	for (int index = 2; index < argc; index++) {
		const char *first = plugin->getEnv(argv[index]);
		const char *again = plugin->getEnv(argv[index]);

		/* What was returned first stays valid until now. */
		if (!first != !again || (first && strcmp(first, again)))
			return 4;
		puts(first ? first : "(null)");
	}
	printf("%d\n", plugin->finalize());
	return 0;
}
