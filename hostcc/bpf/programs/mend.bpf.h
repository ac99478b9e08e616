/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work-around for kernels that lose the return value of a BPF program.  Kernels with a patch for
 * virtual machines (seen: 6.18) run no BPF program while process 1 is current.
 * __bpf_prog_enter returns 0, the trampoline skips the program and returns what was on its stack,
 * often a part of an address.  ssthresh or cwnd is then in the millions, and the flow floods the
 * path.  Impossible values are corrected at the next change of state or acknowledgement.
 *
 * tests/mltcp/test_answers.py reproduces the fault.  Remove when no kernel in use has
 * `init_owned` in struct bpf_prog_aux; mainline has never had it.
 */
#ifndef HOSTCC_MEND_BPF_H
#define HOSTCC_MEND_BPF_H

#define IMPOSSIBLE_CWND (1u << 20)		/* packets: above every bandwidth-delay product */

#define NO_SSTHRESH 0x7fffffff		/* TCP_INFINITE_SSTHRESH */

/* Whether ssthresh is impossible: during recovery it is at most the window before the loss. */
static __always_inline bool lost_ssthresh(const struct tcp_sock *tp, u8 state)
{
	u32 ssthresh = tp->snd_ssthresh;

	if (ssthresh <= tp->prior_cwnd || ssthresh <= 2)
		return false;
	return state >= TCP_CA_CWR || (ssthresh > IMPOSSIBLE_CWND && ssthresh != NO_SSTHRESH);
}

/* Correct an impossible ssthresh or cwnd; `ssthresh` is the variant's own function. */
static __always_inline void mend(struct sock *sk, u8 state, u32 (*ssthresh)(struct sock *))
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd, before = tp->prior_cwnd > 2 ? tp->prior_cwnd : 2;

	if (before > IMPOSSIBLE_CWND)
		before = 2;
	if (lost_ssthresh(tp, state)) {
		tp->snd_cwnd = before;
		tp->snd_ssthresh = ssthresh(sk);
		tp->snd_cwnd = cwnd;
	}
	if (cwnd > IMPOSSIBLE_CWND)
		tp->snd_cwnd = state >= TCP_CA_CWR ? tp->snd_ssthresh : before;
}

#endif
