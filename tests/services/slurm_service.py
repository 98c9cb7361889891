"""The fixtures of Slurm: one cluster without accounting and one with, for all tests of a session."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.service import absent
from services.slurm_cluster import Cluster, cluster, missing


def _started(accounting: bool) -> Iterator[Cluster]:
    if os.geteuid() != 0:
        absent("slurm", "its daemons are started as root")
    if lacking := missing(accounting):
        packages = "munge slurmctld slurmd slurm-client" + " slurmdbd mariadb-server" * accounting
        absent("slurm", f"no {', '.join(lacking)}; Debian: apt-get install {packages}")
    with tempfile.TemporaryDirectory(prefix="podium-slurm-") as place, cluster(Path(place), accounting) as made:
        yield made


@pytest.fixture(scope="session")
def plain_slurm() -> Iterator[Cluster]:
    """A cluster without accounting: sacct answers with an error."""
    yield from _started(accounting=False)


@pytest.fixture(scope="session")
def accounting_slurm() -> Iterator[Cluster]:
    """A cluster with slurmdbd."""
    yield from _started(accounting=True)


@pytest.fixture(params=["plain", "accounting"])
def slurm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Each of the two, whole and idle; this process talks to it."""
    yield from _ready(request.getfixturevalue(f"{request.param}_slurm"), monkeypatch)


@pytest.fixture
def slurm_alone(plain_slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The one without accounting: for what has nothing to do with it."""
    yield from _ready(plain_slurm, monkeypatch)


@pytest.fixture
def slurm_accounted(accounting_slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The one with accounting."""
    yield from _ready(accounting_slurm, monkeypatch)


def _ready(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SLURM_CONF", str(made.conf))
    made.revive()
    yield made
    made("scancel", "--user=root")
