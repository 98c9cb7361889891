"""Power logs of a result: the official checker's functions on the folder `power/` (package_checker.power_checker)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from podium.verdict.findings import ERROR, WARNING, Finding
from podium.verdict.official.hearing import Hearing, listening


def check(hearing: Hearing, folder: Path, logs: Sequence[Path], round: str, shown: str) -> set[str]:
    """The names (without .txt) of the results whose power logs are wrong; `shown` is how `folder` is written.

    Numbers of node and switch files must agree between runs, and every run needs a folder of its name.
    """
    from mlperf_logging.package_checker.power_checker import PowerChecker

    with listening() as lines:
        try:
            _, wrong = PowerChecker(round).check_power(str(folder), [str(path) for path in logs])
        except (ValueError, LookupError, OSError) as error:
            wrong = set()
            expected = "power/<name of the log>/node_<i>.txt, sw_<i>.txt"
            text = f"{type(error).__name__}: {error}"
            hearing.fall(Finding("power-layout", ERROR, shown, 0, expected, _why(folder, logs), text, "falls over"))
    for line in lines:
        text = line.removeprefix("WARNING: ").replace(str(folder), shown)
        hearing.warn(
            text, Finding("power-logs", WARNING, shown, 0, "power logs of every run, numbered alike", text, text)
        )
    return wrong


def _why(folder: Path, logs: Sequence[Path]) -> str:
    if not any((folder / log.stem).is_dir() for log in logs):
        return "no folder of the name of any log"
    return "files in it that have no number: " + ", ".join(
        sorted(
            path.name
            for log in logs
            for path in (folder / log.stem).glob("*")
            if path.name.startswith(("node", "sw")) and not path.stem.rsplit("_", 1)[-1].isdigit()
        )[:8]
    )
