/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for libnvidia-ml.so.1 where there is no GPU: the NVML calls that hostcc makes,
 * answered from a text file (FAKE_NVML) of lines "key value", read anew at every call so
 * that a test can change the world.  Lists are comma-separated.  A missing key means
 * NOT_SUPPORTED; "fail.FUNCTION code" makes that function fail; "hang_ms" delays samples.
 *
 * Keys of device N: dN.cc 90, dN.cores, dN.sms, dN.clock, dN.maxclock (MHz), dN.gpm 1,
 * dN.metric.ID percent, dN.util percent, dN.procs pids, dN.use pid:percent,..., dN.mig 1;
 * of its MIG device M: dN.mM.gi, dN.mM.sms, dN.mM.ci_slices, dN.mM.gi_slices, dN.mM.procs,
 * and dN.giG.metric.ID.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7, MAX_METRICS = 512
};

typedef struct { unsigned long taken; int device, instance; } sample;
typedef struct { unsigned id; int ret; double value; void *names[3]; } metric;
typedef struct { unsigned version, count; sample *a, *b; metric metrics[MAX_METRICS]; } question;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } process;
typedef struct { unsigned pid; unsigned long long at; unsigned sm, mem, enc, dec; } use;

static int initialized, live_samples;
static unsigned long taken, inits;

static int find(char *out, size_t size, const char *format, ...)
{
	char key[128], line[512];
	va_list args;
	FILE *file = fopen(getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "/dev/null", "r");
	int found = 0;

	va_start(args, format);
	vsnprintf(key, sizeof(key), format, args);
	va_end(args);
	if (!file)
		return 0;
	while (!found && fgets(line, sizeof(line), file)) {
		char *space = strchr(line, ' ');

		if (!space)
			continue;
		*space = 0;
		if (strcmp(line, key))
			continue;
		space[1 + strcspn(space + 1, "\n")] = 0;
		snprintf(out, size, "%s", space + 1);
		found = 1;
	}
	fclose(file);
	return found;
}

/* What to return before anything else. */
static int refusal(const char *function)
{
	char text[64];

	if (find(text, sizeof(text), "fail.%s", function))
		return atoi(text);
	return initialized ? OK : UNINITIALIZED;
}

#define GUARD() do { int no = refusal(__func__); if (no) return no; } while (0)

static int device_of(void *handle, int *mig)
{
	long number = (long)handle;

	*mig = number >= 1000 ? (int)(number % 100) : -1;
	return (int)(number >= 1000 ? (number - 1000) / 100 : number - 1);
}

static int number(unsigned *out, void *handle, const char *name)
{
	char text[64];
	int mig, device = device_of(handle, &mig);
	int there = mig < 0 ? find(text, sizeof(text), "d%d.%s", device, name)
			    : find(text, sizeof(text), "d%d.m%d.%s", device, mig, name);

	if (!there)
		return NOT_SUPPORTED;
	*out = (unsigned)strtoul(text, NULL, 10);
	return OK;
}

int nvmlInitWithFlags(unsigned flags)
{
	char text[64];

	(void)flags;
	if (find(text, sizeof(text), "fail.nvmlInitWithFlags"))
		return atoi(text);
	initialized = 1;
	inits++;
	return OK;
}

int nvmlShutdown(void) { GUARD(); initialized = 0; return OK; }

/* Not in NVML: what the test asks about the library itself. */
unsigned long fake_inits(void) { return inits; }
int fake_live_samples(void) { return live_samples; }

int nvmlDeviceGetCount_v2(unsigned *count)
{
	char text[64];

	GUARD();
	*count = find(text, sizeof(text), "devices") ? (unsigned)atoi(text) : 0;
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	GUARD();
	*handle = (void *)(long)(index + 1);
	return OK;
}

int nvmlDeviceGetUUID(void *handle, char *out, unsigned size)
{
	int mig, device = device_of(handle, &mig);

	GUARD();
	if (mig < 0)
		snprintf(out, size, "GPU-%d", device);
	else
		snprintf(out, size, "MIG-%d-%d", device, mig);
	return OK;
}

int nvmlDeviceGetName(void *handle, char *out, unsigned size)
{
	(void)handle;
	GUARD();
	snprintf(out, size, "Stand-in");
	return OK;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor)
{
	unsigned both;
	int ret;

	GUARD();
	ret = number(&both, handle, "cc");
	if (ret)
		return ret;
	*major = (int)both / 10;
	*minor = (int)both % 10;
	return OK;
}

int nvmlDeviceGetNumGpuCores(void *handle, unsigned *out) { GUARD(); return number(out, handle, "cores"); }

