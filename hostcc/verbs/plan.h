/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan for jobs that use RDMA, their counters and their bytes over time: three layouts of
 * shared memory.
 *
 * The agent writes the plan, jobs only read it: one entry per job, changed under a sequence
 * number that is odd meanwhile, but for the gate of its bursts.  Each process of a job makes a file of counters and one of bins
 * of its own.  Readers trust none of it, and do without a file of another version.
 */
#ifndef HOSTCC_VERBS_PLAN_H
#define HOSTCC_VERBS_PLAN_H

#include <stdatomic.h>
#include <stdint.h>

#define HCC_RDMA_MAGIC 0x6d64726363736f68ull
#define HCC_RDMA_VERSION 3u
#define HCC_RDMA_MAX_JOBS 256u
#define HCC_RDMA_NAME 72u
#define HCC_RDMA_PATHS 32u
#define HCC_RDMA_PORTS 8u
#define HCC_RDMA_F_POINTS 33u
#define HCC_RDMA_GATES 16u
#define HCC_RDMA_DEVICE 28u

#define HCC_RDMA_CLASS 1u /* traffic_class holds */
#define HCC_RDMA_RATE 2u  /* rate, iteration_bytes and f_milli hold */
#define HCC_RDMA_GATE 4u  /* gates and level hold */

#define HCC_RDMA_BACK 1u /* queue pairs go back to the path that they had; count is 0 */

/* Source ports for the queue pairs to one destination, taken in turn. */
struct hcc_rdma_path {
	uint8_t dgid[16];
	uint16_t ports[HCC_RDMA_PORTS];
	uint16_t count;
	uint16_t flags;
	uint16_t reserved[2];
};

/* Queue pairs on a device take turns at a PCIe link. */
struct hcc_rdma_gate {
	char device[HCC_RDMA_DEVICE]; /* ends in 0; empty: any */
	uint32_t link;                /* index in the region of PCIe semaphores */
};

struct hcc_rdma_job {
	_Atomic uint32_t sequence;
	uint32_t flags;
	char name[HCC_RDMA_NAME]; /* ends in 0; empty: no job */
	uint32_t traffic_class;   /* the whole byte: DSCP << 2, ECN bits 0 */
	uint32_t level;           /* of PCIe semaphores, 0 the highest */
	uint32_t gates;
	uint32_t silence_us;      /* without a post for so long: a new iteration */
	uint64_t rate;            /* bytes per second at F = 1 */
	uint64_t iteration_bytes; /* of this process */
	uint32_t f_milli[HCC_RDMA_F_POINTS]; /* F over bytes_ratio, thousandths */
	uint32_t paths;
	struct hcc_rdma_path path[HCC_RDMA_PATHS];
	struct hcc_rdma_gate gate[HCC_RDMA_GATES];
	/* The gate of its bursts, written at any time: not under the sequence, no generation. */
	_Atomic uint64_t closed_until_ns;  /* CLOCK_MONOTONIC; a burst that begins earlier waits */
	_Atomic uint64_t burst_period_ns;  /* from one burst to the next; 0: not armed */
	_Atomic uint64_t burst_silence_ns; /* nothing on its way for so long: the burst is over */
};

/* Where a process is in its burst: the part of an iteration in which it sends. */
enum hcc_rdma_phase {
	HCC_RDMA_IDLE = 0, /* between two bursts, or its gate is not armed */
	HCC_RDMA_HELD = 1, /* its posts wait */
	HCC_RDMA_SENDING = 2,
	HCC_RDMA_PHASE = 3, /* the bits that say so */
};

struct hcc_rdma_plan {
	uint64_t magic;
	uint32_t version;
	uint32_t jobs;
	uint64_t size;
	_Atomic uint64_t beat;       /* CLOCK_MONOTONIC ns: the agent's last heartbeat */
	_Atomic uint32_t stale_us;   /* without one for so long there is no agent */
	_Atomic uint32_t generation; /* counts changes of any entry */
	/* Of queue pairs whose messages are all shorter path and class stay as they are. */
	_Atomic uint64_t long_bytes;
	uint64_t padding[2];
	struct hcc_rdma_job job[];
};

#define HCC_RDMA_QPS 1024u

