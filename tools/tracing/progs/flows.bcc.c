// SPDX-License-Identifier: GPL-2.0-only
/* TCP connections as they open and close: which process, which cgroup, which way out. */
#define PROTOCOL_TCP 6
#define GATEWAY_FLAG 2	/* RTF_GATEWAY */
enum { ESTABLISHED = 1, SYN_SENT = 2, CLOSED = 7 };
enum { OPENED = 1, ACCEPTED = 2, FAILED = 3, ENDED = 4 };

struct opener {
	u64 at_ns;
	u32 pid, pad;
	char comm[16];
};
struct flow {
	u64 id, at_ns, cgroup, bytes_sent, bytes_received;
	struct ends ends;
	u32 what, pid, ifindex, pad;
	u16 gateway_family, pad2[3];
	u8 gateway[16];
	char comm[16], device[16];
};
BPF_TABLE("lru_hash", u64, struct opener, openers, 16384);
BPF_RINGBUF_OUTPUT(events, 64);
BPF_ARRAY(event_type, struct flow, 1);	/* never used: tells bcc the type */

static __always_inline void read_path(u64 sk, struct flow *f)
{
	u64 dst = 0, dev = 0, ops = 0;
	u16 family = 0;
	u32 flags = 0;
	u8 kind = 0;

	READ(dst, sk, O_SK_DST);
	if (!dst)
		return;
	READ(dev, dst, O_DST_DEV);
	READ(f->ifindex, dev, O_DEV_INDEX);
	READ(f->device, dev, O_DEV_NAME);
	READ(ops, dst, O_DST_OPS);
	READ(family, ops, O_OPS_FAMILY);
	if (family == HAS_IPV6) {
		READ(flags, dst, O_RT6_FLAGS);
		if (flags & GATEWAY_FLAG) {
			f->gateway_family = family;
			READ(f->gateway, dst, O_RT6_GW);
		}
		return;
	}
	READ(kind, dst, O_RT_GW_FAMILY);
	f->gateway_family = kind;
	if (kind == HAS_IPV6)
		READ(f->gateway, dst, O_RT_GW6);
	else if (kind)
		bpf_probe_read_kernel(f->gateway, 4, (void *)(dst + O_RT_GW4));
}

static __always_inline void report(u64 sk, u32 what, struct opener *who)
{
	struct flow f = {};

	f.id = sk;
	f.what = what;
	f.at_ns = bpf_ktime_get_ns();
	f.cgroup = cgroup_of(sk);
	read_ends(sk, &f.ends);
	READ(f.bytes_sent, sk, O_TP_ACKED);
	READ(f.bytes_received, sk, O_TP_RECEIVED);
	read_path(sk, &f);
	if (who) {
		f.pid = who->pid;
		__builtin_memcpy(f.comm, who->comm, sizeof(f.comm));
	}
	events.ringbuf_output(&f, sizeof(f), 0);
}

static __always_inline void note_opener(struct opener *who)
{
	who->at_ns = bpf_ktime_get_ns();
	who->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(who->comm, sizeof(who->comm));
}

RAW_TRACEPOINT_PROBE(inet_sock_set_state)
{
	u64 sk = ctx->args[0];
	u32 from = ctx->args[1], to = ctx->args[2];
	struct opener now = {}, *who;
	u16 protocol = 0;

	READ(protocol, sk, O_SK_PROTOCOL);
	if (protocol != PROTOCOL_TCP)
		return 0;
	if (to == SYN_SENT) {		/* in connect(), by whoever calls it */
		note_opener(&now);
		openers.update(&sk, &now);
	} else if (to == ESTABLISHED) {
		who = from == SYN_SENT ? openers.lookup(&sk) : NULL;
		if (from == SYN_SENT)
			report(sk, OPENED, who);
#ifndef ACCEPT_IS_TRACED
		else
			report(sk, ACCEPTED, NULL);
#endif
	} else if (to == CLOSED) {
		who = openers.lookup(&sk);
		report(sk, from == SYN_SENT ? FAILED : ENDED, who);
		openers.delete(&sk);
	}
	return 0;
}

#ifdef ACCEPT_IS_TRACED
/* On the way out of accept(), in whoever called it; every system call passes here. */
RAW_TRACEPOINT_PROBE(sys_exit)
{
	u64 files = 0, table = 0, slots = 0, file = 0, sock = 0, sk = 0;
	struct opener who = {};
	long fd = ctx->args[1];
	u16 protocol = 0;
	u32 call = 0;

	READ(call, ctx->args[0], O_REGS_CALL);
	if ((call != CALL_ACCEPT && call != CALL_ACCEPT4) || fd < 0)
		return 0;
	READ(files, bpf_get_current_task(), O_TASK_FILES);
	READ(table, files, O_FILES_TABLE);
	READ(slots, table, O_FDTABLE_FD);
	READ(file, slots, 8 * fd);
	READ(sock, file, O_FILE_PRIVATE);
	READ(sk, sock, O_SOCKET_SK);
	READ(protocol, sk, O_SK_PROTOCOL);
	if (!sk || protocol != PROTOCOL_TCP)
		return 0;
	note_opener(&who);
	report(sk, ACCEPTED, &who);
	return 0;
}
#endif
