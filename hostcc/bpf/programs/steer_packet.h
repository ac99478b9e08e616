/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the ports in a packet, behind VLAN tags, IPv4 options and IPv6 extensions. */
#ifndef HOSTCC_STEER_PACKET_H
#define HOSTCC_STEER_PACKET_H

#include "kern.h"
#include "steer.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define IPPROTO_TCP 6
#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58
#define IP_OFFSET 0x1FFF
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define EXTENSIONS 4

struct eth {
	u8 dst[6], src[6];
	u16 proto;
} __attribute__((packed));

struct vlan {
	u16 tci, proto;
};

struct ip4 {
	u8 ihl_version, tos;
	u16 len, id, frag;
	u8 ttl, proto;
	u16 csum;
	u32 src, dst;
};

struct ip6 {
	u32 first;
	u16 len;
	u8 next, hops;
	u8 src[16], dst[16];
};

struct tcp {
	u16 sport, dport;
	u32 seq, ack;
	u8 off, flags;
	u16 window, csum, urgent;
};

struct packet {
	struct steer_key key;
	u32 l3, l4;		/* offsets */
	u8 proto;
	u8 v6;
	u8 flags;		/* TCP */
	u32 seq, ack;		/* TCP */
};

static __always_inline void map4(u8 *to, u32 addr)
{
	((u32 *)to)[0] = ((u32 *)to)[1] = 0;
	((u32 *)to)[2] = bpf_htonl(0xFFFF);
	((u32 *)to)[3] = addr;
}

/* False: no transport header (truncated, or not the first fragment). */
static __always_inline bool read_ip4(struct __sk_buff *skb, struct packet *p)
{
	struct ip4 ip;
	u32 ihl;

	if (bpf_skb_load_bytes(skb, p->l3, &ip, sizeof(ip)))
		return false;
	ihl = (ip.ihl_version & 0xF) * 4;
	if (ihl < sizeof(ip) || bpf_ntohs(ip.frag) & IP_OFFSET)
		return false;
	p->proto = ip.proto;
	p->l4 = p->l3 + ihl;
	map4(p->key.src, ip.src);
	map4(p->key.dst, ip.dst);
	return true;
}

static __always_inline bool read_ip6(struct __sk_buff *skb, struct packet *p)
{
	struct ip6 ip;
	u8 next[8];

	if (bpf_skb_load_bytes(skb, p->l3, &ip, sizeof(ip)))
		return false;
	p->v6 = 1;
	p->proto = ip.next;
	p->l4 = p->l3 + sizeof(ip);
	__builtin_memcpy(p->key.src, ip.src, 16);
	__builtin_memcpy(p->key.dst, ip.dst, 16);
	for (int i = 0; i < EXTENSIONS; i++) {
		if (p->proto != 0 && p->proto != 43 && p->proto != 44 && p->proto != 60)
			break;
		if (bpf_skb_load_bytes(skb, p->l4, next, sizeof(next)))
			return false;
		if (p->proto == 44) {
			if ((next[2] << 8 | next[3]) & 0xFFF8)
				return false;
			p->l4 += 8;
		} else {
			p->l4 += 8 * (next[1] + 1);
		}
		p->proto = next[0];
	}
	return true;
}

static __always_inline bool read_packet(struct __sk_buff *skb, struct packet *p)
{
	struct eth eth;
	struct vlan vlan;
	u16 proto;

	__builtin_memset(p, 0, sizeof(*p));
	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return false;
	proto = eth.proto;
	p->l3 = sizeof(eth);
	for (int i = 0; i < 2; i++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if (bpf_skb_load_bytes(skb, p->l3, &vlan, sizeof(vlan)))
			return false;
		proto = vlan.proto;
		p->l3 += sizeof(vlan);
	}
	if (proto == bpf_htons(ETH_P_IP))
		return read_ip4(skb, p);
	if (proto == bpf_htons(ETH_P_IPV6))
		return read_ip6(skb, p);
	return false;
}

static __always_inline bool read_tcp(struct __sk_buff *skb, struct packet *p)
{
	struct tcp tcp;

	if (bpf_skb_load_bytes(skb, p->l4, &tcp, sizeof(tcp)))
		return false;
	p->key.sport = bpf_ntohs(tcp.sport);
	p->key.dport = bpf_ntohs(tcp.dport);
	p->flags = tcp.flags;
	p->seq = bpf_ntohl(tcp.seq);
	p->ack = bpf_ntohl(tcp.ack);
	return true;
}

/* The helper handles both complete checksums and those left to the device. */
static __always_inline void set_port(struct __sk_buff *skb, u32 port_at, u32 csum_at, u16 from,
				     u16 to)
{
	u16 before = bpf_htons(from), after = bpf_htons(to);

	if (csum_at)
		bpf_l4_csum_replace(skb, csum_at, before, after, sizeof(after));
	bpf_skb_store_bytes(skb, port_at, &after, sizeof(after), 0);
}

#endif
