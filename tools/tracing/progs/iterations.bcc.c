// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes that each job's peers acknowledged, in bins of BIN_NS, and how many of its sockets
 * then still had something unsent or unacknowledged: a job that stalls is not silent.
 */
#define CLOSED 7	/* TCP_CLOSE */

struct bin {
	u64 at;		/* in bins since boot */
	u32 job, pad;
};
struct amount {
	u64 bytes;
	u64 busy;	/* sockets, at the last acknowledgement of the bin */
};
BPF_HASH(bins, struct bin, struct amount, 65536);
BPF_TABLE("lru_hash", u64, u32, busy_sockets, 16384);	/* socket -> job */
BPF_HASH(busy_jobs, u32, u64, 1024);

/* Counts a socket as busy or not any more; returns how many of the job's are. */
static __always_inline u64 set_busy(u64 sk, u32 job, int busy)
{
	u32 *known = busy_sockets.lookup(&sk);
	u64 zero = 0, *count = busy_jobs.lookup_or_try_init(&job, &zero);

	if (!count)
		return 0;
	if (busy && !known) {
		busy_sockets.update(&sk, &job);
		lock_xadd(count, 1);
	} else if (!busy && known) {
		busy_sockets.delete(&sk);
		lock_xadd(count, -1);
	}
	return (s64)*count < 0 ? 0 : *count;
}

/* A segment arrives at an established socket; its acknowledgement is not processed yet. */
RAW_TRACEPOINT_PROBE(tcp_probe)
{
	u64 sk = ctx->args[0], skb = ctx->args[1];
	u32 una = 0, nxt = 0, ack = 0, written = 0;
	struct amount zero = {}, *amount;
	struct bin key = {};

	READ(una, sk, O_TP_SND_UNA);
	READ(nxt, sk, O_TP_SND_NXT);
	READ(ack, skb, O_SKB_ACK);
	if (ack == una || ack - una > nxt - una)
		return 0;
	key.job = job_of(sk);
	if (!key.job)
		return 0;
	READ(written, sk, O_TP_WRITTEN);
	key.at = bpf_ktime_get_ns() / BIN_NS;
	amount = bins.lookup_or_try_init(&key, &zero);
	if (!amount)
		return 0;
	lock_xadd(&amount->bytes, ack - una);
	amount->busy = set_busy(sk, key.job, ack != nxt || nxt != written);
	return 0;
}

RAW_TRACEPOINT_PROBE(inet_sock_set_state)
{
	u64 sk = ctx->args[0];
	u32 *job;

	if (ctx->args[2] != CLOSED)
		return 0;
	job = busy_sockets.lookup(&sk);
	if (job)
		set_busy(sk, *job, 0);
	return 0;
}
