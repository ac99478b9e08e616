// SPDX-License-Identifier: Apache-2.0
/* A stand-in for libmlx5.so.1: its call that changes the source port of a live queue pair. */
#include <infiniband/verbs.h>

unsigned fake_sport, fake_refuse;

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t port)
{
	(void)qp;
	if (fake_refuse)
		return 95; /* EOPNOTSUPP */
	fake_sport = port;
	return 0;
}
