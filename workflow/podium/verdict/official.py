"""The pinned mlperf_logging package as the authority: its functions on a copy, its messages as they are.

Its command lines exit 0 on failure and its checkers write scaling.json and logs into what they check; called as
functions on a copy they answer truly and leave the user's tree alone.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadEnvironment


@dataclass(frozen=True)
class Verdict:
    """What a checker answered, and its warnings and errors word for word."""

    passed: bool
    messages: tuple[str, ...]


def version(pinned: str) -> str:
    """The checker's version; raises BadEnvironment when it is not the one that the config pins."""
    found = importlib.metadata.version("mlperf-logging")
    if found != pinned:
        raise BadEnvironment(
            "another checker is installed than the config pins",
            f"mlperf-logging {pinned} (checker.version)",
            found,
            "make env, or change checker.version in the config",
        )
    return found


def check_log(path: Path, round: str) -> Verdict:
    """Compliance of one result log with the rules of a round (compliance_checker)."""
    from mlperf_logging.compliance_checker import mlp_compliance

    # A list of the module that an exception inside an earlier check leaves full.
    mlp_compliance.enqueued_configs.clear()
    with _heard() as messages:
        checker = mlp_compliance.make_checker("training", round, False, False)
        passed, *_ = mlp_compliance.main(str(path), f"training_{round}/common.yaml", checker)
    return Verdict(passed, tuple(messages))


def check_package(tree: Path, round: str) -> Verdict:
    """The package checker on a submission tree (systems/ and results/), run on a copy."""
    from mlperf_logging.compliance_checker import mlp_compliance
    from mlperf_logging.package_checker import package_checker

    mlp_compliance.enqueued_configs.clear()
    with _copied(tree) as copy, _heard() as messages:
        systems = package_checker.check_systems(str(copy), "training", round)
        results = package_checker.check_training_result_files(
            str(copy), "training", round, False, False, False, False, False
        )
    return Verdict(systems and results, tuple(message.replace(str(copy), tree.name) for message in messages))


def check_repository(tree: Path) -> Verdict:
    """The repository checker: names, sizes and links (its own function returns False in every case)."""
    from mlperf_logging.repo_checker import repo_checker

    with _heard() as messages:
        paths = repo_checker.list_files_recursively(str(tree))
        folders = repo_checker.list_dirs_recursively(str(tree))
        passed = all(
            (
                repo_checker._check_bad_filenames(paths, folders),
                repo_checker._check_file_sizes(paths),
                repo_checker._check_symbolic_links(str(tree), paths),
            )
        )
    return Verdict(passed, tuple(messages))


@contextlib.contextmanager
def _copied(tree: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="podium-check-") as folder:
        copy = Path(folder) / tree.name
        shutil.copytree(tree, copy, symlinks=True)
        yield copy


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.levelname}: {record.getMessage().strip()}")


@contextlib.contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect what the checkers say; they all write to the root logger."""
    root, collector = logging.getLogger(), _Collector()
    before, root.handlers = root.handlers, [collector]
    try:
        yield collector.messages
    finally:
        root.handlers = before
