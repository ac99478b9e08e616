/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * "Begins to send after silence", as the kernel tells a congestion control.
 *
 * Until Linux 7.1 it is an event of cwnd_event.  Since 7.2 it is an operation of its own,
 * cwnd_event_tx_start, and cubic has one in place of cwnd_event, which goes on for other events.
 * A member that a kernel does not have cannot be in an object, so the programs are compiled for
 * either.
 */
#ifndef HCC_TX_START_H
#define HCC_TX_START_H

#ifdef HCC_TX_START_OP
#define EVENT_OPS(program)                                                                        \
	.cwnd_event_tx_start = (void *)(program), .cwnd_event = (void *)hcc_restart
#define EVENT_ARGS struct sock *sk
#define EVENT CA_EVENT_TX_START
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym;
#define cubic_event() cubictcp_cwnd_event_tx_start(sk)
#else
#define EVENT_OPS(program) .cwnd_event = (void *)(program)
#define EVENT_ARGS struct sock *sk, enum tcp_ca_event ev
#define EVENT ev
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event ev) __ksym;
#define cubic_event() cubictcp_cwnd_event(sk, ev)
#endif

#endif
