/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Types that steer.bpf.c shares with Python; docs/internals/steering.md explains them. */
#ifndef HOSTCC_STEER_H
#define HOSTCC_STEER_H

enum steer_limits {
	STEER_FLOWS = 16384,	/* entries of each table */
	STEER_BINDS = 4096,	/* destinations for whose new connections a port is chosen */
	STEER_BIND_PORTS = 32,	/* ports to choose from, for each destination */
	STEER_BIND_TRIES = 8,	/* ports tried for one connection before the kernel chooses */
	STEER_RESETS = 1024,	/* rewritten flows that resets may end per second */
};

/* A packet's flow; IPv4 as ::ffff:a.b.c.d, ports in host order. */
struct steer_key {
	__u8 src[16] __attribute__((aligned(4)));
	__u8 dst[16];
	__u16 sport;
	__u16 dport;
};

enum steer_kind {
	STEER_REWRITE = 1,	/* key has the own port: send with source port `port` */
	STEER_GUARD = 2,	/* key has the port on the wire: reserved for the flow with `port` */
	STEER_LABEL = 3,	/* IPv6: send with flow label `label` */
};

/* Why the BPF program stopped rewriting an entry. */
enum steer_broken {
	STEER_OK = 0,
	STEER_RESET = 1,	/* the receiver no longer knows the port on the wire */
	STEER_COLLISION = 2,	/* another connection of this host uses the port on the wire */
	STEER_ENDED = 3,	/* a new connection uses the flow's own ports */
};

/* steer_out[key with the own port, or with the port on the wire] */
struct steer_out {
	__u32 kind;		/* enum steer_kind */
	__u32 broken;		/* enum steer_broken; anything but 0: not rewritten */
	__u32 label;
	__u16 port;
	__u16 pad;
	__u32 ack;		/* acknowledgement number of the last rewritten packet */
	__u32 pad2;
	__u64 packets;		/* rewritten; approximate, not counted atomically */
	__u64 first_ns;		/* CLOCK_MONOTONIC of the first rewritten packet */
};

/* steer_in[key of the arriving packet] */
struct steer_in {
	__u64 used_ns;		/* CLOCK_MONOTONIC of the last use, to a tenth of a second */
	__u64 packets;
	__u64 stamp;		/* of the message that requested the entry */
	__u32 answered;		/* acknowledgement number of this host's SYN-ACK on this port */
	__u16 port;		/* the sender's own port */
	__u16 answers;		/* 1: `answered` is valid */
};

/* steer_strays[0]: packets ignored because they fit no flow, and resets that did fit. */
struct steer_strays {
	__u64 resets;		/* with a sequence number that the receiver cannot have sent */
	__u64 syns;		/* for a port on the wire, from an unverified sender */
	__u64 over;		/* fitting resets above the rate STEER_RESETS */
	__u64 second;		/* of CLOCK_MONOTONIC, to which `ended` refers */
	__u64 ended;		/* flows that resets ended in that second */
};

/* steer_conf[0] */
struct steer_conf {
	__u64 heartbeat_ns;	/* CLOCK_MONOTONIC of the agent's latest heartbeat */
	__u64 stale_ns;		/* if it is older than this, packets are not rewritten */
	__u64 keep_ns;		/* entries of steer_in unused for longer are dropped */
};

/* steer_binds[destination]: source ports for new connections, best first. */
struct steer_dest {
	__u8 addr[16] __attribute__((aligned(4)));
	__u16 port;		/* destination port; 0: any */
	__u16 pad;
};

struct steer_ports {
	__u32 count;
	__u32 next;		/* incremented by every connection */
	__u32 bound;		/* connections that got a port of the list */
	__u32 failed;		/* connections that did not */
	__u16 port[STEER_BIND_PORTS];
};

#endif
