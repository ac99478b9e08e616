/* SPDX-License-Identifier: GPL-2.0-only */
#define BPF_PROG(name, args...) name(args)
