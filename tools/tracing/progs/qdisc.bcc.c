// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long packets wait in the queueing discipline of a device queue, and which are dropped.
 *
 * The tracepoints see the discipline at the root of a device queue; what is below it (the
 * leaves of a classful one) is read by `walk`, which user space runs when it reports.
 */
#define CHAIN 16	/* packets that leave together and are followed */
#define BUCKETS 16	/* of net_device.qdisc_hash */
#define PER_BUCKET 16
#define CPU_STATS 0x20	/* TCQ_F_CPUSTATS: counters are elsewhere, one set a CPU */

struct waiting {
	u64 since_ns, qdisc;
};
struct counters {
	u64 dev, packets, bytes, drops, dropped_bytes, waited, waited_ns;
	u32 handle, parent, ifindex, netns;
	char kind[16], name[16];
};
struct bucket {
	u64 qdisc;
	u32 index, pad;
};
struct leaf {
	u64 dev;
	u32 handle, parent, packets, bytes, drops, flags;
	char kind[16];
};
BPF_TABLE("lru_hash", u64, struct waiting, queued, 65536);	/* by packet */
BPF_HASH(qdiscs, u64, struct counters, 1024);
BPF_HASH(delays, struct bucket, u64, 65536);
BPF_HASH(leaves, u64, struct leaf, 4096);
BPF_HASH(first_drops, u64, u32, 4096);	/* of a leaf, when its root was first seen */

/* Eight buckets an octave, tools.tracing.histogram has the inverse. */
static __always_inline u32 bucket_of(u64 ns)
{
	u32 octave = 0;
	u64 rest = ns;

	if (ns < 8)
		return ns;
	if (rest >> 32) { octave += 32; rest >>= 32; }
	if (rest >> 16) { octave += 16; rest >>= 16; }
	if (rest >> 8) { octave += 8; rest >>= 8; }
	if (rest >> 4) { octave += 4; rest >>= 4; }
	if (rest >> 2) { octave += 2; rest >>= 2; }
	if (rest >> 1) { octave += 1; }
	return (octave - 2) << 3 | (ns >> (octave - 3) & 7);
}

static __always_inline void read_kind(u64 qdisc, char *kind)
{
	u64 ops = 0;

	READ(ops, qdisc, O_Q_OPS);
	bpf_probe_read_kernel(kind, 16, (void *)(ops + O_QOPS_ID));
}

/* The disciplines below the root of a device, into `leaves` or, at first, `first_drops`. */
static __always_inline void walk_leaves(u64 dev, int first)
{
	u64 node, next, qdisc;
	int i, j;

	for (i = 0; i < BUCKETS; i++) {
		node = 0;
		READ(node, dev, O_DEV_HASH + 8 * i);
		for (j = 0; j < PER_BUCKET; j++) {
			struct leaf l = {};

			if (!node)
				break;
			qdisc = node - O_Q_HASH;
			l.dev = dev;
			READ(l.drops, qdisc, O_Q_DROPS);
			if (first) {
				first_drops.update(&qdisc, &l.drops);
			} else {
				READ(l.handle, qdisc, O_Q_HANDLE);
				READ(l.parent, qdisc, O_Q_PARENT);
				READ(l.packets, qdisc, O_Q_QLEN);
				READ(l.bytes, qdisc, O_Q_BACKLOG);
				READ(l.flags, qdisc, O_Q_FLAGS);
				l.flags &= CPU_STATS;
				read_kind(qdisc, l.kind);
				leaves.update(&qdisc, &l);
			}
			next = 0;
			READ(next, node, 0);
			node = next;
		}
	}
}

static __always_inline struct counters *counters_of(u64 qdisc)
{
	struct counters *known = qdiscs.lookup(&qdisc);
	struct counters fresh = {};
	u64 queue = 0, net = 0, dev = 0;
	u32 handle = 0;

	READ(queue, qdisc, O_Q_TXQ);
	READ(dev, queue, O_TXQ_DEV);
	READ(handle, qdisc, O_Q_HANDLE);
	if (known) {
		/* Memory is used again: it may be another discipline by now. */
		if (known->dev == dev && known->handle == handle)
			return known;
		__builtin_memcpy(&fresh, known, sizeof(fresh));
	}
	fresh.dev = dev;
	fresh.handle = handle;
	READ(fresh.parent, qdisc, O_Q_PARENT);
	read_kind(qdisc, fresh.kind);
	READ(fresh.name, dev, O_DEV_NAME);
	READ(fresh.ifindex, dev, O_DEV_INDEX);
	READ(net, dev, O_DEV_NET);
	fresh.netns = netns_of(net);
	walk_leaves(dev, 1);
	qdiscs.update(&qdisc, &fresh);
	return qdiscs.lookup(&qdisc);
}

static __always_inline void left(u64 packet, u64 now)
{
	struct waiting *entry = queued.lookup(&packet);
	struct bucket key = {};
	struct counters *c;
	u64 delay, zero = 0, *count;

	if (!entry)
		return;
	key.qdisc = entry->qdisc;
	delay = now - entry->since_ns;
	queued.delete(&packet);
	c = qdiscs.lookup(&key.qdisc);
	if (!c)
		return;
	lock_xadd(&c->waited, 1);
	lock_xadd(&c->waited_ns, delay);
	key.index = bucket_of(delay);
	count = delays.lookup_or_try_init(&key, &zero);
	if (count)
		lock_xadd(count, 1);
}

RAW_TRACEPOINT_PROBE(qdisc_enqueue)
{
	u64 qdisc = ctx->args[0], packet = ctx->args[2];
	struct waiting entry = {.since_ns = bpf_ktime_get_ns(), .qdisc = qdisc};
	struct counters *c = counters_of(qdisc);
	u32 len = 0;

	if (!c)
		return 0;
	READ(len, packet, O_SKB_LEN);
	lock_xadd(&c->packets, 1);
	lock_xadd(&c->bytes, len);
	queued.update(&packet, &entry);
	return 0;
}

RAW_TRACEPOINT_PROBE(qdisc_dequeue)
{
	u64 packet = ctx->args[3], now = bpf_ktime_get_ns(), next;
	int i;

	for (i = 0; i < CHAIN; i++) {
		if (!packet)
			break;
		left(packet, now);
		next = 0;
		READ(next, packet, O_SKB_NEXT);
		packet = next;
	}
	return 0;
}

RAW_TRACEPOINT_PROBE(kfree_skb)
{
	u64 packet = ctx->args[0], qdisc = 0, dev = 0, queues = 0;
	u32 reason = ctx->args[2], len = 0;
	struct waiting *entry = queued.lookup(&packet);
	struct counters *c;
	u16 number = 0;

	if (entry) {		/* dropped after it had been let in */
		qdisc = entry->qdisc;
		queued.delete(&packet);
	} else {
		if (!(IS_QDISC_DROP(reason)))
			return 0;
		READ(dev, packet, O_SKB_DEV);
		READ(number, packet, O_SKB_QUEUE);
		READ(queues, dev, O_DEV_TX);
		READ(qdisc, queues + number * S_TXQ, O_TXQ_QDISC);
	}
	if (!qdisc)
		return 0;
	c = counters_of(qdisc);
	if (!c)
		return 0;
	READ(len, packet, O_SKB_LEN);
	lock_xadd(&c->drops, 1);
	lock_xadd(&c->dropped_bytes, len);
	return 0;
}

/* The disciplines below the root of the device args[0], into `leaves`. */
int walk(struct bpf_raw_tracepoint_args *ctx)
{
	walk_leaves(ctx->args[0], 0);
	return 0;
}
