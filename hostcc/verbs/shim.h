/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces between the files of the transport shim; docs/internals/shim.md describes it. */
#ifndef HOSTCC_VERBS_SHIM_H
#define HOSTCC_VERBS_SHIM_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "plan.h"
#include "semaphore.h"

/* libibverbs' own functions. */
struct shim_real {
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	int (*destroy_qp)(struct ibv_qp *);
	int (*close_device)(struct ibv_context *);
	struct ibv_qp_ex *(*to_ex)(struct ibv_qp *);
	int (*modify_udp_sport)(struct ibv_qp *, uint16_t); /* mlx5's; may be NULL */
};
extern struct shim_real shim_real;

/* What is on its way from a queue pair's posts into its bins. */
struct shim_series {
	pthread_mutex_t lock;        /* nobody waits while holding it */
	struct hcc_rdma_series *row; /* NULL: it has no ring */
	_Atomic uint64_t *ring;
	uint64_t bytes;    /* posted, not in bins yet */
	int64_t signalled; /* of these sends: a completion will come of each */
	uint64_t from, to; /* ns: the last completion was of what was sent between; to 0: none yet */
	uint64_t posted;   /* ns: the last post */
	int64_t depth;     /* sends that fit into its queue */
	int blind;         /* its completions do not come by */
};

/* One recorded queue pair. */
struct shim_qp {
	struct ibv_qp *_Atomic qp; /* NULL: free */
	struct hcc_rdma_count *_Atomic count;
	pthread_mutex_t lock; /* of its transitions and of `av` */
	struct shim_series series;
	_Atomic int64_t outstanding; /* sends that a completion is to come of, while bursts count */
	_Atomic int64_t at_link;     /* the same, of those that keep its PCIe link */
	_Atomic int gate; /* number of the PCIe link that its posts take turns at, from 1; 0: none */
	/* Those that poll may not look into a queue pair that another thread destroys. */
	_Atomic uint32_t number;
	const struct ibv_context *_Atomic context;
	_Atomic uint64_t to; /* digest of its destination, while it is in RTS; else 0 */
	struct ibv_ah_attr av; /* from here on: made anew for each queue pair that comes here */
	uint32_t turn;     /* which of several ports is its */
	uint32_t label;    /* that it had before any of ours */
	int our_port, our_class; /* the job left them to us */
	int ready, stuck;  /* is in RTS; cannot be moved */
	int away;          /* is in SQD for a move: has to go back to RTS */
	int late;          /* that move took too long, and was counted as failed */
	uint64_t away_ns;  /* since when */
	uint32_t peer;     /* number of the queue pair at the other end */
	int hooked;        /* its posts come by; -1: there was no room for its device */
	_Atomic int all_signalled;
	/* The extended interface, where it is in use: what was there before. */
	struct ibv_qp_ex *ex;
	void (*ex_start)(struct ibv_qp_ex *);
	int (*ex_complete)(struct ibv_qp_ex *);
	void (*ex_abort)(struct ibv_qp_ex *);
	void (*ex_sge)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t);
	void (*ex_sge_list)(struct ibv_qp_ex *, size_t, const struct ibv_sge *);
	void (*ex_inline)(struct ibv_qp_ex *, void *, size_t);
	void (*ex_inline_list)(struct ibv_qp_ex *, size_t, const struct ibv_data_buf *);
	uint64_t ex_longest;  /* bytes of the longest request since start */
	uint64_t ex_bytes;    /* of requests that have been started, and not completed */
	int64_t ex_signalled; /* completions that they will have */
	int ex_started;       /* by us: the job may have been between start and complete */
};

/* shim_files.c: the files that we make. */
#define SHIM_PATH 288
/*
 * Make a file of our process, for so many bytes, and lock it; `path` gets its name, `kind` is the
 * part between prefix and numbers.  Its descriptor, or -1: the lock is gone as soon as that is closed.
 */
int shim_own_file(char path[SHIM_PATH], const char *prefix, const char *kind, uint64_t bytes);

/* shim.c: the plan and who we are. */
uint64_t shim_now_ns(void); /* CLOCK_MONOTONIC */
int shim_job(struct hcc_rdma_job *job); /* a copy of our entry; 0 when an agent lives */
/* The same, also when this is the first time. */
int shim_plan_now(struct hcc_rdma_job *job);
int shim_alive(void);
/* Our entry in the plan itself, for its gate; NULL: there is none. */
const struct hcc_rdma_job *shim_entry(void);
uint32_t shim_generation(void);
uint64_t shim_long_bytes(void); /* shorter messages make no queue pair one that the plan is for */
const char *shim_semaphores(void); /* where the region of PCIe semaphores is */
/* Have the thread check all queue pairs. */
void shim_look_again(void);
extern struct hcc_rdma_counts *_Atomic shim_counts; /* nobody else's before an agent was seen */

/* shim_libraries.c: what libraries choose where the job chooses nothing. */
void shim_libraries_begin(void); /* in the job's own thread: reads its environment */
/* Whether the job leaves the port to us; `caller` is where its library's code goes on. */
int shim_left_port(const struct ibv_ah_attr *av, const void *caller);
int shim_left_class(const struct ibv_ah_attr *av);

