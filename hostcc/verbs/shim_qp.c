// SPDX-License-Identifier: Apache-2.0
/*
 * Queue pairs of the job: path and class at INIT to RTR, and live when the plan changes, or
 * when an agent comes that has one.
 *
 * A live queue pair takes a new address vector only in SQD: RTS to SQD, wait until the send
 * queue has drained, SQD to SQD with the vector, SQD to RTS; each alone in its call.  After
 * that queued work waits for the next doorbell.
 */
#include "shim.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define DRAIN_NS 2000000000ull /* a move that takes longer has failed */
#define NUDGE_NS 10000000ull   /* Soft-RoCE sees only then that it has drained */

/* Locks and counters of a place outlive the queue pairs in it: the thread may be about to look. */
static struct shim_qp table[HCC_RDMA_QPS] = {
	[0 ... HCC_RDMA_QPS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER,
				    .series = {.lock = PTHREAD_MUTEX_INITIALIZER}}};
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int any_away;
static uint64_t nudged_ns; /* by the thread: when it last nudged those that drain */

/* The port that the kernel makes of its own flow label, or of the numbers of both ends. */
static uint16_t port_by_default(const struct shim_qp *one)
{
	uint64_t digest = one->label;

	if (!digest) {
		digest = (uint64_t)one->number * one->peer;
		digest ^= digest >> 20;
		digest ^= digest >> 40;
	}
	return (uint16_t)(((digest & 0x3fff) ^ (digest >> 14 & 0x3f)) | 0xc000);
}

/* The kernel's rdma_flow_label_to_udp_sport, the other way round; never label 0. */
static uint32_t label_of(uint32_t port)
{
	uint32_t low = port & 0x3fff;

	return low ? low : 0x4001;
}

struct shim_qp *shim_find(const struct ibv_qp *qp)
{
	if (qp->qp_type != IBV_QPT_RC)
		return NULL;
	/* No lock: a queue pair is not used while it is made or destroyed. */
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++) {
		struct shim_qp *one = &table[(qp->qp_num + index) % HCC_RDMA_QPS];
		const struct ibv_qp *there = atomic_load_explicit(&one->qp, memory_order_acquire);

		if (there == qp)
			return one;
		if (!there && !one->count)
			return NULL; /* nobody ever was here, so nobody was pushed further */
	}
	return NULL;
}

struct shim_qp *shim_find_number(const struct ibv_context *context, uint32_t number)
{
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++) {
		struct shim_qp *one = &table[(number + index) % HCC_RDMA_QPS];
		const struct ibv_qp *qp = atomic_load_explicit(&one->qp, memory_order_acquire);

		if (!qp && !one->count)
			return NULL; /* the same */
		if (qp && one->number == number && one->context == context)
			return one;
	}
	return NULL;
}

void shim_each(void (*visit)(struct shim_qp *))
{
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++)
		if (atomic_load_explicit(&table[index].qp, memory_order_acquire))
			visit(&table[index]);
}

int shim_any(int (*is)(const struct shim_qp *))
{
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++)
		if (atomic_load_explicit(&table[index].qp, memory_order_acquire) && is(&table[index]))
			return 1;
	return 0;
}

static struct shim_qp *add(struct ibv_qp *qp)
{
	struct shim_qp *found = shim_find(qp);

	pthread_mutex_lock(&table_lock);
	for (uint32_t index = 0; !found && index < HCC_RDMA_QPS; index++) {
		uint32_t place = (qp->qp_num + index) % HCC_RDMA_QPS;
		struct shim_qp *one = &table[place];

		if (one->qp)
			continue;
		pthread_mutex_lock(&one->lock);
		memset(&one->av, 0, sizeof(*one) - offsetof(struct shim_qp, av));
		atomic_store(&one->gate, 0);
		atomic_store(&one->outstanding, 0);
		one->number = qp->qp_num;
		one->context = qp->context;
		one->count = &shim_counts->qp[place];
		memset(one->count, 0, sizeof(*one->count));
		if (qp->context->device)
			memcpy(one->count->device, qp->context->device->name,
			       strnlen(qp->context->device->name, HCC_RDMA_DEVICE - 1));
		one->count->qpn = qp->qp_num;
		atomic_store_explicit(&one->qp, qp, memory_order_release);
		pthread_mutex_unlock(&one->lock);
		found = one;
	}
	if (!found)
		atomic_fetch_add(&shim_counts->left_alone, 1);
	pthread_mutex_unlock(&table_lock);
	return found;
}