/* One queue pair, as its process counts it. */
struct hcc_rdma_count {
	uint32_t qpn; /* 0: free */
	uint32_t port; /* UDP source port that was asked for; 0: none */
	uint32_t traffic_class;
	uint32_t moves;  /* live changes of path or class that worked */
	uint32_t failed; /* and that did not */
	uint32_t source; /* the device's port << 16 | index of its own GID */
	_Atomic uint64_t bytes;
	_Atomic uint64_t iteration; /* bytes in the current one */
	uint8_t dgid[16];
	char device[HCC_RDMA_DEVICE];
	_Atomic uint32_t longest; /* bytes of its longest message so far */
	_Atomic uint32_t errors;  /* completions that failed, but for flushed ones */
	uint32_t reserved;
	/* Of queue pairs that have a ring of bins; CLOCK_MONOTONIC. */
	_Atomic uint64_t completed; /* messages */
	_Atomic uint64_t busy_ns;   /* that they took, one after the other */
	_Atomic uint64_t open_ns;   /* since when nothing has completed; 0: nothing is under way */
	uint64_t padding;
};

struct hcc_rdma_counts {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
	char name[HCC_RDMA_NAME];
	_Atomic uint64_t iterations;
	_Atomic uint64_t paced_ns;  /* that posts were held back for by F */
	_Atomic uint64_t iteration; /* bytes in the current one, of all queue pairs */
	/* Queue pairs that go as the job made them, or not counted and paced, for want of room. */
	_Atomic uint64_t left_alone;
	/* CLOCK_MONOTONIC ns since when it is in this phase; the lowest bits are the phase. */
	_Atomic uint64_t burst;
	_Atomic uint64_t bursts;  /* that have begun while its gate was armed */
	_Atomic uint64_t holds;   /* of these, that waited */
	_Atomic uint64_t held_ns; /* for how long in all */
	uint64_t padding[5];
	struct hcc_rdma_count qp[HCC_RDMA_QPS];
};

#define HCC_RDMA_BINS_MAGIC 0x736e696263636f68ull
#define HCC_RDMA_BINS_VERSION 1u
#define HCC_RDMA_BIN_SHIFT 20u /* a bin is 2^20 ns of CLOCK_MONOTONIC, about a millisecond */
#define HCC_RDMA_RING 2048u    /* bins that a ring keeps; bin b is at b % HCC_RDMA_RING */
#define HCC_RDMA_LATE 512u     /* bins: older ones than this are not written any more */
#define HCC_RDMA_RINGS_AT 131072u /* where the first ring is in the file */

/* What one queue pair sends over time; ring k, of HCC_RDMA_RING words of 64 bits, is row k's. */
struct hcc_rdma_series {
	uint32_t qpn;    /* that has it, or had it last; 0: none ever */
	uint32_t source; /* as in its counters; so are dgid and device */
	_Atomic uint64_t newest;  /* number of the newest bin in its ring; what is older is older bins */
	_Atomic uint64_t open_ns; /* since when there are bytes that are not in bins yet; 0: none */
	uint8_t dgid[16];
	char device[HCC_RDMA_DEVICE];
	uint32_t padding[7];
};

struct hcc_rdma_bins {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
	char name[HCC_RDMA_NAME];
	_Atomic uint32_t rows; /* that were ever used: the first ones */
	uint32_t reserved;
	_Atomic uint64_t left_out; /* queue pairs that got no ring */
	uint64_t padding[3];
	struct hcc_rdma_series row[HCC_RDMA_QPS];
};

/* The plan as one process sees it. */
struct hcc_plan_map {
	const struct hcc_rdma_plan *plan;
	uint64_t size;
	uint32_t jobs;
	uint64_t device, inode; /* of the file */
};

/* Map a plan; 0, or -1: there is none that can be trusted to be one. */
int hcc_plan_map(const char *path, struct hcc_plan_map *map);
/* After an agent started anew: put its plan where the old one is mapped, if it is as large. */
void hcc_plan_renew(const char *path, struct hcc_plan_map *map);
/* Whether an agent lives. */
int hcc_plan_alive(const struct hcc_plan_map *map);
/* A consistent copy of a job's entry; 0, or -1: no such job, or it is being changed. */
int hcc_plan_read(const struct hcc_plan_map *map, const char *name, struct hcc_rdma_job *job);
/* The entry itself, for its gate; it may be another job's at any time.  NULL: no such job. */
const struct hcc_rdma_job *hcc_plan_entry(const struct hcc_plan_map *map, const char *name);

/* Offsets and sizes of all layouts, for bindings to compare with theirs; 0 ends the list. */
extern const uint32_t hcc_plan_layout[];

#endif
