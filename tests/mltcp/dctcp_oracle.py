"""DCTCP once more, from RFC 8257 and Linux' integer arithmetic, to compare traces with.

One instance follows one socket through its records (progs/trace.bpf.c); `expected` says what
an operation has to leave behind, given what it saw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ALPHA_MAX, SHIFT_G = 1024, 4
ECN_OK, DEMAND_CWR = 1, 4
ACK_TIMER, ACK_NOW = 2, 16
RECOVERY = 3
SYN_SENT = 2
EVENT_LOSS, EVENT_NO_CE, EVENT_IS_CE = 3, 4, 5
U32 = 1 << 32


@dataclass
class After:
    """What an operation has to leave behind."""

    cwnd: int
    cwnd_cnt: int
    ssthresh: int
    alpha: int
    ecn_flags: int
    ack_pending: int
    result: int = 0


@dataclass
class DctcpOracle:
    """Sender and receiver half of one socket."""

    alpha: int = ALPHA_MAX
    window_end: int = 0
    delivered: int = 0
    delivered_ce: int = 0
    loss_cwnd: int = 0
    ce: bool = False
    initialised: bool = False
    """An accepted socket is used before the congestion control's init is called."""
    up: bool = False
    same_until: int = 0
    """Of what was received, all before this sequence number had the same mark."""

    def expected(self, op: str, r: np.void) -> After:
        if op == "init":
            vars(self).update(vars(DctcpOracle(initialised=True)))
        if not self.up and r["sk_state"] != SYN_SENT and op in ("init", "event", "in_ack"):
            # Linux calls init when the connection is up; chosen at connect() we are called
            # earlier, and nothing happens between Linux' moment and this one.
            self.up = True
            self._begin_window(r)
        after = After(
            int(r["cwnd"]), int(r["cwnd_cnt"]), int(r["ssthresh"]), self.alpha,
            int(r["ecn_flags"]), int(r["ack_pending"]),
        )  # fmt: skip
        ecn = self.up and bool(r["ecn_flags"] & ECN_OK)
        if op == "avoid":
            after.cwnd, after.cwnd_cnt = increase(r)
        elif op == "ssthresh":
            after.result = self._ssthresh(int(r["cwnd"]), ecn)
        elif op == "undo":
            after.result = max(after.cwnd, self.loss_cwnd if ecn else int(r["prior_cwnd"]))
        elif ecn:
            self._marking(op, r, after)
        if not (ecn and self.initialised):
            after.alpha = int(r["alpha_q10"])
        return after

    def _marking(self, op: str, r: np.void, after: After) -> None:
        """Operations that do nothing without ECN."""
        kind = int(r["argument"])
        if op == "in_ack":
            self._acknowledged(r)
            after.alpha = self.alpha
        elif op == "event" and kind in (EVENT_NO_CE, EVENT_IS_CE):
            self._marked(r, after)
        elif (op, kind) == ("event", EVENT_LOSS) or (
            (op, kind) == ("state", RECOVERY) and r["ca_state"] != RECOVERY
        ):
            after.ssthresh = self._lost(after.cwnd)

    def _begin_window(self, r: np.void) -> None:
        self.window_end, self.same_until = int(r["snd_nxt"]), self.same_until or int(r["rcv_nxt"])
        self.delivered, self.delivered_ce = int(r["delivered"]), int(r["delivered_ce"])

    def _acknowledged(self, r: np.void) -> None:
        """alpha = (1 - g) alpha + g F, once a window (RFC 8257, section 3.3)."""
        if (int(r["snd_una"]) - self.window_end) % U32 >= U32 // 2:
            return
        marked = (int(r["delivered_ce"]) - self.delivered_ce) % U32
        total = (int(r["delivered"]) - self.delivered) % U32
        # Small alphas do not get stuck above nought: Linux subtracts alpha as a whole.
        self.alpha -= self.alpha >> SHIFT_G or self.alpha
        if marked:
            self.alpha += (marked << (10 - SHIFT_G)) // max(1, total)
            self.alpha = min(self.alpha, ALPHA_MAX)
        self._begin_window(r)

    def _ssthresh(self, cwnd: int, ecn: bool) -> int:
        """cwnd (1 - alpha / 2); without ECN half of it."""
        if not ecn:
            return max(cwnd // 2, 2)
        self.loss_cwnd = cwnd
        return max(cwnd - (cwnd * self.alpha % U32 >> 11), 2)

    def _lost(self, cwnd: int) -> int:
        self.loss_cwnd = cwnd
        return max(cwnd // 2, 2)

    def _marked(self, r: np.void, after: After) -> None:
        """The receiver's ECE follows the marks packet by packet (section 3.2)."""
        mark = bool(r["argument"] == EVENT_IS_CE)
        if mark != self.ce:
            # So that the sender hears of it at once.  An ACK that is due goes out before; where
            # it speaks for all that has come, nothing is due any more.
            if after.ack_pending & ACK_TIMER and self.same_until == r["rcv_nxt"]:
                after.ack_pending = 0
            after.ack_pending |= ACK_NOW
        self.ce, self.same_until = mark, int(r["rcv_nxt"])
        after.ecn_flags &= ~DEMAND_CWR
        if mark:
            after.ecn_flags |= DEMAND_CWR


def increase(r: np.void) -> tuple[int, int]:
    """Slow start, then one packet a window: cwnd and the part of a packet gathered."""
    cwnd, gathered, acked = int(r["cwnd"]), int(r["cwnd_cnt"]), int(r["argument"])
    if not r["limited"]:
        return cwnd, gathered
    if cwnd < r["ssthresh"]:
        grown = min(cwnd + acked, int(r["ssthresh"]))
        acked -= grown - cwnd
        cwnd = grown
        if not acked:
            return cwnd, gathered
    window = cwnd
    if gathered >= window:
        gathered, cwnd = 0, cwnd + 1
    gathered += acked
    if gathered >= window:
        cwnd += gathered // window
        gathered %= window
    return cwnd, gathered