/* shim_qp.c: the queue pairs. */
int shim_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const void *caller);
int shim_destroy(struct ibv_qp *qp);
/* The job closes a device: what it has not destroyed there is gone with it. */
void shim_close(struct ibv_context *context);
struct shim_qp *shim_find(const struct ibv_qp *qp);
/* The one of that number that posts to `context`. */
struct shim_qp *shim_find_number(const struct ibv_context *context, uint32_t number);
void shim_each(void (*visit)(struct shim_qp *));
int shim_any(int (*is)(const struct shim_qp *));
/* From now on count there; what was counted comes along. */
void shim_count_in(struct hcc_rdma_counts *to);
void shim_move_all(const struct hcc_rdma_job *job);
/*
 * Those that moves have put into SQD get their new path once they have drained, and go back to RTS
 * as soon as they can, whether an agent lives or not.  Returns whether to come again soon.
 */
int shim_bring_back(void);

/*
 * shim_state.c: RTS, as the job sees it.  libibverbs notes the state in what the job has of it, and
 * UCX aborts where that is not RTS.
 */
void shim_hide_move(struct ibv_qp *qp);
int shim_query(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
/* The job's own transition of one that is in SQD for a move; the caller holds its lock. */
int shim_modify_away(struct shim_qp *one, struct ibv_qp_attr *attr, int mask);

/* shim_device.c: devices that are open. */
typedef int (*shim_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
typedef int (*shim_poll)(struct ibv_cq *, int, struct ibv_wc *);
struct shim_device {
	struct ibv_context *_Atomic context; /* NULL: free */
	_Atomic int taken; /* now or earlier */
	shim_post post;    /* the provider's */
	shim_poll poll;
};
/* NULL: not hooked.  Stays valid until the job closes the device. */
struct shim_device *shim_device_find(const struct ibv_context *context);
/* Have all posts and polls go there; 0, or -1: there is no room. */
int shim_device_hook(struct ibv_context *context, shim_post post, shim_poll poll);
void shim_device_forget(struct ibv_context *context);

/* shim_gate.c: posts and completions. */
void shim_gate_plan(const struct hcc_rdma_job *job);
/* See the posts of one that is in RTS, and maybe posts already; 0, or -1: there is no room. */
int shim_gate_hook(struct shim_qp *one);
void shim_gate_unhook(struct shim_qp *one);
/* What it has under way is gone without completions; it may be connected to another place next. */
void shim_gate_reset(struct shim_qp *one);
/* After SQD queued work waits for a doorbell: rings one without posting anything. */
void shim_nudge(struct ibv_qp *qp);

/* shim_bins.c: bytes over time. */
/* Make our file of bins, beside that of the counters; without one nothing is kept. */
void shim_bins_make(const char *counts_prefix, const char *job);
void shim_bins_remove(void);
/* In a child of fork: the file is its parent's. */
void shim_bins_forget(void);
/* From now on a queue pair has a ring, if there is room; its queue takes `depth` sends. */
void shim_bins_open(struct shim_qp *one, uint32_t depth);
void shim_bins_close(struct shim_qp *one);
/* Bytes are about to be posted; of `signalled` sends a completion will come. */
void shim_bins_posted(struct shim_qp *one, uint64_t bytes, int64_t signalled, uint64_t now);
/* The device has not taken them. */
void shim_bins_refused(struct shim_qp *one, uint64_t bytes, int64_t signalled);
void shim_bins_completed(struct shim_qp *one, int64_t count, uint64_t now);
/* Now and then, by a thread that nobody waits for: put into bins what no completion will come of. */
void shim_bins_settle(void);

/* shim_burst.c: bursts, and the gate before them. */
extern _Atomic int shim_bursts; /* whether the gate is armed, so that they count */
/* Now and then, by a thread that nobody waits for: whether the plan has the gate armed. */
void shim_burst_look(void);
/* In a child of fork: bursts are its parent's. */
void shim_burst_forget(void);
/* Something is about to be posted: wait where a burst begins; whether there was anything to. */
int shim_burst_wait(uint64_t now);
/* Bytes are about to be posted; of `signalled` sends a completion will come. */
void shim_burst_posted(struct shim_qp *one, uint64_t bytes, int64_t signalled, uint64_t now);
/* The device has not taken them. */
void shim_burst_refused(struct shim_qp *one, uint64_t bytes, int64_t signalled);
void shim_burst_completed(struct shim_qp *one, int64_t count, uint64_t now);
/* One has failed: of the others no completion may come that counts. */
void shim_burst_failed(struct shim_qp *one);

/* shim_turn.c: PCIe links. */
extern _Atomic int shim_turns; /* whether posts have to take turns at any */
void shim_turn_plan(const struct hcc_rdma_job *job);
/* Find out which link a queue pair uses. */
void shim_turn_assign(struct shim_qp *one);
/* Its turn to post `bytes`; whether there was anything to wait for. */
int shim_turn_wait(struct shim_qp *one, uint64_t bytes);
/* It has posted so much more than its turn was taken with. */
void shim_turn_used(struct shim_qp *one, uint64_t bytes);
void shim_turn_posted(struct shim_qp *one, int64_t signalled);
/* Completions of sends came in: with the last one the link is free again. */
void shim_turn_completed(struct shim_qp *one, int64_t count);
/* Of what it has under way no completion will come that counts. */
void shim_turn_gone(struct shim_qp *one);

#endif
