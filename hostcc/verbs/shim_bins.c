// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of each queue pair over time, for the agent's profiles.
 *
 * A post says when sending begins, a completion when it has ended: bytes are spread evenly over
 * the time between, or since the completion before.  Of sends without completions the posts alone
 * are known.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define RING_BYTES (HCC_RDMA_RING * sizeof(uint64_t))
#define FILE_BYTES (HCC_RDMA_RINGS_AT + HCC_RDMA_QPS * RING_BYTES)
#define BIN_NS (1ull << HCC_RDMA_BIN_SHIFT)
#define USUAL_DEPTH 32768 /* where a device does not say how many sends a queue takes */

static struct hcc_rdma_bins *_Atomic file; /* NULL: there is none */
static char path[SHIM_PATH];
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t used[HCC_RDMA_QPS]; /* rows that queue pairs have now */

void shim_bins_make(const char *counts_prefix, const char *job)
{
	struct hcc_rdma_bins *made = MAP_FAILED;
	int fd;

	fd = shim_own_file(path, counts_prefix, "-bins", FILE_BYTES);
	if (fd < 0) {
		*path = 0;
		return;
	}
	/* Rows with their pages, rings without: a queue pair's come when it does. */
	if (!ftruncate(fd, FILE_BYTES) && !posix_fallocate(fd, 0, HCC_RDMA_RINGS_AT))
		made = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (made == MAP_FAILED) {
		close(fd);
		shim_bins_remove();
		return;
	}
	made->version = HCC_RDMA_BINS_VERSION;
	made->pid = (uint32_t)getpid();
	memcpy(made->name, job, strnlen(job, HCC_RDMA_NAME - 1));
	atomic_thread_fence(memory_order_seq_cst);
	made->magic = HCC_RDMA_BINS_MAGIC;
	atomic_store(&file, made);
}

void shim_bins_remove(void)
{
	if (*path)
		unlink(path);
	*path = 0;
}

void shim_bins_forget(void)
{
	atomic_store(&file, NULL); /* no lock: another thread may have had it */
	*path = 0;
}

/* Whether a ring has its pages: who writes to one that a full /dev/shm has no room for dies. */
static int has_pages(uint8_t *ring)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = (uintptr_t)ring / page * page;
	uintptr_t end = ((uintptr_t)ring + RING_BYTES + page - 1) / page * page;

	return !madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

void shim_bins_open(struct shim_qp *one, uint32_t depth)
{
	struct hcc_rdma_bins *bins = atomic_load(&file);
	struct shim_series *self = &one->series;
	struct hcc_rdma_series *row = NULL;
	uint8_t *ring = NULL;
	int saved = errno;

	if (!bins)
		return;
	pthread_mutex_lock(&rows_lock);
	for (uint32_t index = 0; !row && index < HCC_RDMA_QPS; index++) {
		if (used[index])
			continue;
		ring = (uint8_t *)bins + HCC_RDMA_RINGS_AT + index * RING_BYTES;
		if (!has_pages(ring))
			break;
		used[index] = 1;
		row = &bins->row[index];
		if (index >= atomic_load(&bins->rows))
			atomic_store(&bins->rows, index + 1);
	}
	if (!row)
		atomic_fetch_add(&bins->left_out, 1);
	pthread_mutex_unlock(&rows_lock);
	errno = saved;
	if (!row)
		return;
	/* What an earlier queue pair has left in the ring stays: it may not have been read. */
	row->qpn = one->count->qpn;
	row->source = one->count->source;
	memcpy(row->dgid, one->count->dgid, sizeof(row->dgid));
	memcpy(row->device, one->count->device, sizeof(row->device));
	pthread_mutex_lock(&self->lock);
	self->bytes = self->from = self->to = self->posted = 0;
	self->signalled = 0;
	self->depth = depth ? depth : USUAL_DEPTH;
	self->blind = 0;
	self->ring = (_Atomic uint64_t *)ring;
	self->row = row;
	pthread_mutex_unlock(&self->lock);
}

/* Empty the bins up to this one, which those of a turn of the ring ago were. */
static void advance(const struct shim_series *self, uint64_t last)
{
	uint64_t newest = atomic_load_explicit(&self->row->newest, memory_order_relaxed);
	uint64_t bin = last - newest < HCC_RDMA_RING ? newest + 1 : last - HCC_RDMA_RING + 1;

	if (last <= newest)
		return;
	for (; bin <= last; bin++)
		atomic_store_explicit(&self->ring[bin % HCC_RDMA_RING], 0, memory_order_relaxed);
	atomic_store_explicit(&self->row->newest, last, memory_order_release);
}

static void add(const struct shim_series *self, uint64_t bin, uint64_t bytes)
{
	_Atomic uint64_t *place = &self->ring[bin % HCC_RDMA_RING];
	uint64_t before = atomic_load_explicit(place, memory_order_relaxed);

	atomic_store_explicit(place, before + bytes, memory_order_relaxed);
}

