/* SPDX-License-Identifier: GPL-2.0-only */
/* One of everything that the loader offers. */
#include "kernel_types.h"

char LICENSE[] SEC("license") = "GPL";

enum sample_kind { SAMPLE_SMALL = 1, SAMPLE_NEGATIVE = -7 };

struct sample_key {
	__u8 tag;		/* seven bytes of padding follow */
	__u64 id;
};

struct sample_value {
	char name[16];
	__u32 counts[4];
	enum sample_kind kind;
	struct {
		__u16 left, right;
	};
	union {
		__u64 whole;
		__u32 halves[2];
	} either;
};

struct sample_event {
	__u64 at_ns;
	__u32 number;
	__u16 kind;
};

const volatile __u32 threshold = 3;
const volatile __s64 offset = -1;
const volatile char label[8] = "plain";
const volatile bool enabled = true;
const volatile __u32 table[4] = {1, 2, 3, 4};

const struct sample_event *unused_event __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 20000);
	__type(key, struct sample_key);
	__type(value, struct sample_value);
} table_hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} table_array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} table_percpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 64);
	__uint(key_size, 8);
	__uint(value_size, 4);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} table_trie SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, struct bpf_cgroup_storage_key);
	__type(value, __u64);
} table_cgroup SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct seen {
	__u32 threshold;
	__u32 enabled;
	__s64 offset;
	char label[8];
	__u32 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen);
} table_seen SEC(".maps");

static void emit(__u32 number)
{
	struct sample_event *event;

	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return;
	event->at_ns = bpf_ktime_get_ns();
	event->number = number;
	event->kind = number % 3;
	if (number % 5 == 4)
		bpf_ringbuf_discard(event, 0);
	else
		bpf_ringbuf_submit(event, 0);
}

SEC("sockops")
int on_socket(struct bpf_sock_ops *ctx)
{
	__u64 *storage = bpf_get_local_storage(&table_cgroup, 0);
	struct seen seen = {
		.threshold = threshold, .enabled = enabled, .offset = offset, .last = table[3],
	};
	__u32 zero = 0;

	for (int i = 0; i < sizeof(seen.label); i++)
		seen.label[i] = label[i];
	bpf_map_update_elem(&table_seen, &zero, &seen, BPF_ANY);
	if (ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB) {
		__sync_fetch_and_add(storage, 1);
		for (int i = 0; i < 10; i++)
			emit(i);
	}
	return 1;
}

struct tcp_line {
	__u32 state;
	__u32 port;
};
const struct tcp_line *unused_line __attribute__((unused));

SEC("iter/tcp")
int dump_sockets(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tcp_line line = {};

	if (!sk)
		return 0;
	line.state = BPF_CORE_READ(sk, skc_state);
	line.port = BPF_CORE_READ(sk, skc_num);
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

SEC("struct_ops/first_ssthresh")
__u32 BPF_PROG(first_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/both_undo")
__u32 BPF_PROG(both_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops/both_avoid")
void BPF_PROG(both_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/second_ssthresh")
__u32 BPF_PROG(second_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops first = {
	.ssthresh = (void *)first_ssthresh,
	.cong_avoid = (void *)both_avoid,
	.undo_cwnd = (void *)both_undo,
	.name = "hcct_first",
};

SEC(".struct_ops")
struct tcp_congestion_ops second = {
	.ssthresh = (void *)second_ssthresh,
	.cong_avoid = (void *)both_avoid,
	.undo_cwnd = (void *)both_undo,
	.name = "hcct_second",
};
