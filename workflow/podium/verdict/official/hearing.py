"""What the official tool says of a thing, as it goes on: its warnings and errors, and where it falls over."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from podium.verdict.findings import Finding

# The answers: it passes, it fails, the tool does not look at it, the tool falls over.
PASS, FAIL, SKIPPED, NONE = "pass", "fail", "skipped", "none"


class Hearing:
    """One thing before the official tool: what is said, what is found, how it ends."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.found: list[Finding] = []
        self._failed = self._fell = False

    def warn(self, text: str, *found: Finding) -> None:
        """The tool logs a warning."""
        self.said.append(f"WARNING: {text.strip()}")
        self.found += found

    def fail(self, text: str, *found: Finding) -> None:
        """The tool logs an error, and the answer is no."""
        self.said.append(f"ERROR: {text.strip()}")
        self.found += found
        self._failed = True

    def fall(self, *found: Finding) -> None:
        """The tool stops with a traceback."""
        self.found += found
        self._fell = True

    def join(self, other: Hearing) -> None:
        """Take over what was heard apart."""
        self.said += other.said
        self.found += other.found
        self._failed, self._fell = self._failed or other._failed, self._fell or other._fell

    @property
    def answer(self) -> str:
        return NONE if self._fell else FAIL if self._failed else PASS


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}: {record.getMessage().strip()}")


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Collect the warnings and errors of an official function; they all write to the root logger."""
    root, collector = logging.getLogger(), _Collector()
    before, root.handlers = root.handlers, [collector]
    try:
        yield collector.lines
    finally:
        root.handlers = before
