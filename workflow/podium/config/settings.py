"""Everything that a config says, as frozen dataclasses; config/README.md is the manual of the keys."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium.config.schemas import catalog, names_of, nearest
from podium.errors import BadInput

AS_IT_IS = "asis"  # the layout of a set that is neither copied nor prepared


@dataclass(frozen=True)
class Submission:
    """Who submits, where and as what; `demo` labels everything that leaves the work root."""

    org: str
    division: str
    round: str
    status: str
    demo: bool


@dataclass(frozen=True)
class System:
    """One system: its size, how runs get onto it, and what the description cannot learn from the nodes."""

    name: str
    nodes: int
    gpus_per_node: int
    launcher: str
    engine: str
    devices: str
    threads: int
    slurm: Mapping[str, Any]
    aws_batch: Mapping[str, Any]
    preflight: Mapping[str, Any]
    description: Mapping[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """What is trained on which data set, and how its quality is read: `key` is that of the evaluations in a log.

    One of MLPerf's is in the catalog, and what is to be reached in how many runs is the pinned checker's to say. One of
    one's own is in the config, with its `target` and its `runs`.
    """

    name: str
    dataset: str
    quality: str
    better: str
    unit: str
    key: str = "eval_accuracy"
    target: float | None = None
    runs: int | None = None

    @property
    def inhouse(self) -> bool:
        return self.runs is not None


@dataclass(frozen=True)
class Result:
    """One wanted result: `attempts` runs of a benchmark on a system, with one implementation and one of its configs.

    `dataset` is the name of the set where it is not the benchmark's usual one, `image` one that somebody else built.
    """

    system: str
    benchmark: str
    implementation: Path
    config: str
    dataset: str | None
    attempts: int | None
    time_limit_minutes: float
    stop_when_lost: bool
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # beyond the run contract; set by nightlies alone


@dataclass(frozen=True)
class DataSet:
    """Where a dataset comes from, and the layout that implementations read."""

    name: str
    source: str
    layout: str
    params: Mapping[str, Any]

    @property
    def as_it_is(self) -> bool:
        """Whether an implementation reads it where it lies, in a form that is none of Podium's business."""
        return self.layout == AS_IT_IS


@dataclass(frozen=True)
class Transfer:
    """How files come and go: connections at a time, and the most bytes a second of all together, if there is a most."""

    connections: int
    megabytes_per_second: float | None


@dataclass(frozen=True)
class Images:
    """What container images are built with and where they go; `secrets` maps ids to files."""

    base: str | None
    arguments: Mapping[str, str]
    secrets: Mapping[str, Path]
    registry: str | None
    offline: bool


@dataclass(frozen=True)
class Reproduce:
    """How another submitter's result is run again and compared.

    `system` is the one of `systems` to run on (None: the first); `margin` the relative difference in time to train that
    still counts as the same; `confidence` that of the intervals. `network` lets foreign code reach other hosts; `data`
    are folders for variables of foreign scripts that no data set of ours stands for. `results` are those that the
    workflow runs again, unasked where their warning pages were `agreed` to.
    """

    system: str | None
    runs: int
    margin: float
    confidence: float
    price_per_accelerator_hour: float | None
    network: bool
    memory_gigabytes: float | None
    time_limit_minutes: float | None
    agreed: bool
    results: Sequence[Mapping[str, str]]
    data: Mapping[str, str]


@dataclass(frozen=True)
class Scrub:
    """What must not leave the site beside what is found by its form: names, the operator's `patterns` by kind, files to
    `withhold`; and what may leave all the same: texts (`allow`) and files (`allow_files`), with * and ?."""

    hosts: tuple[str, ...]
    users: tuple[str, ...]
    patterns: Mapping[str, str]
    withhold: tuple[str, ...]
    allow: tuple[str, ...]
    allow_files: tuple[str, ...]


@dataclass(frozen=True)
class Merge:
    """Another cluster's config, and where its work root lies here (None: as that config says)."""

    config: Path
    root: Path | None


@dataclass(frozen=True)
class Package:
    """What the submission is made of and where it goes. `deadline` is when it has to be there, with a time zone."""

    deadline: datetime.datetime | None
    merge: tuple[Merge, ...]
    scrub: Scrub
    encrypt: str
    upload: str | None


@dataclass(frozen=True)
class Watch:
    """What is looked for while a run goes on, and what is done about it: `report`, or `cancel` the run.

    `hang_minutes` without a new line is a hang, a throughput below `degraded` of that of the first blocks is degraded.
    `prometheus` is the file for a node exporter's textfile collector, if one is wanted.
    """

    hang_minutes: float
    degraded: float
    on_hang: str
    on_nan: str
    on_degraded: str
    prometheus: Path | None


@dataclass(frozen=True)
class NightlyResult:
    """What a night runs of one of the results: so many runs, cut short after samples or minutes, or to the target."""

    system: str
    benchmark: str
    runs: int
    samples: int | None
    minutes: float | None


@dataclass(frozen=True)
class Nightly:
    """What a night runs, what change matters (percent), the site's command for more facts, and who is told."""

    results: tuple[NightlyResult, ...]
    smallest_percent: float
    ignore_percent: float
    facts: str | None
    webhook: str | None


@dataclass(frozen=True)
class Config:
    """Everything the config says; `path` is where it was read from."""

    path: Path
    root: Path
    data_root: Path
    submission: Submission
    benchmarks: Mapping[str, Benchmark]
    systems: Mapping[str, System]
    results: tuple[Result, ...]
    datasets: Mapping[str, DataSet]
    transfer: Transfer
    images: Images
    watch: Watch
    checker_version: str
    reproduce: Reproduce
    package: Package
    nightly: Nightly

    @property
    def inhouse(self) -> bool:
        """Whether the results are of benchmarks of one's own: nothing of them is MLPerf's. A config holds one kind."""
        return any(result.benchmark in self.benchmarks for result in self.results)

    def benchmark(self, name: str) -> Benchmark:
        """The benchmark of that name, one's own or of the catalog; raises BadInput naming the nearest one."""
        if name in self.benchmarks:
            return self.benchmarks[name]
        known = catalog("benchmarks")
        if name not in known:
            raise BadInput(
                f"unknown benchmark {name!r}",
                names_of({**known, **self.benchmarks}),
                nearest(name, {**known, **self.benchmarks}),
                f"one of your own is declared under `benchmarks` in {self.path}",
            )
        return Benchmark(name=name, **known[name])

    def system(self, name: str) -> System:
        """The system of that name; raises BadInput naming the nearest one."""
        if name not in self.systems:
            raise BadInput(
                f"unknown system {name!r}", names_of(self.systems), nearest(name, self.systems), f"edit {self.path}"
            )
        return self.systems[name]

    def dataset(self, name: str) -> DataSet:
        """The data set of that name; raises BadInput naming the nearest one."""
        if name not in self.datasets:
            raise BadInput(
                f"no data set {name!r} in {self.path}",
                names_of(self.datasets),
                nearest(name, self.datasets),
                f"add data.sets.{name} to {self.path}",
            )
        return self.datasets[name]
