// SPDX-License-Identifier: GPL-2.0-only
/* The latest state of every socket of a job, renewed with every segment that arrives. */
#define CLOSED 7	/* TCP_CLOSE */

struct window {
	u64 at_ns, bytes_acked, pacing;
	struct ends ends;
	u32 job, cwnd, ssthresh, srtt_us, min_rtt_us, inflight, mss, pad;
	char control[16];
	u8 priv[104];	/* icsk_ca_priv: what the congestion control keeps for itself */
};
BPF_TABLE("lru_hash", u64, struct window, windows, 16384);

RAW_TRACEPOINT_PROBE(tcp_probe)
{
	u64 sk = ctx->args[0], ops = 0;
	struct window w = {};

	w.job = job_of(sk);
	if (!w.job)
		return 0;
	w.at_ns = bpf_ktime_get_ns();
	read_ends(sk, &w.ends);
	READ(w.bytes_acked, sk, O_TP_ACKED);
	READ(w.pacing, sk, O_SK_PACING);
	READ(w.cwnd, sk, O_TP_CWND);
	READ(w.ssthresh, sk, O_TP_SSTHRESH);
	READ(w.srtt_us, sk, O_TP_SRTT);
	w.srtt_us >>= 3;
	READ(w.min_rtt_us, sk, O_TP_MIN_RTT);
	READ(w.inflight, sk, O_TP_OUT);
	READ(w.mss, sk, O_TP_MSS);
	READ(ops, sk, O_ICSK_CA_OPS);
	READ(w.control, ops, O_CA_NAME);
	READ(w.priv, sk, O_ICSK_CA_PRIV);
	windows.update(&sk, &w);
	return 0;
}

RAW_TRACEPOINT_PROBE(inet_sock_set_state)
{
	u64 sk = ctx->args[0];

	if (ctx->args[2] == CLOSED)
		windows.delete(&sk);
	return 0;
}
