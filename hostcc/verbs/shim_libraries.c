// SPDX-License-Identifier: Apache-2.0
/*
 * What of a queue pair's address vector a library has put there, and not the job.
 *
 * The job's own port and class are kept.  But UCX and librdmacm fill in both where nobody chose
 * any, and taken for choices they would keep all of their jobs from their plan.
 */
#include "shim.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#define LABEL_MAX 0xfffffu
#define UCX_CLASS 106 /* of RoCE where UCX was told none */

static int class_is_chosen;

void shim_libraries_begin(void)
{
	/* UCX_IB_TRAFFIC_CLASS, UCX_RC_VERBS_TRAFFIC_CLASS and others. */
	for (char **one = environ; one && *one; one++)
		if (!strncmp(*one, "UCX_", 4) && strstr(*one, "TRAFFIC_CLASS="))
			class_is_chosen = 1;
}

/* UCX makes labels of its paths' numbers, inverted in 32 bits; a label has 20. */
static int is_ucx(const struct ibv_ah_attr *av)
{
	return av->grh.flow_label > LABEL_MAX;
}

/* The kernel has made a label for librdmacm, of the numbers of two ports. */
static int is_rdmacm(const void *caller)
{
	Dl_info found;

	return dladdr(caller, &found) && found.dli_fname && strstr(found.dli_fname, "librdmacm.so");
}

int shim_left_port(const struct ibv_ah_attr *av, const void *caller)
{
	return !av->grh.flow_label || is_ucx(av) || is_rdmacm(caller);
}

int shim_left_class(const struct ibv_ah_attr *av)
{
	return !av->grh.traffic_class ||
	       (av->grh.traffic_class == UCX_CLASS && is_ucx(av) && !class_is_chosen);
}
