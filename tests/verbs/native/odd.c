// SPDX-License-Identifier: Apache-2.0
/*
 * A program that knows nothing of hostcc and does what few programs do.
 *
 *     odd errno|cancel|fork|full|poll|env|slow|mlx5|back|refuse|crowd|devices N|undestroyed
 *         |reused|lengths|errors|bursts|vector|again|reset|drained|wrapped
 *         |attributes|leave
 *
 * Connects a queue pair, prints "connected", waits for a line; does it, prints what came of it,
 * waits for another line.  Flow label and class are those of ODD_LABEL and ODD_CLASS, and the
 * library ODD_RDMACM makes its transitions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER 17
#define PEER 0x123456
#define DEFAULT_PORT 63920 /* rdma_get_udp_sport(0, NUMBER, PEER) */
#define POSTS 40
#define ODD_ERRNO 77
#define CROWD 8
#define SHORT 256
#define LONG 65536
#define PAUSE_US 100000

extern int fake_status;
extern unsigned fake_full, fake_completed, fake_slow;
extern unsigned long fake_moves;
extern void (*fake_destroyed)(void);
struct ibv_context *fake_context(void);
struct ibv_qp *fake_qp(struct ibv_context *context, uint32_t number);
enum ibv_qp_state fake_state(const struct ibv_qp *qp);

static struct ibv_qp *qp;
static void *mlx5; /* as libibverbs loads a provider */
static _Atomic int done;

static unsigned number_of(const char *variable)
{
	const char *value = getenv(variable);

	return value ? (unsigned)strtoul(value, NULL, 0) : 0;
}

typedef int (*transition)(struct ibv_qp *, struct ibv_qp_attr *, int);

static transition transition_of(const char *variable)
{
	const char *library = getenv(variable);

	return library ? (transition)dlsym(dlopen(library, RTLD_NOW), "fake_transition") :
			 ibv_modify_qp;
}