void shim_count_in(struct hcc_rdma_counts *to)
{
	pthread_mutex_lock(&table_lock);
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++) {
		struct shim_qp *one = &table[index];

		if (!one->qp)
			continue;
		pthread_mutex_lock(&one->lock);
		to->qp[index] = *one->count;
		one->count = &to->qp[index];
		pthread_mutex_unlock(&one->lock);
	}
	to->left_alone = shim_counts->left_alone;
	shim_counts = to;
	pthread_mutex_unlock(&table_lock);
}

static void drop(struct shim_qp *one)
{
	shim_bins_close(one);
	pthread_mutex_lock(&table_lock);
	one->count->qpn = 0;
	atomic_store_explicit(&one->qp, NULL, memory_order_release);
	pthread_mutex_unlock(&table_lock);
}

static const struct hcc_rdma_path *path_to(const struct hcc_rdma_job *job, const union ibv_gid *gid)
{
	for (uint32_t index = 0; index < job->paths; index++) {
		const struct hcc_rdma_path *path = &job->path[index];

		if ((path->count || path->flags & HCC_RDMA_BACK) && !memcmp(path->dgid, gid->raw, 16))
			return path;
	}
	return NULL;
}

/* Of where a queue pair goes; never 0. */
static uint64_t digest_of(const struct ibv_ah_attr *av)
{
	uint64_t halves[2];

	memcpy(halves, av->grh.dgid.raw, sizeof(halves));
	return (halves[0] * 0x9e3779b97f4a7c15ull + halves[1]) | 1;
}

/* The caller holds its lock. */
static void set_ready(struct shim_qp *one, int ready)
{
	one->ready = ready;
	atomic_store(&one->to, ready ? digest_of(&one->av) : 0);
}

/* Queue pairs to one destination take its ports in turn. */
static uint32_t turn_of(const struct ibv_ah_attr *av)
{
	uint64_t to = digest_of(av);
	uint32_t before = 0;

	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++)
		before += atomic_load(&table[index].to) == to;
	return before;
}

/* A queue pair on one of a path's ports is on the path, and stays there. */
static int among(const struct hcc_rdma_path *path, uint32_t port)
{
	for (uint32_t index = 0; index < path->count; index++)
		if (path->ports[index] == port)
			return 1;
	return 0;
}

/* Short messages stay where they are: the plan is for queue pairs that have sent a long one. */
static int sends_long(const struct shim_qp *one)
{
	const struct hcc_rdma_count *count = one->count;

	return atomic_load_explicit(&count->longest, memory_order_relaxed) >= shim_long_bytes();
}

/* Apply the plan to an address vector; returns whether it changed. */
static int wanted(const struct shim_qp *one, const struct hcc_rdma_job *job,
		  struct ibv_ah_attr *av, uint32_t *port)
{
	const struct hcc_rdma_path *path = path_to(job, &one->av.grh.dgid);

	*av = one->av;
	*port = one->count->port;
	if (!sends_long(one))
		return 0;
	if (path && one->our_port && !path->count) {
		*port = 0;
		av->grh.flow_label = one->label;
	} else if (path && one->our_port && !among(path, *port)) {
		*port = path->ports[one->turn % path->count];
		if (*port < 0xc000)
			*port = one->count->port; /* not a port that RoCE uses */
		else
			av->grh.flow_label = label_of(*port);
	}
	if (job->flags & HCC_RDMA_CLASS && one->our_class)
		av->grh.traffic_class = (uint8_t)job->traffic_class;
	return av->grh.flow_label != one->av.grh.flow_label ||
	       av->grh.traffic_class != one->av.grh.traffic_class;
}

static void record(struct shim_qp *one, const struct ibv_ah_attr *av, uint32_t port)
{
	one->av = *av;
	one->count->port = port;
	one->count->traffic_class = av->grh.traffic_class;
}

