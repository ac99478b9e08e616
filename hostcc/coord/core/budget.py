"""How much may be done: rates with a burst, for one thing or for many by name."""

from __future__ import annotations


class Budget:
    """Grows by `rate` per second up to `burst`."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._at = 0.0
        self.left = burst

    def refill(self, now: float) -> None:
        """Add what has grown since the last time."""
        self.left = min(self._burst, self.left + (now - self._at) * self._rate)
        self._at = now

    def take(self, amount: float) -> bool:
        """Spend if there is anything left; one spending may overdraw it."""
        if self.left <= 0:
            return False
        self.left -= amount
        return True


class Allowances:
    """A budget for each name; names that have not been seen have all of it."""

    def __init__(self, rate: float, burst: float, names: int = 4096) -> None:
        self._rate = rate
        self._burst = burst
        self._most = names
        self._budgets: dict[str, Budget] = {}

    def take(self, name: str, now: float, amount: float = 1.0) -> bool:
        """Whether one more is allowed; if so, `amount` is spent, which may overdraw it."""
        if not self.left(name, now):
            return False
        if name not in self._budgets:
            if len(self._budgets) >= self._most:
                self._sweep(now)
            self._budgets[name] = Budget(self._rate, self._burst)
            self._budgets[name].refill(now)
        self._budgets[name].left -= amount
        return True

    def left(self, name: str, now: float) -> bool:
        """Whether one more would be allowed."""
        budget = self._budgets.get(name)
        if budget is None:
            return self._burst >= 1
        budget.refill(now)
        return budget.left >= 1

    def give_back(self, name: str) -> None:
        """What was taken last turned out to be somebody else's doing."""
        if name in self._budgets:
            self._budgets[name].left += 1

    def _sweep(self, now: float) -> None:
        """Make room: those that are full again, else the oldest."""
        for name, budget in list(self._budgets.items()):
            budget.refill(now)
            if budget.left >= self._burst:
                del self._budgets[name]
        while len(self._budgets) >= self._most:
            del self._budgets[next(iter(self._budgets))]
