/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shim_gate.c and shim_turn.c have of other sources, in place of these: one queue pair, and a
 * semaphore whose link is never free.  To be included after both, by one program each.
 */
#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

/* What other sources have. */
struct shim_real shim_real;
static struct hcc_rdma_counts counts;
struct hcc_rdma_counts *_Atomic shim_counts = &counts;
static struct hcc_rdma_count count;
static struct shim_qp pair = {.count = &count};

struct shim_qp *shim_find(const struct ibv_qp *qp)
{
	(void)qp;
	return &pair;
}

struct shim_qp *shim_find_number(const struct ibv_context *context, uint32_t number)
{
	(void)context, (void)number;
	return &pair;
}

void shim_each(void (*visit)(struct shim_qp *))
{
	visit(&pair);
}

int shim_alive(void)
{
	return 1;
}

uint64_t shim_long_bytes(void)
{
	return LONG_BYTES;
}

void shim_look_again(void)
{
}

const char *shim_semaphores(void)
{
	return "/nowhere";
}

struct shim_device *shim_device_find(const struct ibv_context *context)
{
	(void)context;
	return NULL;
}

int shim_device_hook(struct ibv_context *context, shim_post post, shim_poll poll)
{
	(void)context, (void)post, (void)poll;
	return 0;
}

void shim_bins_posted(struct shim_qp *one, uint64_t bytes, int64_t signalled, uint64_t now)
{
	(void)one, (void)bytes, (void)signalled, (void)now;
}

void shim_bins_refused(struct shim_qp *one, uint64_t bytes, int64_t signalled)
{
	(void)one, (void)bytes, (void)signalled;
}

void shim_bins_completed(struct shim_qp *one, int64_t count, uint64_t now)
{
	(void)one, (void)count, (void)now;
}

void shim_bins_close(struct shim_qp *one)
{
	(void)one;
}

/* What waits for a burst to begin is in bursts.c; here only what it has meanwhile. */
_Atomic int shim_bursts;
static _Atomic int burst_waits;

int shim_burst_wait(uint64_t now)
{
	(void)now;
	CHECK(!gates[0].outstanding);
	burst_waits++;
	return 0;
}

void shim_burst_posted(struct shim_qp *one, uint64_t bytes, int64_t signalled, uint64_t now)
{
	(void)one, (void)bytes, (void)signalled, (void)now;
}

void shim_burst_refused(struct shim_qp *one, uint64_t bytes, int64_t signalled)
{
	(void)one, (void)bytes, (void)signalled;
}

void shim_burst_completed(struct shim_qp *one, int64_t count, uint64_t now)
{
	(void)one, (void)count, (void)now;
}

void shim_burst_failed(struct shim_qp *one)
{
	(void)one;
}

/* A semaphore whose link is never free. */
struct hcc_sem {
	_Atomic int waits, cancelled, parted, left, level;
};
static struct hcc_sem sem;
static _Atomic int released;

int hcc_sem_ready(struct hcc_sem *one, uint64_t bytes)
{
	(void)bytes;
	return one->cancelled || released ? HCC_SEM_OPEN : HCC_SEM_WAIT;
}

int hcc_sem_enter(struct hcc_sem *one)
{
	atomic_fetch_add(&one->waits, 1);
	while (!released && !one->cancelled)
		usleep(1000);
	return HCC_SEM_OPEN;
}

uint64_t hcc_sem_patience_ns(const struct hcc_sem *one)
{
	(void)one;
	return 600000000000ull;
}

void hcc_sem_cancel(struct hcc_sem *one)
{
	one->cancelled = 1;
}

void hcc_sem_leave(struct hcc_sem *one)
{
	one->left = 1;
}

void hcc_sem_set_level(struct hcc_sem *one, uint32_t level)
{
	one->level = (int)level;
}

void hcc_sem_part(struct hcc_sem *one)
{
	if (one)
		one->parted++;
}

struct hcc_sem *hcc_sem_join(const struct hcc_sem_map *map, uint32_t link, uint32_t level)
{
	(void)map, (void)link, (void)level;
	return NULL;
}

int hcc_sem_ask(const char *path)
{
	(void)path;
	return -1;
}

int hcc_sem_answer(int link)
{
	(void)link;
	return -1;
}

int hcc_sem_map(int fd, struct hcc_sem_map *map)
{
	(void)fd, (void)map;
	return -1;
}

void hcc_sem_unmap(struct hcc_sem_map *map)
{
	(void)map;
}
