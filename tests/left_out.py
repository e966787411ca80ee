"""Report at the end of a run which tests were left out, why, and how to run them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

_RAN = ("passed", "failed", "error", "xfailed", "xpassed")
_CHOSEN = "deselected by this run's own options"


class LeftOut:
    """A plugin that counts the tests left out in every process, and reports them in the first."""

    def __init__(self) -> None:
        self._deselected: Counter[str] = Counter()
        self._total = 0
        self._collected = 0

    def deselect(self, config: pytest.Config, items: list[pytest.Item], reason: str) -> None:
        """Deselect tests for a reason, which is reported."""
        self._deselected[reason] += len(items)
        config.hook.pytest_deselected(items=items)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the tests that pytest's own options deselect."""
        self._total += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests to run."""
        self._collected = len(session.items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the counts to the first process."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["left_out"] = (dict(self._deselected), self._total, self._collected)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the counts of another process; each process collects all tests."""
        found = getattr(node, "workeroutput", {}).get("left_out")
        if found:
            self._deselected = Counter(found[0])
            self._total, self._collected = found[1:]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Report how many tests ran, what was left out, and why."""
        reasons = self._deselected + Counter({_CHOSEN: self._total - self._deselected.total()})
        for report in terminalreporter.stats.get("skipped", []):
            reasons[_reason(report)] += 1
        ran = sum(len(terminalreporter.stats.get(outcome, [])) for outcome in _RAN)
        missed = self._collected + self._total - ran - reasons.total()
        if missed > 0:
            reasons["not reached, as the run ended early"] = missed
        terminalreporter.section("what ran")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"left out: {count} tests: {reason}")
        terminalreporter.write_line(f"{ran} tests ran{'' if reasons else ', which are all'}")


def _reason(report: Any) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(reason).removeprefix("Skipped: ")
