"""What every service of these tests has in common: it may be absent, and it is driven by command lines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def absent(service: str, why: str) -> NoReturn:
    """Skip the test, or fail it where CI=true: there, every service must be."""
    told = f"{service}: {why}"
    pytest.fail(told) if os.environ.get("CI") == "true" else pytest.skip(told)


def output(*words: str | Path, env: dict[str, str] | None = None, status: int = 0) -> str:
    """What a command prints, standard output and error together; it must end with `status`."""
    answer = subprocess.run(
        list(map(str, words)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert answer.returncode == status, f"{words} ended with {answer.returncode}:\n{answer.stdout[-5000:]}"
    return answer.stdout
