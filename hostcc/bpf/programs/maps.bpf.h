/* SPDX-License-Identifier: GPL-2.0-only */
/* Maps that two objects share: created by mltcp.bpf.o, reused by tracker.bpf.o. */
#ifndef HOSTCC_MAPS_BPF_H
#define HOSTCC_MAPS_BPF_H

#include "kern.h"
#include "intf.h"
#include "flow_owner.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u32);
	__type(value, struct hcc_job_conf);
} job_confs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HCC_MAX_JOBS);
	__type(key, u32);
	__type(value, struct hcc_job_state);
} job_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hcc_config);
} config SEC(".maps");

/* Python reads these types from BTF; clang emits only types that are referenced. */
const struct hcc_flow_record *export_flow_record __attribute__((unused));
const enum hcc_mode *export_mode __attribute__((unused));
const enum hcc_scope *export_scope __attribute__((unused));
const enum hcc_stance *export_stance __attribute__((unused));
const enum hcc_direction *export_direction __attribute__((unused));
const enum hcc_plain *export_plain __attribute__((unused));
const enum hcc_flow_flags *export_flow_flags __attribute__((unused));
const enum hcc_limits *export_limits __attribute__((unused));

static __always_inline bool agent_alive(u64 now_ns)
{
	u32 zero = 0;
	const struct hcc_config *c = bpf_map_lookup_elem(&config, &zero);

	/* Signed: now_ns may be a little behind the heartbeat. */
	return c && (s64)(now_ns - c->heartbeat_ns) < (s64)c->stale_ns;
}

#endif
