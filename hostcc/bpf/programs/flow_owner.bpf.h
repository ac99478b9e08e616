/* SPDX-License-Identifier: GPL-2.0-only */
/* The job of each socket: created by mltcp.bpf.o, written by tracker.bpf.o, read by others. */
#ifndef HOSTCC_FLOW_OWNER_BPF_H
#define HOSTCC_FLOW_OWNER_BPF_H

#include "intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct hcc_flow);
} flows SEC(".maps");

#endif
