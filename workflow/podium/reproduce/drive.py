"""One run of foreign scripts, from its start to its log: `python -m podium.reproduce.drive FOLDER`, by a launcher.

The folder has `drive.json`, which says all. The scripts run in a sandbox that sees a read-only copy of their code, the
data and LOGDIR; whatever they call outside of it is answered by the broker, within the bounds of the policy.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from podium import files
from podium.reproduce import sandbox
from podium.reproduce.sandbox import Inside
from podium.reproduce.shims import broker
from podium.reproduce.shims.policy import Policy

SETTINGS, CALLS, SCRIPT, SHIMS, LOGS = "drive.json", "calls.jsonl", "drive.sh", "shims", "logs"


@dataclass(frozen=True)
class Drive:
    """`script` is bash, run in the folder `code`; `read` and `write` are folders that it sees at their own places.

    `fingerprint` names what the run is made with: change the code or the plan, and a run is another run.
    """

    script: str
    code: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    environment: Mapping[str, str]
    minutes: float
    policy: Policy
    fingerprint: str


def save(drive: Drive, folder: Path) -> None:
    files.write_json(folder / SETTINGS, asdict(drive))


def load(folder: Path) -> Drive:
    value = files.read_json(folder / SETTINGS)
    bounds = {key: tuple(item) if isinstance(item, list) else item for key, item in value.pop("policy").items()}
    given = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    return Drive(**given, policy=Policy(**bounds))


def run(folder: Path) -> int:
    """Run it; returns its status, 124 where its time was over."""
    drive = load(folder)
    shims = folder / SHIMS
    broker.install(shims)
    (folder / LOGS).mkdir(exist_ok=True)
    script = folder / SCRIPT
    script.write_text(drive.script, encoding="utf-8")
    signal.signal(signal.SIGTERM, _end)
    with broker.listening(shims, drive.policy, folder / CALLS):
        try:
            answer = subprocess.run(
                sandbox.line(_inside(drive, folder), str(folder / "root")),
                stdin=subprocess.DEVNULL,
                timeout=drive.minutes * 60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"podium: the run took more than {drive.minutes:g} minutes and was ended", file=sys.stderr)
            return 124
    return answer.returncode


def _inside(drive: Drive, folder: Path) -> Inside:
    own = (*drive.policy.shims, str(folder / SCRIPT))
    given = {name: value for name, value in os.environ.items() if name.startswith("SLURM_") and name != "SLURM_CONF"}
    path = f"{folder / SHIMS}:{sandbox.PATH}"
    return Inside(
        ("bash", str(folder / SCRIPT)),
        drive.code,
        tuple((path, path) for path in (drive.code, *drive.read, *own)),
        tuple((path, path) for path in (*drive.write, str(folder / LOGS))),
        {**given, **drive.environment, "PATH": path},
        network=drive.policy.network,
    )


def python() -> tuple[str, ...]:
    """Where the Python of the shims lies, if not among the system's programs."""
    prefix = str(Path(sys.executable).resolve().parents[1])
    return () if prefix in ("/usr", "/usr/local", "/") else (prefix,)


def _end(*_: object) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
