// SPDX-License-Identifier: GPL-2.0-only
/* The congestion controls of mltcp.bpf.c for kernels of Linux 7.2 and newer, see tx_start.h. */
#define HCC_TX_START_OP
#include "mltcp.bpf.c"
