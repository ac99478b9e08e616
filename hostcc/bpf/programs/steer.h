/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Types that steer.bpf.c shares with Python; docs/steering.md explains them. */
#ifndef HOSTCC_STEER_H
#define HOSTCC_STEER_H

enum steer_limits {
	STEER_FLOWS = 16384,	/* entries of each table */
	STEER_BINDS = 4096,	/* destinations whose new connections are given a port */
	STEER_BIND_PORTS = 32,	/* ports to choose from, for each */
	STEER_BIND_TRIES = 8,	/* of them tried for one connection before the kernel chooses */
	STEER_RESETS = 1024,	/* flows that resets may end in a second */
};

/* A packet's flow; IPv4 as ::ffff:a.b.c.d, ports in host order. */
struct steer_key {
	__u8 src[16] __attribute__((aligned(4)));
	__u8 dst[16];
	__u16 sport;
	__u16 dport;
};

enum steer_kind {
	STEER_REWRITE = 1,	/* the flow's own ports: leave with source port `port` */
	STEER_GUARD = 2,	/* the ports on the wire: belongs to the flow with `port` */
	STEER_LABEL = 3,	/* IPv6: leave with flow label `label` */
};

/* Why an entry stopped by itself. */
enum steer_broken {
	STEER_OK = 0,
	STEER_RESET = 1,	/* the receiver no longer knows the port on the wire */
	STEER_COLLISION = 2,	/* a connection of this host took the port on the wire */
	STEER_ENDED = 3,	/* a new connection has the flow's own ports */
};

/* steer_out[key as the socket has it, or as it is on the wire] */
struct steer_out {
	__u32 kind;		/* enum steer_kind */
	__u32 broken;		/* enum steer_broken; anything but 0: not rewritten */
	__u32 label;
	__u16 port;
	__u16 pad;
	__u32 ack;		/* acknowledgement number of the last packet rewritten */
	__u32 pad2;
	__u64 packets;		/* about: not counted atomically */
	__u64 first_ns;		/* CLOCK_MONOTONIC of the first packet rewritten */
};

/* steer_in[key as it arrives] */
struct steer_in {
	__u64 used_ns;		/* CLOCK_MONOTONIC of the last use, to a tenth of a second */
	__u64 packets;
	__u64 stamp;		/* of the message that asked for it */
	__u32 answered;		/* what acknowledges our answer to a SYN for the port on the wire */
	__u16 port;		/* the sender's own */
	__u16 answers;		/* 1: `answered` is set */
};

/* steer_strays[0]: packets that ended nothing because they fit no flow, and resets that did. */
struct steer_strays {
	__u64 resets;		/* with a sequence number that the receiver cannot have sent */
	__u64 syns;		/* for a port on the wire, whose sender has not shown itself */
	__u64 over;		/* fitting resets above STEER_RESETS */
	__u64 second;		/* of CLOCK_MONOTONIC, that `ended` counts in */
	__u64 ended;
};

/* steer_conf[0] */
struct steer_conf {
	__u64 beat_ns;		/* CLOCK_MONOTONIC of the agent's last sign of life */
	__u64 stale_ns;		/* older than this: nothing leaves rewritten */
	__u64 keep_ns;		/* an entry of steer_in unused for so long is gone */
};

/* steer_binds[destination]: source ports for new connections, best first. */
struct steer_dest {
	__u8 addr[16] __attribute__((aligned(4)));
	__u16 port;		/* 0: of any */
	__u16 pad;
};

struct steer_ports {
	__u32 count;
	__u32 next;		/* moved on by every connection */
	__u32 bound;
	__u32 failed;		/* connections that got no port of the list */
	__u16 port[STEER_BIND_PORTS];
};

#endif
