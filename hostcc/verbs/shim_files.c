// SPDX-License-Identifier: Apache-2.0
/*
 * Files that a process of a job makes for the agent to read: how they are named, and how the agent
 * knows whose they are.
 *
 * A process number says nothing outside of its PID namespace.  So a file is locked for as long as
 * its process lives, and the kernel tells whoever asks the number of the one that has the lock, as
 * the asker's own namespace counts.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "semaphore_os.h"

#define FIRST_PID_NAMESPACE 0xeffffffcu /* inode of the host's, the same in all kernels */
#define KEPT_FD 256 /* lowest number of a descriptor that stays open, out of the job's way */

int shim_own_file(char path[SHIM_PATH], const char *prefix, const char *kind, uint64_t bytes)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	const struct flock ours = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	const unsigned space = (unsigned)hcc_os_pidns();
	const int pid = (int)getpid();
	struct rlimit most;
	int fd, high;

	/* Who makes a file longer than it may is killed. */
	if (getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur < bytes)
		return -1;
	if (!space || space == FIRST_PID_NAMESPACE)
		snprintf(path, SHIM_PATH, "%.255s%s.%d", prefix, kind, pid);
	else /* pods have equal numbers */
		snprintf(path, SHIM_PATH, "%.255s%s.%u-%d", prefix, kind, space, pid);
	/* Nobody else's, who could lock it first; the agent reads everything. */
	fd = open(path, flags, 0600);
	if (fd < 0 && errno == EEXIST && !unlink(path)) /* an earlier program's */
		fd = open(path, flags, 0600);
	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FD);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	fcntl(fd, F_SETLK, &ours);
	return fd;
}
