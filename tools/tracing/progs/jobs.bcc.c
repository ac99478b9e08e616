// SPDX-License-Identifier: GPL-2.0-only
/* Which job a socket belongs to, by cgroup and then by port, as the agent decides it. */
BPF_HASH(job_cgroups, u64, u32, 16384);	/* cgroup id -> number of the job */
BPF_HASH(job_ports, u32, u32, 32768);	/* port, and 1 << 16 for a remote one -> number */

static __always_inline u32 job_of(u64 sk)
{
	u64 cgroup = cgroup_of(sk);
	u32 *job = job_cgroups.lookup(&cgroup);
	u16 local = 0, remote = 0;
	u32 key;

	if (job)
		return *job;
	READ(local, sk, O_SK_NUM);
	key = local;
	job = job_ports.lookup(&key);
	if (job)
		return *job;
	READ(remote, sk, O_SK_DPORT);
	key = bpf_ntohs(remote) | 1 << 16;
	job = job_ports.lookup(&key);
	return job ? *job : 0;
}
