/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * Types and constants of the byte meter, shared with Python through BTF.
 */
#ifndef HOSTCC_METER_H
#define HOSTCC_METER_H

#include "intf.h"

enum hcc_meter_limits {
	/*
	 * A cell packs payload and headers into one word, so that counting a packet is
	 * one atomic addition: payload bytes below, header words (of 4 bytes) above.
	 */
	HCC_METER_HEADER_SHIFT = 40,
	HCC_METER_NO_ROW = 0,	/* row 0 is never used */
	HCC_METER_LOOPBACK = 1,	/* ifindex of lo, in every network namespace */
};

/* Key of meter_rows: a job and the host that it talks to. */
struct hcc_meter_key {
	__u16 slot;
	__u8 local;		/* 1: over loopback, so it uses no link */
	__u8 pad;
	__u8 addr[16] __attribute__((aligned(4)));	/* IPv4 as ::ffff:a.b.c.d */
};

/* One time bin of a row, of one shard of the CPUs. */
struct hcc_meter_cell {
	__u64 tx;
	__u64 rx;
};

/* meter_control[0], mapped into the reader's memory. */
struct hcc_meter_control {
	__u64 first_bin;	/* reader: cells before this bin have been read and cleared */
	__u64 generation;	/* reader: raised when sockets must be classified again */
	__u64 inserted;		/* BPF: rows taken so far */
	__u64 refused;		/* BPF: packets that went to their job's `other` row */
	__u64 lost_tx_bytes;	/* BPF: not counted because the reader is a full ring behind */
	__u64 lost_rx_bytes;
	__u64 lost_packets;
};

/* Socket storage of the root programs: the job of a socket. */
struct hcc_meter_sock {
	__u64 generation;
	__u32 slot;
	__u32 by_packet;	/* unconnected: rules apply to each packet's ports */
};

#endif
