/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands in for libbpf's header, so that the programs compile for the test's own process. */
#ifndef NATIVE_BPF_HELPERS_H
#define NATIVE_BPF_HELPERS_H

#include <stddef.h>
#include <linux/bpf.h>

#define SEC(name)
#define __ksym
#undef __always_inline
#undef __noinline
#define __noinline __attribute__((noinline))
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) __typeof__(val) *name

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
long bpf_map_delete_elem(void *map, const void *key);
void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags);
void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags);
void bpf_ringbuf_submit(void *data, __u64 flags);
long bpf_setsockopt(void *sk, int level, int name, void *value, int size);
long bpf_tcp_send_ack(void *tp, __u32 rcv_nxt);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_prandom_u32(void);

#endif
