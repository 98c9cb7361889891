"""How tests take hold of an implementation: its modules in this process, or several processes of it on the CPU."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

CONTAINERS = Path(__file__).parents[2] / "containers"


@contextlib.contextmanager
def modules(folder: Path) -> Iterator[SimpleNamespace]:
    """The modules of an implementation, under their own names only meanwhile: all four have a `model`."""
    own, common = ([path.stem for path in place.glob("*.py")] for place in (folder, folder / "common"))
    names = [*own, "common", *(f"common.{name}" for name in common)]
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(folder))
    try:
        shared = {name: importlib.import_module(f"common.{name}") for name in common if name != "__init__"}
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in own}, common=SimpleNamespace(**shared))
    finally:
        sys.path.remove(str(folder))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def processes(count: int, folder: Path, environment: Mapping[str, object], code: str) -> dict:
    """Run `code` in `count` processes that torchrun starts (one: plain Python); what it prints last is the JSON result.

    Only the first process may print.
    """
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "--no-python"]
    python = [sys.executable, "-c", code]
    command = python if count == 1 else [sys.executable, *launcher, *python]
    text = {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | text, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    return json.loads(done.stdout.splitlines()[-1])


def records(folder: Path) -> list[dict]:
    """The MLLOG records of the log in `folder`, each from a whole line; none where there is no log."""
    path = folder / "mllog.txt"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    assert all(line.endswith("\n") for line in lines)
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]


def accepted(log: Path, ruleset: str) -> bool:
    """What the official checker says of a log."""
    checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--ruleset", ruleset]
    command = [*checker, "--log_output", str(log.with_name("checker.log")), str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return "SUCCESS" in done.stdout + done.stderr


def config(path: Path) -> dict[str, str]:
    """The variables of a config, as a shell reads them."""
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def convergence_points(benchmark: str, ruleset: str) -> dict[int, dict]:
    """The hyperparameters of the official reference convergence points, by global batch size."""
    import mlperf_logging

    folder = Path(mlperf_logging.__file__).parent / "rcp_checker" / f"training_{ruleset}"
    points = json.loads((folder / f"rcps_{benchmark}.json").read_text())
    return {point["BS"]: point["Hyperparams"] for point in points.values()}
