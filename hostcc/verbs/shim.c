// SPDX-License-Identifier: Apache-2.0
/*
 * The transport shim: LD_PRELOADed into a job by `hostcc run --rdma`.
 *
 * It interposes ibv_modify_qp, ibv_query_qp, ibv_destroy_qp and ibv_close_device.  Without an agent
 * every call passes unchanged, and the shim only records queue pairs.  When the agent's plan has
 * this job, new queue pairs get their path and class, existing ones are moved, and one thread keeps
 * them in line with the plan.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PLAN_PATH "/dev/shm/hostcc-rdma"
#define COUNTS_PREFIX "/dev/shm/hostcc-qp"
#define SEMAPHORES "/dev/shm/hostcc-pcie"
#define PLAN_POLL_NS 10000000l /* between two checks for a new plan */
#define MOVE_POLL_NS 500000l   /* the same while queue pairs drain */
#define POLLS_PER_REOPEN 50u /* of these, between two checks for another agent's plan */
#define ABSENT_POLL_NS 500000000l /* between two checks before the first agent */
#define EXPORT __attribute__((visibility("default")))

struct shim_real shim_real;
static struct hcc_rdma_counts unseen; /* counters before there is a file */
struct hcc_rdma_counts *_Atomic shim_counts = &unseen;

static struct hcc_plan_map plan;
static char job_name[HCC_RDMA_NAME], counts_path[SHIM_PATH], plan_path[256];
static char counts_prefix[256], semaphores_path[256]; /* of the environment at the start */
static pid_t counts_owner;
static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t resolved = PTHREAD_ONCE_INIT;
static _Atomic int following; /* 1: queue pairs are recorded, the thread runs; -1: never */
static _Atomic int attached;  /* 1: plan and counters are mapped */
static _Atomic int look;      /* the thread should check all queue pairs */

typedef void *(*dlvsym_function)(void *, const char *, const char *);

/* The C library's own; dlsym itself is not interposed. */
static dlvsym_function real_dlvsym(void)
{
	static _Atomic(dlvsym_function) known;
	dlvsym_function real = atomic_load_explicit(&known, memory_order_relaxed);

	if (!real) {
		real = (dlvsym_function)dlsym(RTLD_NEXT, "dlvsym");
		atomic_store_explicit(&known, real, memory_order_relaxed);
	}
	return real;
}

static void *symbol(void *library, const char *name, const char *version)
{
	return library && real_dlvsym() ? real_dlvsym()(library, name, version) : NULL;
}

static void resolve(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *mlx5 = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);

	shim_real.modify_qp = symbol(library, "ibv_modify_qp", "IBVERBS_1.1");
	shim_real.query_qp = symbol(library, "ibv_query_qp", "IBVERBS_1.1");
	shim_real.destroy_qp = symbol(library, "ibv_destroy_qp", "IBVERBS_1.1");
	shim_real.close_device = symbol(library, "ibv_close_device", "IBVERBS_1.1");
	shim_real.to_ex = library ? dlsym(library, "ibv_qp_to_qp_ex") : NULL;
	shim_real.modify_udp_sport = mlx5 ? dlsym(mlx5, "mlx5dv_modify_qp_udp_sport") : NULL;
}

uint64_t shim_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

int shim_alive(void)
{
	return atomic_load_explicit(&attached, memory_order_acquire) && hcc_plan_alive(&plan);
}

const struct hcc_rdma_job *shim_entry(void)
{
	return hcc_plan_entry(&plan, job_name);
}

uint32_t shim_generation(void)
{
	return atomic_load_explicit(&plan.plan->generation, memory_order_acquire);
}

uint64_t shim_long_bytes(void)
{
	const struct hcc_rdma_plan *there = plan.plan;

	return there ? atomic_load_explicit(&there->long_bytes, memory_order_relaxed) : 0;
}

int shim_job(struct hcc_rdma_job *job)
{
	return shim_alive() ? hcc_plan_read(&plan, job_name, job) : -1;
}

void shim_look_again(void)
{
	atomic_store_explicit(&look, 1, memory_order_release);
}

const char *shim_semaphores(void)
{
	return semaphores_path;
}

static int make_counts(void)
{
	struct hcc_rdma_counts *made = MAP_FAILED;
	char path[SHIM_PATH];
	int fd;

	fd = shim_own_file(path, counts_prefix, "", sizeof(*made));
	if (fd < 0)
		return -1;
	/* With its pages: in a full /dev/shm the job would die where it first writes to a hole. */
	if (!posix_fallocate(fd, 0, sizeof(*made)))
		made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (made == MAP_FAILED) {
		close(fd);
		unlink(path);
		return -1;
	}
	memcpy(counts_path, path, sizeof(path));
	counts_owner = getpid();
	made->version = HCC_RDMA_VERSION;
	made->pid = (uint32_t)getpid();
	memcpy(made->name, job_name, sizeof(job_name));
	shim_bins_make(counts_prefix, job_name);
	shim_count_in(made);
	atomic_thread_fence(memory_order_seq_cst);
	made->magic = HCC_RDMA_MAGIC;
	return 0;
}