/* INIT to RTR; without a plan as the job wants it, and remembered for when there is one. */
static int to_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const void *caller)
{
	struct ibv_qp_attr ours = *attr;
	struct hcc_rdma_job job;
	struct shim_qp *one;
	int error, planned, changed = 0;
	uint32_t port = 0;

	planned = attr->ah_attr.is_global && !shim_plan_now(&job);
	if (!attr->ah_attr.is_global || !(one = add(qp)))
		return shim_real.modify_qp(qp, attr, mask);
	pthread_mutex_lock(&one->lock);
	one->stuck = 0; /* whatever became of an earlier connection */
	one->count->port = 0;
	one->av = attr->ah_attr;
	one->label = attr->ah_attr.grh.flow_label;
	one->our_port = shim_left_port(&one->av, caller);
	one->our_class = shim_left_class(&one->av);
	one->turn = turn_of(&one->av);
	one->peer = attr->dest_qp_num;
	memcpy(one->count->dgid, attr->ah_attr.grh.dgid.raw, 16);
	one->count->source = (uint32_t)attr->ah_attr.port_num << 16 | attr->ah_attr.grh.sgid_index;
	if (planned)
		changed = wanted(one, &job, &ours.ah_attr, &port);
	error = shim_real.modify_qp(qp, &ours, mask);
	if (!error) {
		record(one, &ours.ah_attr, port);
	} else if (changed) {
		one->stuck = 1; /* the job's own choice, and nothing more of ours */
		error = shim_real.modify_qp(qp, attr, mask);
	}
	if (error)
		shim_gate_unhook(one);
	pthread_mutex_unlock(&one->lock);
	if (error)
		drop(one);
	return error;
}

/* Have its posts counted and held back, as soon as somebody plans for it. */
static void hook(struct shim_qp *one)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr known;

	if (one->hooked || shim_real.query_qp(one->qp, &known, IBV_QP_CAP, &init))
		return;
	one->all_signalled = init.sq_sig_all;
	one->hooked = shim_gate_hook(one) ? -1 : 1;
	if (one->hooked > 0)
		shim_bins_open(one, init.cap.max_send_wr);
	if (one->hooked < 0)
		atomic_fetch_add(&shim_counts->left_alone, 1);
}

int shim_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const void *caller)
{
	int state = mask & IBV_QP_STATE ? (int)attr->qp_state : -1;
	struct hcc_rdma_job job;
	struct shim_qp *one;
	int error;

	if (qp->qp_type == IBV_QPT_RC && state == IBV_QPS_RTR && mask & IBV_QP_AV)
		return to_rtr(qp, attr, mask, caller);
	one = shim_find(qp);
	if (!one)
		return shim_real.modify_qp(qp, attr, mask);
	pthread_mutex_lock(&one->lock);
	error = one->away ? shim_modify_away(one, attr, mask) : shim_real.modify_qp(qp, attr, mask);
	if (mask & IBV_QP_AV || state == IBV_QPS_SQD)
		one->stuck = 1; /* the job does such things itself */
	if (!error && state >= 0)
		set_ready(one, state == IBV_QPS_RTS);
	if (!error && state == IBV_QPS_RESET)
		shim_gate_reset(one);
	if (one->ready && !shim_job(&job))
		hook(one);
	pthread_mutex_unlock(&one->lock);
	if (!error && state == IBV_QPS_RTS)
		shim_look_again(); /* the plan may have changed since RTR */
	return error;
}

int shim_destroy(struct ibv_qp *qp)
{
	struct shim_qp *one = shim_find(qp);

	if (one) {
		pthread_mutex_lock(&one->lock);
		set_ready(one, 0);
		shim_gate_unhook(one);
		pthread_mutex_unlock(&one->lock);
		/* First: another thread may soon make one in the same memory. */
		drop(one);
	}
	return shim_real.destroy_qp(qp);
}

