// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for libibverbs.so.1, for machines without RDMA devices: the functions that the
 * transport shim asks for, on queue pairs made of plain memory that keep the rules of RTS and
 * SQD.  It says nothing about real devices; tests/vm does, with Soft-RoCE.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct fake_qp {
	struct ibv_qp qp;
	struct ibv_qp_attr attr;
	int drains; /* queries until it has drained */
};

unsigned long fake_posted, fake_polled, fake_moves, fake_errors;
unsigned fake_full;      /* posts that find no room */
unsigned fake_completed; /* number of the queue pair that completions are of */
int fake_status;         /* of completions */
unsigned fake_slow;      /* what is under way does not come to an end */
void (*fake_destroyed)(void); /* called by who destroys a queue pair, once its memory is free */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	if (fake_full) {
		fake_full--;
		*bad = wr;
		return ENOMEM;
	}
	for (; wr; wr = wr->next) {
		if (wr->num_sge > 16) { /* as the nudge has */
			*bad = wr;
			return EINVAL;
		}
		__atomic_fetch_add(&fake_posted, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	(void)cq;
	if (most < 1)
		return 0;
	memset(wc, 0, sizeof(*wc));
	wc->status = (enum ibv_wc_status)fake_status;
	wc->opcode = IBV_WC_RDMA_WRITE;
	wc->qp_num = fake_completed;
	__atomic_fetch_add(&fake_polled, 1, __ATOMIC_RELAXED);
	return 1;
}

#define CONTEXT_BYTES 4096

/* None is where another one was; what is closed cannot be touched. */
struct ibv_context *fake_context(void)
{
	struct ibv_context *context = mmap(NULL, CONTEXT_BYTES, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	context->ops.post_send = post_send;
	context->ops.poll_cq = poll_cq;
	return context;
}

struct ibv_qp *fake_qp(struct ibv_context *context, uint32_t number)
{
	struct fake_qp *made = malloc(sizeof(*made));

	__asm__ volatile("" : "+r"(made)); /* no calloc: that takes no memory that was just freed */
	memset(made, 0, sizeof(*made));
	made->qp.context = context;
	made->qp.qp_num = number;
	made->qp.qp_type = IBV_QPT_RC;
	return &made->qp;
}

static int fail(int error)
{
	__atomic_fetch_add(&fake_errors, 1, __ATOMIC_RELAXED);
	return error;
}

/* Whether something is under way. */
static int busy(const struct fake_qp *self)
{
	return self->drains || __atomic_load_n(&fake_slow, __ATOMIC_RELAXED);
}

/* The state that it is in, whatever it says when asked. */
enum ibv_qp_state fake_state(const struct ibv_qp *qp)
{
	return __atomic_load_n(&((const struct fake_qp *)qp)->attr.qp_state, __ATOMIC_ACQUIRE);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *self = (struct fake_qp *)qp;
	int from = self->attr.qp_state, to = mask & IBV_QP_STATE ? (int)attr->qp_state : from;

	if (from == IBV_QPS_SQD && !(mask & (IBV_QP_STATE | IBV_QP_AV))) {
		/* other attributes are taken at any time */
	} else if (to == IBV_QPS_SQD && from == IBV_QPS_RTS) {
		if (mask != IBV_QP_STATE)
			return fail(EINVAL);
		self->drains = 1 + rand() % 3;
	} else if (to == IBV_QPS_SQD && from == IBV_QPS_SQD) {
		if (busy(self) || mask != (IBV_QP_STATE | IBV_QP_AV))
			return fail(EINVAL);
		__atomic_fetch_add(&fake_moves, 1, __ATOMIC_RELAXED);
	} else if (to == IBV_QPS_RTS && from == IBV_QPS_SQD) {
		if (busy(self) || mask != IBV_QP_STATE)
			return fail(EINVAL);
	} else if (to != IBV_QPS_ERR && from == IBV_QPS_SQD && busy(self)) {
		return fail(EINVAL); /* so does Soft-RoCE */
	}
	if (to == IBV_QPS_RESET)
		self->drains = 0;
	if (mask & IBV_QP_AV)
		self->attr.ah_attr = attr->ah_attr;
	self->attr.qp_state = (enum ibv_qp_state)to;
	if (mask & IBV_QP_STATE)
		qp->state = self->attr.qp_state; /* as libibverbs notes it */
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct fake_qp *self = (struct fake_qp *)qp;

	memset(init, 0, sizeof(*init));
	if (self->drains)
		self->drains--;
	*attr = self->attr;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	attr->sq_draining = (uint8_t)busy(self);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	if (fake_destroyed)
		fake_destroyed();
	return 0;
}

int ibv_close_device(struct ibv_context *context)
{
	return mprotect(context, CONTEXT_BYTES, PROT_NONE);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}