/* From INIT on; the last byte of where it goes is `to`. */
static void connect_to(struct ibv_qp *qp, char to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.flow_label = number_of("ODD_LABEL");
	attr.ah_attr.grh.traffic_class = (uint8_t)number_of("ODD_CLASS");
	attr.dest_qp_num = PEER;
	memcpy(attr.ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x12\0", 15);
	attr.ah_attr.grh.dgid.raw[15] = (uint8_t)to;
	transition_of("ODD_RDMACM")(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	attr.qp_state = IBV_QPS_RTS;
	ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static struct ibv_qp *connected_by(struct ibv_context *context, uint32_t number)
{
	struct ibv_qp *qp = fake_qp(context, number);

	connect_to(qp, 1);
	return qp;
}

static struct ibv_qp *connected(uint32_t number)
{
	return connected_by(fake_context(), number);
}

/* The vector that it has now. */
static void say_vector(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ibv_query_qp(qp, &attr, IBV_QP_AV, &init);
	printf("%#x %u\n", attr.ah_attr.grh.flow_label, attr.ah_attr.grh.traffic_class);
}

static uint32_t length = 4096;

static int post_a(enum ibv_wr_opcode what)
{
	struct ibv_sge sge = {.length = length};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = what,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int post(void)
{
	return post_a(IBV_WR_RDMA_WRITE);
}

static int poll(void)
{
	struct ibv_cq cq = {.context = qp->context};
	struct ibv_wc wc;

	return ibv_poll_cq(&cq, 1, &wc);
}

/* What a post or a poll leaves behind. */
static int keeps_errno(void)
{
	for (int index = 0; index < POSTS; index++) {
		errno = ODD_ERRNO;
		if (post() || errno != ODD_ERRNO || poll() != 1 || errno != ODD_ERRNO)
			return 0;
	}
	return 1;
}

static void *post_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	for (int index = 0; index < POSTS; index++)
		post();
	done = 1;
	pthread_testcancel();
	return unused;
}

static void *post_one(void *unused)
{
	post();
	done = 1;
	return unused;
}

/* A request that nothing is to be read of but its kind. */
static int post_invalidate(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .num_sge = 7}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

/* Whether it gets there. */
static int in_state(enum ibv_qp_state state)
{
	for (int tries = 0; tries < 3000; tries++) {
		if (fake_state(qp) == state)
			return 1;
		usleep(10000);
	}
	return 0;
}

/* Whether libibverbs says, when asked, that the job may post. */
static int says_ready(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS &&
	       !attr.sq_draining;
}

static int has_drained(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.sq_draining = 1};

	while (!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.sq_draining)
		;
	return attr.qp_state == IBV_QPS_SQD; /* of the job's own wish */
}

/* A move that does not come to an end has begun, and the test knows it when it lets us go on. */
static void begin_slow_move(void)
{
	fake_slow = 1;
	puts("slow");
	fflush(stdout);
	getchar();
}

/* Whether libibverbs has noted that the job may post, but for the moments in which the shim looks. */
static int noted_as_ready(void)
{
	int ready = 0;

	for (int tries = 0; tries < POSTS; tries++) {
		ready += *(volatile enum ibv_qp_state *)&qp->state == IBV_QPS_RTS;
		usleep(1000);
	}
	return ready > POSTS / 2;
}

/* How many of so many devices the shim looks into; each is used, and closed at once or not. */
static int seen(int devices, int open)
{
	struct ibv_qp *mine = qp;
	void *usual = fake_context()->ops.post_send;
	int found = 0;

	for (int index = 0; index < devices; index++) {
		qp = connected(NUMBER);
		found += (void *)qp->context->ops.post_send != usual;
		if (post() || poll() != 1)
			return -1;
		if (!open) {
			struct ibv_context *context = qp->context;

			if (ibv_destroy_qp(qp) || ibv_close_device(context))
				return -1;
		}
	}
	qp = mine;
	return found;
}

/* Iterations, until a line comes: it computes, then sends, all of which is under way at once. */
static int iterate(void)
{
	for (;;) {
		struct timeval pause = {.tv_usec = PAUSE_US};
		fd_set input;

		FD_ZERO(&input);
		FD_SET(0, &input);
		if (select(1, &input, NULL, NULL, &pause))
			return 1;
		for (int index = 0; index < POSTS; index++)
			if (post())
				return 0;
		for (int index = 0; index < POSTS; index++)
			if (poll() != 1)
				return 0;
	}
}

/* Another tool that looks at posts and polls, and goes on to what was there before it. */
static int (*behind_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static int (*behind_poll)(struct ibv_cq *, int, struct ibv_wc *);
static int seen_by_tool;

static int tool_post(struct ibv_qp *pair, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	seen_by_tool++;
	return behind_post(pair, list, bad);
}

static int tool_poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	seen_by_tool++;
	return behind_poll(cq, most, wc);
}

static void connect_another(void)
{
	qp = connected(NUMBER);
}

static unsigned *port_of_mlx5(void)
{
	return dlsym(mlx5, "fake_sport");
}

static int do_it(const char *what, int number)
{
	pthread_t thread, crowd[CROWD];
	int status;

	if (!strcmp(what, "errno"))
		return keeps_errno() && !post_invalidate() && !post_a(IBV_WR_RDMA_READ);
	if (!strcmp(what, "cancel")) {
		pthread_create(&thread, NULL, post_cancelled, NULL);
		pthread_join(thread, NULL);
		return done;
	}
	if (!strcmp(what, "fork")) {
		if (!fork()) {
			post();
			exit(poll() == 1 ? 0 : 1);
		}
		return wait(&status) > 0 && !status;
	}
	if (!strcmp(what, "full")) {
		for (int index = 0; index < POSTS; index++)
			for (fake_full = 3; post();)
				;
		return 1;
	}
	if (!strcmp(what, "poll")) {
		pthread_create(&thread, NULL, post_one, NULL);
		usleep(300000);
		status = poll() == 1 && !done;
		pthread_join(thread, NULL);
		return status;
	}
	if (!strcmp(what, "crowd")) {
		for (int index = 0; index < CROWD; index++)
			pthread_create(&crowd[index], NULL, post_one, NULL);
		for (int index = 0; index < CROWD; index++)
			pthread_join(crowd[index], NULL);
		return 1;
	}
	if (!strcmp(what, "devices")) { /* one after the other, then at once */
		status = seen(number, 0);
		printf("%d %d\n", status, seen(number, 1));
		return status >= 0;
	}
	if (!strcmp(what, "undestroyed")) { /* closed under its queue pair */
		struct ibv_qp *other = connected(NUMBER + 1);

		if (ibv_close_device(other->context))
			return 0;
		puts("closed");
		fflush(stdout);
		getchar();
		return in_state(IBV_QPS_RTS) && !post();
	}
	if (!strcmp(what, "reused")) { /* memory and number of one that is being destroyed */
		uintptr_t before = (uintptr_t)qp;

		fake_destroyed = connect_another;
		return !ibv_destroy_qp(qp) && (uintptr_t)qp == before && !post();
	}
	if (!strcmp(what, "mlx5")) { /* another port by the provider's own call, in RTS */
		for (int tries = 0; tries < 3000 && *port_of_mlx5() != 50001; tries++)
			usleep(10000);
		return *port_of_mlx5() == 50001 && !fake_moves;
	}
	if (!strcmp(what, "back")) { /* to the port that the kernel makes of both numbers */
		for (int tries = 0; tries < 3000 && !*port_of_mlx5(); tries++)
			usleep(10000);
		return *port_of_mlx5() == (getenv("ODD_PORT") ? number_of("ODD_PORT") : DEFAULT_PORT) &&
		       !fake_moves;
	}
	if (!strcmp(what, "refuse")) { /* the provider has the call, the device does not */
		for (int tries = 0; tries < 3000 && !fake_moves; tries++)
			usleep(10000);
		return *port_of_mlx5() == 0 && in_state(IBV_QPS_RTS);
	}
	if (!strcmp(what, "slow")) { /* a move that does not come to an end until a line comes */
		begin_slow_move();
		status = noted_as_ready() && in_state(IBV_QPS_SQD) && says_ready();
		__atomic_store_n(&fake_slow, 0, __ATOMIC_RELAXED);
		return status && in_state(IBV_QPS_RTS) && !post();
	}
	if (!strcmp(what, "attributes")) { /* set others of it meanwhile, as is done in RTS */
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = 12};

		begin_slow_move();
		status = in_state(IBV_QPS_SQD) &&
			 !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
		__atomic_store_n(&fake_slow, 0, __ATOMIC_RELAXED);
		return status && in_state(IBV_QPS_RTS) && !post();
	}
	if (!strcmp(what, "leave")) { /* reset meanwhile, and connected anew */
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

		begin_slow_move();
		status = in_state(IBV_QPS_SQD) && !ibv_modify_qp(qp, &attr, IBV_QP_STATE) &&
			 fake_state(qp) == IBV_QPS_RESET;
		__atomic_store_n(&fake_slow, 0, __ATOMIC_RELAXED);
		connect_to(qp, 1);
		return status && in_state(IBV_QPS_RTS) && !post();
	}
	if (!strcmp(what, "lengths")) { /* many short messages, and later a long one */
		length = SHORT;
		for (int index = 0; index < POSTS; index++)
			if (post() || poll() != 1)
				return 0;
		puts("short");
		fflush(stdout);
		getchar();
		status = !fake_moves;
		length = LONG;
		if (post_a(IBV_WR_RDMA_READ)) /* comes the other way */
			return 0;
		usleep(100000);
		return status && !fake_moves && !post();
	}
	if (!strcmp(what, "errors")) { /* two that failed, and what was flushed after them */
		const int results[] = {IBV_WC_SUCCESS, IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
				       IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR};

		for (int index = 0; index < 5; index++) {
			fake_status = results[index];
			if (post() || poll() != 1)
				return 0;
		}
		return 1;
	}
	if (!strcmp(what, "again")) { /* connected anew, to another place; no completion comes */
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

		if (post() || post() || ibv_modify_qp(qp, &attr, IBV_QP_STATE))
			return 0;
		connect_to(qp, 2);
		return !post() && poll() == 1;
	}
	if (!strcmp(what, "bursts"))
		return iterate();
	if (!strcmp(what, "reset") || !strcmp(what, "drained")) { /* connected anew, to the same place */
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};

		if (*what == 'd' && (ibv_modify_qp(qp, &attr, IBV_QP_STATE) || !has_drained()))
			return 0;
		attr.qp_state = IBV_QPS_RESET;
		if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
			return 0;
		connect_to(qp, 1);
		say_vector(qp);
		return 1;
	}
	if (!strcmp(what, "wrapped")) { /* and then another queue pair of the same device */
		behind_post = qp->context->ops.post_send;
		behind_poll = qp->context->ops.poll_cq;
		qp->context->ops.post_send = tool_post;
		qp->context->ops.poll_cq = tool_poll;
		connected_by(qp->context, NUMBER + 1);
		return !post() && poll() == 1 && seen_by_tool == 2;
	}
	if (!strcmp(what, "vector")) {
		say_vector(qp);
		return 1;
	}
	if (!strcmp(what, "env"))
		return !setenv("HOSTCC_RDMA_COUNTS", "/nowhere/at/all", 1) &&
		       !setenv("HOSTCC_RDMA_PLAN", "/nowhere", 1) && !clearenv();
	return 0;
}

int main(int argc, char **argv)
{
	fake_completed = NUMBER;
	if (getenv("ODD_MLX5"))
		mlx5 = dlopen(getenv("ODD_MLX5"), RTLD_NOW);
	if (mlx5 && !strcmp(argv[1], "refuse"))
		*(unsigned *)dlsym(mlx5, "fake_refuse") = 1;
	qp = connected(NUMBER);
	puts("connected");
	fflush(stdout);
	getchar();
	puts(argc > 1 && do_it(argv[1], argc > 2 ? atoi(argv[2]) : 0) ? "good" : "bad");
	fflush(stdout);
	getchar();
	return 0;
}
