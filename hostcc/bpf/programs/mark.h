/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Types that mark.bpf.c shares with Python; docs/internals/steering.md explains them. */
#ifndef HOSTCC_MARK_H
#define HOSTCC_MARK_H

enum mark_limits {
	MARK_JOBS = 1024,
	MARK_CGROUPS = 16384,
	MARK_PORTS = 16384,
};

enum mark_flags {
	MARK_ON = 1,		/* set `tos` on the job's sockets */
	MARK_FORCE = 2,		/* also on those that their application marked itself */
	MARK_PACE = 4,		/* set `pace` */
	MARK_CLAMP = 8,		/* set `clamp` */
};

/* mark_confs[job slot]: written by the agent only. */
struct mark_conf {
	__u32 flags;		/* enum mark_flags; 0: leave the sockets as they are */
	__u32 tos;		/* DSCP << 2 */
	__u32 clamp;		/* packets */
	__u32 stray;		/* DSCP << 2 that a killed agent left on sockets, or 0 */
	__u64 pace;		/* bytes per second of each socket */
	__u64 stray_pace;	/* left like `stray`, or 0 */
	__u32 stray_clamp;	/* left like `stray`, or 0 */
	__u32 pad;
};

/* Socket storage: what the agent has set on a socket, and the values before that. */
struct mark_sock {
	__u32 slot;
	__u32 tos;		/* as set by the agent */
	__u32 flags;		/* enum mark_flags in force */
	__u32 own_tos;		/* the value before, as are the next two */
	__u64 own_pace;
	__u32 own_clamp;
	__u32 pad;
};

/* mark_walk[0]: counts of a walk over existing sockets. */
struct mark_walk {
	__u32 seen;
	__u32 set;
	__u32 foreign;		/* left alone, because their application marked them */
	__u32 failed;
};

struct mark_port {
	__u16 port;		/* host order */
	__u16 remote;		/* 0: local port, 1: remote port */
};

#endif
