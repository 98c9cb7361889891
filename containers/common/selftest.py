"""`python3 -m common.selftest`, in the folder of an implementation: can this image train on this machine?

Imports what must be there, names the accelerators or says that there are none, and trains three steps through the run
contract, on data that the implementation's `sample.py` generates. It takes seconds and ends with 0 or 1. It is the
image's health check, and a check of a node before a run: with DGXNGPU set, so many accelerators must be seen.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("numpy", "torch", "mlperf_logging.mllog")
# The config is sourced first, so that no config can undo what the run is told; as `podium run` does.
START = 'set -a; . configs/tiny.env; set +a; exec env "$@" ./run_and_time.sh'


def main() -> int:
    started = time.monotonic()
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return _failed(f"{name} cannot be imported: {error}")
    devices = accelerators()
    wanted = int(os.environ.get("DGXNGPU", "0"))
    if len(devices) < wanted:
        return _failed(f"DGXNGPU={wanted}, but {len(devices)} accelerators are seen")
    print(f"selftest: accelerators: {', '.join(devices) or 'none, so this trains on the CPU'}")

    sys.path.insert(0, "")  # the implementation's own modules, which -m puts there too
    sample = importlib.import_module("sample")
    with tempfile.TemporaryDirectory(prefix="selftest-") as place:
        data, logs = Path(place) / "data", Path(place) / "logs"
        data.mkdir()
        sample.write(data)
        status, said = train(data, logs, min(len(devices), 1), sample.SETTINGS)
        log = logs / "mllog.txt"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    stopped = [line for line in lines if '"run_stop"' in line]
    if status or len(stopped) != 1 or '"status": "success"' not in stopped[0]:
        return _failed(f"the three steps ended with status {status} and {len(stopped)} run_stop:\n{said[-3000:]}")
    print(f"selftest: three steps and an evaluation in order, {time.monotonic() - started:.1f} s in all")
    return 0


def accelerators() -> list[str]:
    """The names of the accelerators that PyTorch sees."""
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def train(data: Path, logs: Path, gpus: int, settings: Mapping[str, object]) -> tuple[int, str]:
    """One run of this folder by the run contract; returns its exit status and what it printed."""
    contract = {
        "DATADIR": data,
        "LOGDIR": logs,
        "SEED": 1,
        "DGXNNODES": 1,
        "DGXNGPU": gpus,
        "CLEAR_CACHE": "data",
        "MLPERF_SUBMISSION_ORG": "selftest",
        "MLPERF_SUBMISSION_PLATFORM": "selftest",
        "MLPERF_DIVISION": "open",
        "MLPERF_STATUS": "research",
    }
    values = [f"{name}={value}" for name, value in {**contract, **settings}.items()]
    command = ["bash", "-euc", START, "selftest", *values]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return answer.returncode, answer.stdout


def _failed(why: str) -> int:
    print(f"selftest: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
