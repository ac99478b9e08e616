/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Types that mark.bpf.c shares with Python; docs/steering.md explains them. */
#ifndef HOSTCC_MARK_H
#define HOSTCC_MARK_H

enum mark_limits {
	MARK_JOBS = 1024,
	MARK_CGROUPS = 16384,
	MARK_PORTS = 16384,
};

enum mark_flags {
	MARK_ON = 1,		/* sockets of the job get `tos` */
	MARK_FORCE = 2,		/* also those that their application marked itself */
	MARK_PACE = 4,		/* and this pace */
	MARK_CLAMP = 8,		/* and this bound of the window */
};

/* mark_confs[job slot]: written by the agent only. */
struct mark_conf {
	__u32 flags;		/* enum mark_flags; 0: as the sockets' owners want */
	__u32 tos;		/* DSCP << 2 */
	__u32 clamp;		/* packets */
	__u32 stray;		/* DSCP << 2 that an agent which died has left on sockets, or 0 */
	__u64 pace;		/* bytes per second of each socket */
};

/* Socket storage: what of a socket is ours. */
struct mark_sock {
	__u32 slot;
	__u32 tos;		/* as we set it */
	__u32 flags;		/* enum mark_flags that are in force */
	__u32 own_tos;		/* as it was before */
	__u64 own_pace;
	__u32 own_clamp;
	__u32 pad;
};

/* What walking over existing sockets came to: mark_walk[0]. */
struct mark_walk {
	__u32 seen;
	__u32 set;
	__u32 foreign;		/* left alone: their application marked them */
	__u32 failed;
};

struct mark_port {
	__u16 port;		/* host order */
	__u16 remote;		/* 0: local port, 1: remote port */
};

#endif
