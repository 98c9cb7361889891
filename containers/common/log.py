"""The MLLOG file of one run: `$LOGDIR/mllog.txt`, written by rank 0 alone, in the order that the rules ask for.

Keys and order: MLPerf training rules, and mlperf_logging's compliance checker for the ruleset.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlperf_logging.mllog import mllog

from common.contract import Contract

NAME = "mllog.txt"


@dataclass
class Outcome:
    """Set `reached` inside `timed` as soon as the target is met."""

    reached: bool = False


class Log:
    """A thin hold on mllog: `event`, `start`, `end`; nothing is written on ranks other than 0."""

    def __init__(self, contract: Contract, rank: int = 0) -> None:
        logger = logging.getLogger("podium-mllog")
        logger.propagate = False
        logger.setLevel(logging.INFO)
        logger.handlers = [logging.FileHandler(contract.log_dir / NAME)] if rank == 0 else [logging.NullHandler()]
        # root_dir is a regular expression to mllog; without it every line would carry a path of the site.
        self._mllog = mllog.MLLogger(logger, default_stack_offset=2, root_dir=re.escape(str(Path.cwd())))

    def event(self, key: str, value: object = None, **metadata: object) -> None:
        self._mllog.event(key, value, metadata=metadata or None)

    def start(self, key: str, value: object = None, **metadata: object) -> None:
        self._mllog.start(key, value, metadata=metadata or None)

    def end(self, key: str, value: object = None, **metadata: object) -> None:
        self._mllog.end(key, value, metadata=metadata or None)

    def submission(self, benchmark: str, contract: Contract) -> None:
        """Who runs what: never a placeholder, always what the launcher said."""
        self.event("submission_benchmark", benchmark)
        self.event("submission_org", contract.org)
        self.event("submission_division", contract.division)
        self.event("submission_status", contract.status)
        self.event("submission_platform", contract.platform)

    @contextlib.contextmanager
    def timed(self) -> Iterator[Outcome]:
        """The timed part: run_start, then exactly one run_stop, `aborted` when the target was not reached.

        SIGTERM ends the block like any exception, so that a cancelled run still logs how it ended.
        """
        signal.signal(signal.SIGTERM, _stop)
        outcome = Outcome()
        self.start("run_start")
        try:
            yield outcome
        finally:
            self.end("run_stop", status="success" if outcome.reached else "aborted")


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
