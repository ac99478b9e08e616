/* SPDX-License-Identifier: GPL-2.0-only */
/* Compiles, but the verifier must refuse it: the pointer may be NULL. */
#include "kernel_types.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

SEC("sockops")
int unchecked(struct bpf_sock_ops *ctx)
{
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&counts, &key);

	*value += 1;
	return 1;
}
