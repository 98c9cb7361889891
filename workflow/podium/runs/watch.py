"""Waiting for a launched attempt, from whichever process launched it, and looking after it meanwhile."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.config import Config
from podium.errors import BadEnvironment
from podium.plan import Plan
from podium.runs import events, launchers, preflight, table
from podium.runs.follow import Follower
from podium.runs.launchers import CANCELLED, ENDED, NODES, RUNNING, TOLD, UNKNOWN, Launcher, State, board
from podium.runs.ledger import Attempt
from podium.signals import stoppable

# Between two looks at the attempt's folder: short for a run of seconds, long for one of hours.
SHORTEST, LONGEST, SHARE = 0.05, 2.0, 0.02
READ = 5.0  # seconds between two looks into its log
LATE = 20  # seconds that a file may take from a node's view of a shared file system to ours
TELL = 60  # seconds between two lines about a run


@dataclass(frozen=True)
class Ending:
    """How an attempt ended. `cause`: "" where it ended by itself, one of launchers.CAUSES, or what podium ended it for
    ("hang", "not a number", "degraded", "time is up"); `told`: the evidence, in words; `log`: what its log has."""

    cause: str
    told: str
    log: Follower


def wait(config: Config, wanted: Plan, attempt: Attempt, launcher: Launcher, id: str, home: Path) -> Ending:
    """Wait until the attempt has ended; ended by us when this process is told to stop, or as the config says.

    Raises BadEnvironment where only another host can tell.
    """
    watcher = _Watcher(config, wanted, attempt, launcher, id, home)
    with stoppable():
        try:
            return watcher.wait()
        except KeyboardInterrupt:
            launcher.cancel(id)
            return watcher.ending("cancelled", "podium was told to stop")


class _Watcher:
    """One attempt under watch: what was seen of it so far."""

    def __init__(self, config: Config, wanted: Plan, attempt: Attempt, launcher: Launcher, id: str, home: Path) -> None:
        self.config, self.wanted, self.attempt = config, wanted, attempt
        self.launcher, self.id, self.home = launcher, id, home
        self.runs = config.root / "runs"
        self.log = Follower(home, wanted.task.key)
        self.begun: float | None = None  # when it began to run, by this machine's monotonic clock
        self.joined = (home / NODES).exists()
        self.reported: set[str] = set()

    def wait(self) -> Ending:
        first = told = time.monotonic()
        asked = looked = -1e9
        state = State(UNKNOWN)
        while True:
            if launchers.exit_status(self.home) is not None:
                return self._ended_by_itself()
            now = time.monotonic()
            if now - asked >= max(self.launcher.interval, SHORTEST):
                before, asked = state, now
                state = board.state(self.launcher, self.wanted.system.launcher, self.runs, self.id)
                # A scheduler that is just back may not know a job yet: one that it does not know twice is lost.
                if state.phase == ENDED and (state.cause != "lost" or before.cause == "lost"):
                    return self._ended(state)
                if state.phase == UNKNOWN and not self.launcher.interval:
                    raise self._elsewhere(state)
            self._note_start(now, state)
            if self.begun is not None and now - looked >= min(READ, now - first):
                looked = now
                self.log.look()
                if ending := self._trouble(now):
                    return ending
            if now - told >= TELL:
                told = now
                self._tell(state, now)
            time.sleep(min(LONGEST, max(SHORTEST, SHARE * (now - first))))

    def ending(self, cause: str, told: str) -> Ending:
        self.log.look()
        if (self.home / CANCELLED).exists() and not cause:
            cause, told = "cancelled", "by podium cancel"
        self._event("ended" if not cause else cause.replace(" ", "_"), told=told)
        return Ending(cause, told, self.log)

    def _ended_by_itself(self) -> Ending:
        """It wrote its status. Where that is bad and the log has no end, the scheduler may know what befell it."""
        self.log.look()
        status = launchers.exit_status(self.home)
        if status == launchers.UNFIT:
            unfit, mine = preflight.unfit(self.config, self.wanted.system), launchers.nodes(self.home)
            told = "; ".join(f"{node}: {', '.join(found)}" for node, found in unfit.items() if node in mine)
            return self.ending("node not fit", told or "podium preflight could not be run there, see the output")
        if status == 0 or self.log.stopped or not self.launcher.interval:
            return self.ending("", f"exit status {status}")
        deadline = time.monotonic() + LATE
        while (state := self.launcher.states([self.id])[self.id]).phase != ENDED and time.monotonic() < deadline:
            time.sleep(1)
        cause = state.cause if state.phase == ENDED else ""
        if not cause and (self.home / TOLD).exists():  # and took it well: it ended before it was made to
            cause = "time limit"
        return self.ending(cause, state.told or f"exit status {status}")

    def _ended(self, state: State) -> Ending:
        """The scheduler says so. A job that ended by itself left its status, which a file system may show late."""
        self.launcher.collect(self.id, self.home)
        list(self.home.iterdir())
        began = (self.home / NODES).exists() and not state.cause
        deadline = time.monotonic() + (LATE if self.launcher.interval and began else 0)
        while launchers.exit_status(self.home) is None and time.monotonic() < deadline:
            list(self.home.iterdir())  # NFS reads a folder anew where it is listed
            time.sleep(0.5)
        if launchers.exit_status(self.home) is None:
            return self.ending(state.cause or "lost", state.told or "it left no exit status")
        return self.ending(state.cause, state.told)

    def _note_start(self, now: float, state: State) -> None:
        path = self.home / NODES
        if self.begun is None and (path.exists() or state.phase == RUNNING):
            # By the clock only where it began before this process came: a clock may be set while we look.
            age = time.time() - path.stat().st_mtime if self.joined else 0.0
            self.begun = now - max(0.0, age)
            self.log.changed = now
            self._event("started", nodes=launchers.nodes(self.home))

    def _trouble(self, now: float) -> Ending | None:
        """What is wrong with the run is reported once; it is ended where the config says so, or its time is up."""
        if self.begun is None:
            return None
        watch, log = self.config.watch, self.log
        quiet = (now - log.changed) / 60
        if now - self.begun > self.wanted.result.time_limit_minutes * 60:
            cause = "hang" if quiet > watch.hang_minutes or log.started is None else "time is up"
            return self._end(cause, f"the limit of {self.wanted.result.time_limit_minutes:g} min; {log.text()}")
        if log.not_a_number and self._report("not a number", log.not_a_number, watch.on_nan):
            return self._end("not a number", log.not_a_number)
        if quiet > watch.hang_minutes:
            words = f"no line for {quiet:.0f} min; {log.text()}"
            if self._report("hang", words, watch.on_hang):
                return self._end("hang", words)
        else:
            self.reported.discard("hang")
        share = log.fallen()
        if share is not None and share < watch.degraded:
            words = f"throughput {share:.0%} of that of the first blocks"
            if self._report("degraded", words, watch.on_degraded):
                return self._end("degraded", words)
        return None

    def _report(self, what: str, words: str, action: str) -> bool:
        """Say it once; true where the run is to be ended for it."""
        if what not in self.reported:
            self.reported.add(what)
            self._event(f"seen_{what.replace(' ', '_')}", told=words, action=action)
            print(f"{self._place()}: {what}: {words}", file=sys.stderr, flush=True)
        return action == "cancel"

    def _end(self, cause: str, words: str) -> Ending:
        self.launcher.cancel(self.id, stacks=cause == "hang")
        return self.ending(cause, words)

    def _tell(self, state: State, now: float) -> None:
        if self.begun is None:
            print(f"{self._place()}: {state.phase} {state.told}".rstrip(), flush=True)
        else:
            print(f"{self._place()}: {self.log.text()}, {(now - self.begun) / 60:.0f} min", flush=True)
        if self.config.watch.prometheus:
            table.write_prometheus(self.config)

    def _event(self, event: str, **facts: Any) -> None:
        events.tell(
            self.runs,
            event,
            system=self.wanted.system.name,
            benchmark=self.wanted.benchmark,
            attempt=self.attempt.number,
            **facts,
        )

    def _place(self) -> str:
        return f"run {self.wanted.benchmark} {self.attempt.wanted}"

    def _elsewhere(self, state: State) -> BadEnvironment:
        return BadEnvironment(
            f"attempt {self.attempt.number} of {self.wanted.benchmark} cannot be watched from here",
            "the host that launched it",
            state.told,
            "run the same command there; or, where that host is gone for good, "
            f"write 1 into {self.home / launchers.STATUS}",
        )