/* Bytes that were sent evenly between two moments. */
static void put(const struct shim_series *self, uint64_t bytes, uint64_t from, uint64_t to)
{
	uint64_t last = to >> HCC_RDMA_BIN_SHIFT, edge, share;

	advance(self, last);
	if (from > to)
		from = to;
	if (to - from > HCC_RDMA_LATE * BIN_NS)
		from = to - HCC_RDMA_LATE * BIN_NS;
	for (uint64_t bin = from >> HCC_RDMA_BIN_SHIFT; bin < last; bin++, from = edge) {
		edge = (bin + 1) << HCC_RDMA_BIN_SHIFT;
		share = (uint64_t)((double)bytes * (double)(edge - from) / (double)(to - from));
		if (share > bytes)
			share = bytes;
		add(self, bin, share);
		bytes -= share;
	}
	add(self, last, bytes);
}

/* All that waits has been sent between two moments. */
static void put_all(struct shim_series *self, uint64_t from, uint64_t to)
{
	if (self->bytes)
		put(self, self->bytes, from, to);
	self->bytes = 0;
}

static void tell_open(struct shim_qp *one)
{
	const struct shim_series *self = &one->series;
	uint64_t since = !self->bytes ? 0 : self->to ? self->to : self->from;

	atomic_store_explicit(&self->row->open_ns, since, memory_order_relaxed);
	atomic_store_explicit(&one->count->open_ns, since, memory_order_relaxed);
}

/* The series, locked, of a queue pair that has one; else NULL. */
static struct shim_series *locked(struct shim_qp *one)
{
	struct shim_series *self = &one->series;

	if (!atomic_load_explicit(&file, memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(&self->lock);
	if (self->row)
		return self;
	pthread_mutex_unlock(&self->lock);
	return NULL;
}

void shim_bins_close(struct shim_qp *one)
{
	struct shim_series *self = locked(one);
	struct hcc_rdma_bins *bins = atomic_load(&file);

	if (!self)
		return;
	put_all(self, self->to ? self->to : self->from, self->posted);
	tell_open(one);
	pthread_mutex_lock(&rows_lock);
	used[self->row - bins->row] = 0;
	pthread_mutex_unlock(&rows_lock);
	self->row = NULL;
	pthread_mutex_unlock(&self->lock);
}

/* What no completion will come of was sent by its last post; nothing will say more. */
static void settle(struct shim_series *self, uint64_t now)
{
	if (self->bytes && !self->signalled && now > self->posted + BIN_NS)
		put_all(self, self->to ? self->to : self->from, self->posted);
}

static void settle_one(struct shim_qp *one)
{
	struct shim_series *self = locked(one);

	if (!self)
		return;
	settle(self, shim_now_ns());
	tell_open(one);
	pthread_mutex_unlock(&self->lock);
}

void shim_bins_settle(void)
{
	shim_each(settle_one);
}

void shim_bins_posted(struct shim_qp *one, uint64_t bytes, int64_t signalled, uint64_t now)
{
	struct shim_series *self = locked(one);

	if (!self)
		return;
	settle(self, now);
	if (!self->bytes && !self->signalled) {
		self->from = now;
		self->to = 0;
	}
	self->bytes += bytes;
	self->signalled += signalled;
	self->posted = now;
	if (self->signalled > self->depth) /* more than there can be */
		self->blind = 1;
	if (self->blind) {
		put_all(self, self->from, now);
		self->from = now;
		self->to = self->signalled = 0;
	}
	tell_open(one);
	pthread_mutex_unlock(&self->lock);
}

void shim_bins_refused(struct shim_qp *one, uint64_t bytes, int64_t signalled)
{
	struct shim_series *self = locked(one);

	if (!self)
		return;
	self->bytes -= bytes < self->bytes ? bytes : self->bytes;
	self->signalled -= signalled < self->signalled ? signalled : self->signalled;
	tell_open(one);
	pthread_mutex_unlock(&self->lock);
}

/* Count messages and the time that they took, where the last completion came before `now`. */
static void tell_time(struct shim_qp *one, int64_t count, uint64_t now)
{
	const struct shim_series *self = &one->series;
	struct hcc_rdma_count *to = one->count;

	atomic_fetch_add_explicit(&to->completed, (uint64_t)count, memory_order_relaxed);
	if (now > self->to && now > self->from)
		atomic_fetch_add_explicit(&to->busy_ns, now - self->from, memory_order_relaxed);
}

void shim_bins_completed(struct shim_qp *one, int64_t count, uint64_t now)
{
	struct shim_series *self = locked(one);
	uint64_t share;

	if (!self)
		return;
	if (count < self->signalled) /* each as large as the others on their way */
		share = self->bytes / (uint64_t)self->signalled * (uint64_t)count;
	else
		share = self->bytes;
	if (self->to && now > self->to) /* else they came in together */
		self->from = self->to;
	tell_time(one, count, now);
	self->to = now;
	if (share)
		put(self, share, self->from, now);
	self->bytes -= share;
	self->signalled = count < self->signalled ? self->signalled - count : 0;
	tell_open(one);
	pthread_mutex_unlock(&self->lock);
}
