// SPDX-License-Identifier: Apache-2.0
/*
 * The state of a queue pair as the job has it: RTS, also while it is in SQD for a move of ours.
 *
 * Work may be posted in SQD as before, so the job need not know.
 */
#include "shim.h"

void shim_hide_move(struct ibv_qp *qp)
{
	qp->state = IBV_QPS_RTS;
}

int shim_query(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct shim_qp *one = shim_find(qp);
	int error;

	if (!one)
		return shim_real.query_qp(qp, attr, mask, init);
	pthread_mutex_lock(&one->lock);
	error = shim_real.query_qp(qp, attr, mask, init);
	if (!error && one->away && attr->qp_state == IBV_QPS_SQD) {
		shim_hide_move(qp);
		attr->qp_state = attr->cur_qp_state = IBV_QPS_RTS;
		attr->sq_draining = 0;
	}
	pthread_mutex_unlock(&one->lock);
	return error;
}

int shim_modify_away(struct shim_qp *one, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr failed = {.qp_state = IBV_QPS_ERR};
	int error;

	if (!(mask & IBV_QP_STATE))
		return shim_real.modify_qp(one->qp, attr, mask);
	/* What may be set in RTS may be in SQD, too; the state comes when it has drained. */
	if (attr->qp_state == IBV_QPS_RTS)
		return shim_real.modify_qp(one->qp, attr, mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE));
	error = shim_real.modify_qp(one->qp, attr, mask);
	/* Soft-RoCE lets a queue pair that drains go to ERR alone. */
	if (error && attr->qp_state == IBV_QPS_RESET &&
	    !shim_real.modify_qp(one->qp, &failed, IBV_QP_STATE))
		error = shim_real.modify_qp(one->qp, attr, mask);
	if (!error)
		one->away = one->stuck = 0;
	return error;
}
