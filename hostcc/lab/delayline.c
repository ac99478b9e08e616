// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A delay line: every packet that the kernel routes into a TUN device comes back out of it
 * DELAY microseconds later, in order.  For kernels without netem.
 *
 *     delayline DEVICE DELAY_US
 *
 * Runs until killed; on SIGTERM it prints how late it was: packets, mean, p99, max (us).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { SLOT_BYTES = 9216, SLOTS = 4096, LATE_BINS = 10000 };

struct slot {
	int64_t due_ns;
	int len;
	unsigned char data[SLOT_BYTES];
};

static struct slot *ring;
static unsigned int head, tail; /* oldest, next free */
static uint64_t late_bins[LATE_BINS];
static uint64_t packets, late_sum_us;
static volatile sig_atomic_t stop;

static void on_term(int number)
{
	(void)number;
	stop = 1;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static int open_tun(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -1;
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(fd, TUNSETIFF, &request)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Write out what is due; a packet that the kernel refuses is lost, as on a wire. */
static void release(int fd, int64_t now)
{
	while (head != tail) {
		struct slot *slot = &ring[head % SLOTS];
		int64_t late_us = (now - slot->due_ns) / 1000;

		if (slot->due_ns > now)
			return;
		if (write(fd, slot->data, slot->len) < 0 && errno == EINTR)
			continue;
		head++;
		packets++;
		late_sum_us += late_us;
		late_bins[late_us < LATE_BINS ? late_us : LATE_BINS - 1]++;
	}
}

static void report(void)
{
	uint64_t seen = 0;
	int p99 = 0, max = 0;

	for (int us = 0; us < LATE_BINS; us++) {
		if (late_bins[us])
			max = us;
		if (seen * 100 < packets * 99)
			p99 = us;
		seen += late_bins[us];
	}
	printf("packets %llu late_us mean %.1f p99 %d max %d\n", (unsigned long long)packets,
	       packets ? (double)late_sum_us / packets : 0.0, p99, max);
}

int main(int argc, char **argv)
{
	struct sched_param priority = { .sched_priority = 10 };
	struct sigaction action = { .sa_handler = on_term };
	int64_t delay_ns;
	int fd;

	if (argc != 3)
		return 2;
	delay_ns = atoll(argv[2]) * 1000;
	ring = calloc(SLOTS, sizeof(*ring));
	fd = open_tun(argv[1]);
	if (!ring || fd < 0) {
		perror("delayline");
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	sched_setscheduler(0, SCHED_FIFO, &priority);
	prctl(PR_SET_TIMERSLACK, 1UL);
	puts("ready");
	fflush(stdout);
	while (!stop) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		struct timespec wait;
		int64_t left;

		release(fd, now_ns());
		/* A full ring leaves packets in the device's own queue. */
		while (tail - head < SLOTS) {
			struct slot *slot = &ring[tail % SLOTS];
			int len = read(fd, slot->data, SLOT_BYTES);

			if (len <= 0)
				break;
			slot->len = len;
			slot->due_ns = now_ns() + delay_ns;
			tail++;
		}
		if (head == tail) {
			ppoll(&poll_fd, 1, NULL, NULL);
			continue;
		}
		left = ring[head % SLOTS].due_ns - now_ns();
		if (left <= 0)
			continue;
		wait.tv_sec = left / 1000000000LL;
		wait.tv_nsec = left % 1000000000LL;
		if (tail - head == SLOTS)
			poll_fd.events = 0;
		ppoll(&poll_fd, 1, &wait, NULL);
	}
	report();
	return 0;
}
