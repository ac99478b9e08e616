/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphore.c asks of the operating system; tests put a simulated one in its place. */
#ifndef HOSTCC_PCIE_SEMAPHORE_OS_H
#define HOSTCC_PCIE_SEMAPHORE_OS_H

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HCC_POINT() ((void)0)

static inline uint64_t hcc_os_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline uint32_t hcc_os_pid(void)
{
	return (uint32_t)getpid();
}

/* 0 when it cannot be known; then nobody is ever called dead, and leases decide. */
static inline uint64_t hcc_os_pidns(void)
{
	struct stat facts;

	return stat("/proc/self/ns/pid", &facts) ? 0 : (uint64_t)facts.st_ino;
}

static inline int hcc_os_alive(uint32_t pid, uint64_t pidns)
{
	static _Atomic uint64_t ours;
	uint64_t known = atomic_load_explicit(&ours, memory_order_relaxed);

	if (!pid || pid > INT32_MAX)
		return 0;
	if (!known) {
		known = hcc_os_pidns();
		atomic_store_explicit(&ours, known, memory_order_relaxed);
	}
	return !known || pidns != known || !kill((pid_t)pid, 0) || errno != ESRCH;
}

static inline void hcc_os_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec limit = {
		.tv_sec = (time_t)(ns / 1000000000ull),
		.tv_nsec = (long)(ns % 1000000000ull),
	};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

static inline void hcc_os_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

#endif