/* Become active when an agent with a plan for us lives for the first time. */
static int attach(void)
{
	struct hcc_rdma_job job;

	if (atomic_load_explicit(&attached, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&once);
	if (plan.plan)
		hcc_plan_renew(plan_path, &plan);
	else
		hcc_plan_map(plan_path, &plan);
	if (!attached && hcc_plan_alive(&plan) && !hcc_plan_read(&plan, job_name, &job) &&
	    !make_counts()) {
		shim_gate_plan(&job);
		atomic_store_explicit(&attached, 1, memory_order_release);
	}
	pthread_mutex_unlock(&once);
	return attached ? 0 : -1;
}

/* A child of fork has neither the thread nor working queue pairs: the shim does nothing in it. */
static void forget(void)
{
	atomic_store(&following, -1);
	atomic_store(&attached, 0);
	shim_gate_plan(NULL);
	shim_burst_forget();
	shim_bins_forget();
	counts_path[0] = 0;
}

static void *watch(void *unused)
{
	const struct timespec usual = {.tv_nsec = PLAN_POLL_NS}, soon = {.tv_nsec = MOVE_POLL_NS};
	const struct timespec absent = {.tv_nsec = ABSENT_POLL_NS};
	struct hcc_rdma_job job;
	uint32_t seen = 0, looks = 0;
	int lived = 0, moving;

	(void)unused;
	while (attach())
		nanosleep(&absent, NULL);
	for (;;) {
		int lives = shim_alive();
		uint32_t generation = shim_generation();

		if (lives && (atomic_exchange(&look, 0) || generation != seen || !lived)) {
			if (!shim_job(&job)) {
				seen = generation;
				shim_gate_plan(&job);
				shim_move_all(&job);
			} else {
				shim_gate_plan(NULL); /* the plan has no entry for us any more */
			}
		} else if (lived && !lives) {
			shim_gate_plan(NULL);
		}
		if (!lives && ++looks % POLLS_PER_REOPEN == 0)
			hcc_plan_renew(plan_path, &plan);
		lived = lives;
		shim_burst_look();
		moving = shim_bring_back();
		shim_bins_settle();
		nanosleep(moving ? &soon : &usual, NULL);
	}
	return NULL;
}

static int start_thread(void)
{
	sigset_t all, before;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed)
		return -1;
	pthread_detach(thread);
	pthread_atfork(NULL, NULL, forget);
	return 0;
}

static void place(char to[256], const char *variable, const char *usual)
{
	const char *given = secure_getenv(variable);

	snprintf(to, 256, "%s", given && *given ? given : usual);
}

/* Whether this process belongs to a job; the first call starts recording queue pairs. */
static int follow(void)
{
	if (following)
		return following > 0;
	pthread_mutex_lock(&once);
	if (!following) {
		/* Empty for who has more rights than its caller: the names of files are the caller's. */
		const char *name = secure_getenv("HOSTCC_JOB");
		int ours = name && *name && strlen(name) < HCC_RDMA_NAME;

		if (ours) {
			/* Only here: the job may change its environment while our thread runs. */
			place(plan_path, "HOSTCC_RDMA_PLAN", PLAN_PATH);
			place(counts_prefix, "HOSTCC_RDMA_COUNTS", COUNTS_PREFIX);
			place(semaphores_path, "HOSTCC_PCIE_SEMAPHORES", SEMAPHORES);
			strcpy(job_name, name);
			shim_libraries_begin();
		}
		following = ours && !start_thread() ? 1 : -1;
	}
	pthread_mutex_unlock(&once);
	return following > 0;
}

int shim_plan_now(struct hcc_rdma_job *job)
{
	return attach() ? -1 : shim_job(job);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int before, error;

	pthread_once(&resolved, resolve);
	if (!shim_real.modify_qp)
		return ENOSYS;
	if (!shim_real.query_qp || !shim_real.destroy_qp || !follow())
		return shim_real.modify_qp(qp, attr, mask);
	/* We hold locks and open files: a thread that is cancelled there would keep them. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	error = shim_modify(qp, attr, mask, __builtin_return_address(0));
	pthread_setcancelstate(before, NULL);
	return error;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init)
{
	int before, error;

	pthread_once(&resolved, resolve);
	if (!shim_real.query_qp)
		return ENOSYS;
	if (following <= 0)
		return shim_real.query_qp(qp, attr, mask, init);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	error = shim_query(qp, attr, mask, init);
	pthread_setcancelstate(before, NULL);
	return error;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	int before, error;

	pthread_once(&resolved, resolve);
	if (!shim_real.destroy_qp)
		return ENOSYS;
	if (following <= 0)
		return shim_real.destroy_qp(qp);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	error = shim_destroy(qp);
	pthread_setcancelstate(before, NULL);
	return error;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	int before;

	pthread_once(&resolved, resolve);
	if (!shim_real.close_device) {
		errno = ENOSYS;
		return -1;
	}
	if (following > 0) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
		shim_close(context);
		pthread_setcancelstate(before, NULL);
	}
	return shim_real.close_device(context);
}

/* NCCL opens libibverbs itself and asks it for its functions by name and version. */
EXPORT void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version)
{
	dlvsym_function real = real_dlvsym();

	if (!real)
		return NULL;
	if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && !strncmp(name, "ibv_", 4)) {
		void *found = real(handle, name, version);

		if (found && !strcmp(name, "ibv_modify_qp"))
			return (void *)ibv_modify_qp;
		if (found && !strcmp(name, "ibv_query_qp"))
			return (void *)ibv_query_qp;
		if (found && !strcmp(name, "ibv_destroy_qp"))
			return (void *)ibv_destroy_qp;
		if (found && !strcmp(name, "ibv_close_device"))
			return (void *)ibv_close_device;
		return found;
	}
	return real(handle, name, version); /* a tail call: RTLD_NEXT sees who asked */
}

__attribute__((destructor)) static void leave(void)
{
	if (!*counts_path || counts_owner != getpid()) /* a child may be one that fork did not make */
		return;
	unlink(counts_path);
	shim_bins_remove();
}
