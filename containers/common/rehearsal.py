"""A rehearsal: the whole log of a closed run, without data, devices or training (`run_and_time.sh --log-only`).

The implementation's own loop writes it; a `Rehearsal` stands where the loop trains and evaluates, and its clock says
when. The log carries the key `podium_rehearsal` on a line of its own, so that nobody takes it for a result.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common.clear_cache import log_cache_clear
from common.contract import Contract, read_contract, stop
from common.distributed import World
from common.log import NAME, Log

MARK = "podium_rehearsal"


class Rehearsal:
    """Stands in for a benchmark's trainer: reference counts, and a quality that meets the target on time.

    `quality` goes from its first to its last value within `evaluations` evaluations.
    """

    def __init__(
        self,
        samples: tuple[int, int],
        quality: tuple[float, float],
        evaluations: int,
        train_seconds: float,
        eval_seconds: float,
    ) -> None:
        self.train_samples, self.eval_samples = samples
        self._first, self._last = quality
        self._evaluations, self._done = evaluations, 0
        self._train_seconds, self._eval_seconds = train_seconds, eval_seconds
        self._now = time.time()

    def clock(self) -> int:
        """Milliseconds since 1970, when this would be."""
        return int(self._now * 1000)

    def open_data(self) -> tuple[int, int]:
        """The numbers of training and evaluation samples of the reference."""
        return self.train_samples, self.eval_samples

    def train(self, part: object) -> float:
        """Take as long as training `part` would; gives a loss."""
        self._now += self._train_seconds
        return 1.0

    def evaluate(self) -> float:
        """Take as long as an evaluation would; gives the quality."""
        self._now += self._eval_seconds
        self._done += 1
        left = max(1 - self._done / self._evaluations, 0.0)
        return self._last + (self._first - self._last) * left**2


class Stage(World):
    """The world of a rehearsal: as many processes as the run would have, of which only the first is there."""

    def barrier(self) -> None:
        pass

    def agree(self, decision: bool) -> bool:
        return decision


def prepare(benchmark: str, rounds: Sequence[str]) -> tuple[Contract, World]:
    """Read the arguments, and the contract from the environment; what is not set there gets a value here."""
    parser = argparse.ArgumentParser(prog="run_and_time.sh", description="Rehearse the log of a closed run.")
    parser.add_argument("--log-only", action="store_true", required=True, help="log without training")
    parser.add_argument("--round", required=True, choices=rounds, help="the round whose keys are asked for")
    ruleset = parser.parse_args().round
    folder = Path(os.environ.get("LOGDIR") or Path(tempfile.gettempdir()) / f"podium-rehearsal-{benchmark}-{ruleset}")
    if "runs" in folder.absolute().parts:
        stop(f"LOGDIR={folder}: expected a folder outside of runs/, since a rehearsal is no result")
    os.environ |= {"MLPERF_RULESET": ruleset, "LOGDIR": str(folder), "DATADIR": "."}
    os.environ.setdefault("SEED", str(int.from_bytes(os.urandom(4), "little")))
    for name, value in {
        "MLPERF_SUBMISSION_ORG": "rehearsal",
        "MLPERF_SUBMISSION_PLATFORM": "rehearsal",
        "MLPERF_DIVISION": "closed",
        "MLPERF_STATUS": "research",
    }.items():
        os.environ.setdefault(name, value)
    contract = read_contract()
    return contract, Stage(size=contract.nodes * max(contract.gpus, 1))


def open_log(contract: Contract, rehearsal: Rehearsal) -> Log:
    """A new log that says what it is before anything else; it replaces none but a rehearsal's."""
    path = contract.log_dir / NAME
    if path.exists() and MARK not in path.read_text(encoding="utf-8").partition("\n")[0]:
        stop(f"{path}: expected no log, or a rehearsal's; set LOGDIR to another folder")
    path.unlink(missing_ok=True)
    log = Log(contract, clock=rehearsal.clock)
    log.event(MARK, True)
    log_cache_clear(contract.log_dir, "rehearsal")
    print(f"rehearsal: {path}", file=sys.stderr)
    return log
