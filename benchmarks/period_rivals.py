"""Pure: other methods of finding the period of a series, for comparison; each returns a number."""

from __future__ import annotations

import numpy as np

from hostcc.measure.series import ByteSeries
from hostcc.measure.spectrum import SHORTEST, autocorrelation

LEAST_CORRELATION = 0.3
"""Below it a series is not called periodic by its autocorrelation."""
LEAST_POWER = 0.2
"""Share of the spectrum's power in the strongest line, below which it is not called periodic."""


def fourier(of: ByteSeries) -> float | None:
    """The strongest line of the Fourier transform (Crux, SIGCOMM'24, section 5), seconds.

    The paper names no case without a period; asked of it here is that the line stands out.
    """
    values = of.total
    if len(values) < 2 * SHORTEST:
        return None
    power = np.abs(np.fft.rfft(values - values.mean())) ** 2
    power[0] = 0.0
    line = int(power.argmax())
    if line < 1 or power[line] < LEAST_POWER * power.sum():
        return None
    return len(values) / line * of.bin_s


def correlation(of: ByteSeries) -> float | None:
    """The lag with the highest peak of the autocorrelation, seconds."""
    values = of.total - of.total.mean()
    if len(values) < 4 * SHORTEST or not values.any():
        return None
    found = autocorrelation(values, len(values) // 2)
    inner = found[SHORTEST:-1]
    peaks = np.flatnonzero((inner > found[SHORTEST - 1 : -2]) & (inner >= found[SHORTEST + 1 :]))
    if not len(peaks) or inner[peaks].max() < LEAST_CORRELATION:
        return None
    return float(peaks[inner[peaks].argmax()] + SHORTEST) * of.bin_s