void shim_close(struct ibv_context *context)
{
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++) {
		struct shim_qp *one = &table[index];
		int there;

		pthread_mutex_lock(&one->lock);
		there = one->qp && one->context == context;
		if (there) {
			set_ready(one, 0);
			shim_gate_unhook(one);
		}
		pthread_mutex_unlock(&one->lock);
		if (there)
			drop(one);
	}
	shim_device_forget(context);
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state, const struct ibv_ah_attr *av)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int error;

	if (av)
		attr.ah_attr = *av;
	error = shim_real.modify_qp(qp, &attr, av ? IBV_QP_STATE | IBV_QP_AV : IBV_QP_STATE);
	if (!error)
		shim_hide_move(qp);
	return error;
}

/* Begin a live change; the caller holds its lock.  Returns whether that was all. */
static int move(struct shim_qp *one, const struct ibv_ah_attr *av, uint32_t port)
{
	uint16_t wire = port ? (uint16_t)port : port_by_default(one);

	if (shim_real.modify_udp_sport && av->grh.traffic_class == one->av.grh.traffic_class &&
	    !shim_real.modify_udp_sport(one->qp, wire)) {
		record(one, av, port);
		one->count->moves++;
		return 1;
	}
	one->stuck = 1; /* if this fails the device cannot, or the queue pair has failed */
	if (to_state(one->qp, IBV_QPS_SQD, NULL)) {
		one->count->failed++;
		return 1;
	}
	one->away = 1;
	one->late = 0;
	one->away_ns = shim_now_ns();
	return 0;
}

static void move_failed(struct shim_qp *one)
{
	if (!one->late)
		one->count->failed++;
	one->late = 1;
}

/* In SQD and drained: take the path and class that the plan says now, if there is one. */
static void redirect(struct shim_qp *one)
{
	struct hcc_rdma_job job;
	struct ibv_ah_attr av;
	uint32_t port;

	if (shim_job(&job) || !wanted(one, &job, &av, &port))
		return;
	if (to_state(one->qp, IBV_QPS_SQD, &av)) {
		move_failed(one);
		return;
	}
	record(one, &av, port);
	one->count->moves++;
}

/* Go on with what `move` began; the caller holds its lock.  Returns whether that was all. */
static int go_on(struct shim_qp *one, uint64_t now, int nudge)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (shim_real.query_qp(one->qp, &attr, IBV_QP_STATE, &init) ||
	    attr.qp_state != IBV_QPS_SQD) {
		move_failed(one); /* so has the queue pair: the job's completions say so */
		one->away = 0;
		return 1;
	}
	shim_hide_move(one->qp);
	if (attr.sq_draining && now - one->away_ns > DRAIN_NS)
		move_failed(one);
	if (!attr.sq_draining)
		redirect(one);
	if ((!attr.sq_draining || one->late) && !to_state(one->qp, IBV_QPS_RTS, NULL)) {
		one->away = one->stuck = 0;
		shim_nudge(one->qp);
		return 1;
	}
	if (nudge)
		shim_nudge(one->qp);
	return 0;
}

int shim_bring_back(void)
{
	int left = 0, soon = 0, nudge;
	uint64_t now;

	if (!atomic_load_explicit(&any_away, memory_order_relaxed))
		return 0;
	now = shim_now_ns();
	nudge = now - nudged_ns >= NUDGE_NS;
	if (nudge)
		nudged_ns = now;
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++) {
		struct shim_qp *one = &table[index];

		pthread_mutex_lock(&one->lock);
		if (one->qp && one->ready && one->away && !go_on(one, now, nudge)) {
			left = 1;
			soon |= !one->late;
		}
		pthread_mutex_unlock(&one->lock);
	}
	atomic_store(&any_away, left);
	return soon;
}

void shim_move_all(const struct hcc_rdma_job *job)
{
	for (uint32_t index = 0; index < HCC_RDMA_QPS; index++) {
		struct shim_qp *one = &table[index];
		struct ibv_ah_attr av;
		uint32_t port;

		if (!atomic_load_explicit(&one->qp, memory_order_acquire))
			continue;
		pthread_mutex_lock(&one->lock);
		if (one->qp && one->ready)
			hook(one);
		if (one->qp && one->ready && !one->stuck && wanted(one, job, &av, &port) &&
		    !move(one, &av, port))
			atomic_store(&any_away, 1);
		pthread_mutex_unlock(&one->lock);
	}
}