int nvmlDeviceGetMaxClockInfo(void *handle, int type, unsigned *out)
{
	GUARD();
	return type == 1 ? number(out, handle, "maxclock") : INVALID;
}

int nvmlDeviceGetClockInfo(void *handle, int type, unsigned *out)
{
	GUARD();
	return type == 1 ? number(out, handle, "clock") : INVALID;
}

int nvmlDeviceGetAttributes_v2(void *handle, unsigned *out)
{
	int ret;

	GUARD();
	memset(out, 0, 40);
	ret = number(&out[0], handle, "sms");
	number(&out[6], handle, "gi_slices");
	number(&out[7], handle, "ci_slices");
	return ret;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *out)
{
	GUARD();
	out[1] = 0;
	return number(&out[0], handle, "util");
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *pending)
{
	int ret;

	GUARD();
	ret = number(now, handle, "mig");
	*pending = *now;
	return ret;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *out)
{
	(void)handle;
	GUARD();
	*out = 7;
	return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **out)
{
	int mig, device = device_of(handle, &mig);
	char text[64];

	GUARD();
	if (!find(text, sizeof(text), "d%d.m%u.gi", device, index))
		return NOT_FOUND;
	*out = (void *)(long)(1000 + 100 * device + index);
	return OK;
}

int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *out) { GUARD(); return number(out, handle, "gi"); }

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *out)
{
	char text[512];
	int mig, device = device_of(handle, &mig), there;
	unsigned n = 0;

	GUARD();
	there = mig < 0 ? find(text, sizeof(text), "d%d.procs", device)
			: find(text, sizeof(text), "d%d.m%d.procs", device, mig);
	for (char *word = there ? strtok(text, ",") : NULL; word; word = strtok(NULL, ",")) {
		if (out && n < *count) {
			memset(&out[n], 0, sizeof(*out));
			out[n].pid = (unsigned)atoi(word);
		}
		n++;
	}
	there = n > *count;
	*count = n;
	return there ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetProcessUtilization(void *handle, use *out, unsigned *count, unsigned long long since)
{
	static unsigned long long now = 1000000;
	char text[512];
	int mig, device = device_of(handle, &mig);
	unsigned n = 0;

	(void)since;
	GUARD();
	if (!find(text, sizeof(text), "d%d.use", device))
		return NOT_SUPPORTED;
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		if (out) {
			memset(&out[n], 0, sizeof(*out));
			sscanf(word, "%u:%u", &out[n].pid, &out[n].sm);
			out[n].at = now;
		}
		n++;
	}
	now += 1000;
	*count = n;
	return out ? OK : INSUFFICIENT_SIZE;
}

int nvmlGpmQueryDeviceSupport(void *handle, unsigned *out)
{
	GUARD();
	if (out[0] != 1)
		return 25;
	out[1] = 0;
	number(&out[1], handle, "gpm");
	return OK;
}

int nvmlGpmSampleAlloc(sample **out)
{
	GUARD();
	*out = calloc(1, sizeof(sample));
	live_samples++;
	return OK;
}

int nvmlGpmSampleFree(sample *one)
{
	GUARD();
	free(one);
	live_samples--;
	return OK;
}

static int take(void *handle, int instance, sample *out)
{
	char text[64];
	int mig;

	if (find(text, sizeof(text), "hang_ms"))
		usleep((unsigned)atoi(text) * 1000);
	out->device = device_of(handle, &mig);
	out->instance = instance;
	out->taken = ++taken;
	return OK;
}

int nvmlGpmSampleGet(void *handle, sample *out) { GUARD(); return take(handle, -1, out); }

int nvmlGpmMigSampleGet(void *handle, unsigned instance, sample *out)
{
	GUARD();
	return take(handle, (int)instance, out);
}

int nvmlGpmMetricsGet(question *q)
{
	char text[64];

	GUARD();
	if (q->version != 1)
		return 25;
	/* The older sample comes first, and both are of one GPU or instance. */
	if (q->a->taken >= q->b->taken || q->a->device != q->b->device || q->a->instance != q->b->instance)
		return INVALID;
	for (unsigned i = 0; i < q->count; i++) {
		metric *m = &q->metrics[i];
		int there = q->b->instance < 0
			? find(text, sizeof(text), "d%d.metric.%u", q->b->device, m->id)
			: find(text, sizeof(text), "d%d.gi%d.metric.%u", q->b->device, q->b->instance, m->id);

		m->ret = there ? OK : NOT_SUPPORTED;
		m->value = there ? strtod(text, NULL) : 0;
	}
	return OK;
}
