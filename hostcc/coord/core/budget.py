"""Token buckets that allow one overdraft: for one purpose, or one for each of many names."""

from __future__ import annotations


class Budget:
    """A token bucket that gains `rate` tokens per second, up to `burst`; it starts full."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._at = 0.0
        self.left = burst

    def refill(self, now: float) -> None:
        """Add the tokens gained since the last call; `now` in seconds."""
        self.left = min(self._burst, self.left + (now - self._at) * self._rate)
        self._at = now

    def take(self, amount: float) -> bool:
        """Take `amount` and return True if any tokens are left; the last one may overdraw."""
        if self.left <= 0:
            return False
        self.left -= amount
        return True


class NamedBudgets:
    """A budget for each name; a name not seen before has a full one. At most `names` are kept."""

    def __init__(self, rate: float, burst: float, names: int = 4096) -> None:
        self._rate = rate
        self._burst = burst
        self._most = names
        self._budgets: dict[str, Budget] = {}

    def take(self, name: str, now: float, amount: float = 1.0) -> bool:
        """Take `amount` and return True if at least one token is left; this may overdraw the
        budget."""
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
        """Return whether at least one token is left."""
        budget = self._budgets.get(name)
        if budget is None:
            return self._burst >= 1
        budget.refill(now)
        return budget.left >= 1

    def give_back(self, name: str) -> None:
        """Return one token: the last `take` turned out to be another's fault."""
        if name in self._budgets:
            self._budgets[name].left += 1

    def _sweep(self, now: float) -> None:
        # First those that are full again, which loses nothing; then the oldest. Looking at all
        # takes long, so that it has to make room for many names.
        for name, budget in list(self._budgets.items()):
            budget.refill(now)
            if budget.left >= self._burst:
                del self._budgets[name]
        beyond = max(0, len(self._budgets) - self._most * 3 // 4)
        for name in list(self._budgets)[:beyond]:
            del self._budgets[name]
