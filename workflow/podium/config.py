"""The config: read, checked against its schema, filled with defaults, as frozen dataclasses."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podium.arguments import config as argument  # noqa: F401 - what reads a config has it from here
from podium.errors import BadInput

WORKFLOW = Path(__file__).resolve().parents[1]
REPOSITORY = WORKFLOW.parent
# libyaml where PyYAML was built with it: a config of hundreds of results is read in a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
AS_IT_IS = "asis"  # the layout of a set that is neither copied nor prepared
OPEN = ("system", "price_per_accelerator_hour", "memory_gigabytes", "time_limit_minutes")  # of reproduce: may be absent


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
                _names({**known, **self.benchmarks}),
                nearest(name, {**known, **self.benchmarks}),
                f"one of your own is declared under `benchmarks` in {self.path}",
            )
        return Benchmark(name=name, **known[name])

    def system(self, name: str) -> System:
        """The system of that name; raises BadInput naming the nearest one."""
        if name not in self.systems:
            raise BadInput(
                f"unknown system {name!r}", _names(self.systems), nearest(name, self.systems), f"edit {self.path}"
            )
        return self.systems[name]

    def dataset(self, name: str) -> DataSet:
        """The data set of that name; raises BadInput naming the nearest one."""
        if name not in self.datasets:
            raise BadInput(
                f"no data set {name!r} in {self.path}",
                _names(self.datasets),
                nearest(name, self.datasets),
                f"add data.sets.{name} to {self.path}",
            )
        return self.datasets[name]


def load(path: Path) -> Config:
    """Read and check a config file; raises BadInput that names the first wrong key, with the nearest known one."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot read the config {path}", "a YAML file", error.strerror or str(error), "podium plan --config FILE"
        ) from error
    try:
        value = yaml.load(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise BadInput(f"{path} is not YAML", "a mapping of keys", str(error), f"edit {path}") from error
    return from_mapping(value, path)


def load_for_snakemake(paths: Sequence[Path], merged: Mapping[str, Any]) -> Config:
    """The one config file of a workflow; the `podium` commands in its rules read the same file.

    `paths` are Snakemake's config files and `merged` what it made of them; raises BadInput where there are several, or
    `--config key=value` on top, which the commands would not see.
    """
    path = Path(paths[-1])
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    config = load(path)
    if len(paths) > 1 or merged != yaml.safe_load(path.read_text(encoding="utf-8")):
        raise BadInput(
            "more than one config",
            "exactly one --configfile FILE",
            ", ".join(map(str, paths)) + (" and keys by --config" if len(paths) == 1 else ""),
            "write all into one file; config/examples/ shows some",
        )
    return config


def from_mapping(value: Any, path: Path) -> Config:
    """Check a parsed config and build the dataclasses; `path` is for messages."""
    check(value, schema("config"), path)
    value = _filled(value, schema("config"))
    root = Path(value["root"])
    config = Config(
        path=path,
        root=root,
        data_root=Path(value["data"].get("root", root / "data")),
        submission=Submission(**value["submission"]),
        benchmarks={name: Benchmark(name=name, **item) for name, item in value["benchmarks"].items()},
        systems={name: System(name=name, **system) for name, system in value["systems"].items()},
        results=tuple(
            Result(
                system=result["system"],
                benchmark=result["benchmark"],
                implementation=Path(result["implementation"]),
                config=result["config"],
                dataset=result.get("dataset"),
                attempts=result.get("attempts"),
                time_limit_minutes=result["time_limit_minutes"],
                stop_when_lost=result["stop_when_lost"],
                image=result.get("image"),
            )
            for result in value["results"]
        ),
        datasets={name: DataSet(name=name, **item) for name, item in value["data"]["sets"].items()},
        transfer=Transfer(**{"megabytes_per_second": None} | value["data"]["transfer"]),
        images=_images(value["images"]),
        watch=_watch(value["watch"]),
        checker_version=value["checker"]["version"],
        reproduce=Reproduce(**dict.fromkeys(OPEN) | value["reproduce"]),
        package=_package(value["package"], path),
        nightly=_nightly(value["nightly"]),
    )
    if config.reproduce.system is not None:
        config.system(config.reproduce.system)
    for result in config.results:
        config.system(result.system)
    _check_own(config)
    for dataset in config.datasets.values():
        if dataset.as_it_is and (dataset.params or not dataset.source.startswith("file:")):
            raise BadInput(
                f"{path}: data.sets.{dataset.name} cannot be read as it is",
                f"layout {AS_IT_IS} with source file:FOLDER and no params",
                f"source {dataset.source}, params {dict(dataset.params)}",
                f"edit {path}",
            )
    return config


def _images(value: Mapping[str, Any]) -> Images:
    return Images(
        base=value.get("base"),
        arguments={name: str(item) for name, item in value["arguments"].items()},
        secrets={name: Path(path).expanduser() for name, path in value["secrets"].items()},
        registry=value.get("registry"),
        offline=value["offline"],
    )


def _package(value: Mapping[str, Any], path: Path) -> Package:
    scrub = value["scrub"]
    for kind, pattern in scrub["patterns"].items():
        try:
            re.compile(pattern)
        except re.error as error:
            expected = "a regular expression"
            raise BadInput(f"{path}: package.scrub.patterns.{kind}", expected, str(error), f"edit {path}") from error
    return Package(
        deadline=_moment(value["deadline"], path) if "deadline" in value else None,
        merge=tuple(
            Merge(Path(item["config"]), Path(item["root"]) if "root" in item else None) for item in value["merge"]
        ),
        scrub=Scrub(**{key: tuple(item) if isinstance(item, list) else item for key, item in scrub.items()}),
        encrypt=value["encrypt"],
        upload=value.get("upload"),
    )


def _moment(text: str, path: Path) -> datetime.datetime:
    """A date and time with its zone; a deadline without one is another in every office."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        expected = 'a date and time with its zone, in quotes: "2026-05-15T13:00-07:00"'
        raise BadInput(f"{path}: package.deadline is no moment", expected, repr(text), f"edit {path}")
    return moment


def _watch(value: Mapping[str, Any]) -> Watch:
    path = value.get("prometheus")
    return Watch(**{**value, "prometheus": Path(path) if path else None})


def _check_own(config: Config) -> None:
    """Benchmarks of one's own: never MLPerf's names, never beside MLPerf's results, never in a division of theirs."""
    if taken := sorted(set(config.benchmarks) & set(catalog("benchmarks"))):
        raise BadInput(
            f"{config.path}: benchmarks.{taken[0]} is MLPerf's", "a name of your own", taken[0], f"edit {config.path}"
        )
    official = [result.benchmark for result in config.results if result.benchmark not in config.benchmarks]
    if config.inhouse and official:
        raise BadInput(
            f"{config.path}: results of MLPerf's benchmarks beside those of your own",
            "one kind in a config, for your own are no MLPerf results",
            ", ".join(official),
            "give the others a config and a root of their own",
        )
    if config.inhouse and config.submission.division != "open":
        raise BadInput(
            f"{config.path}: benchmarks of your own are in no closed division",
            "submission.division: open",
            config.submission.division,
            f"edit {config.path}",
        )


def _nightly(value: Mapping[str, Any]) -> Nightly:
    results = tuple(NightlyResult(**{"samples": None, "minutes": None} | item) for item in value["results"])
    return Nightly(**{"facts": None, "webhook": None} | value | {"results": results})


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON schema `workflow/schemas/<name>.schema.yaml`."""
    return yaml.safe_load((WORKFLOW / "schemas" / f"{name}.schema.yaml").read_text(encoding="utf-8"))


@cache
def catalog(name: str) -> dict[str, Any]:
    """The facts in `workflow/catalog/<name>.yaml`; raises BadInput when there are none."""
    path = WORKFLOW / "catalog" / f"{name}.yaml"
    if not path.exists():
        known = sorted(entry.stem for entry in path.parent.glob("*.yaml"))
        raise BadInput(f"nothing in the catalog about {name}", ", ".join(known), nearest(path.stem, known), "")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def check(value: Any, rules: Mapping[str, Any], path: Path) -> None:
    """Raise BadInput for the first thing in `value` that breaks the JSON schema `rules`."""
    import jsonschema

    errors = sorted(jsonschema.Draft202012Validator(rules).iter_errors(value), key=lambda error: list(error.path))
    for error in errors:
        place = ".".join(str(part) for part in error.absolute_path) or "the config"
        if error.validator == "additionalProperties" and isinstance(error.schema.get("properties"), dict):
            known = error.schema["properties"]
            for key in sorted(set(error.instance) - set(known)):
                raise BadInput(
                    f"{path}: unknown key {key!r} in {place}", _names(known), nearest(str(key), known), f"edit {path}"
                )
        raise BadInput(
            f"{path}: {place} is wrong", _expected(error), error.message, f"edit {path}; see config/README.md"
        )


def _expected(error: Any) -> str:
    wanted = error.validator_value
    return f"{error.validator}: " + (", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted))


def _filled(value: Any, rules: Mapping[str, Any]) -> Any:
    """`value` with the schema's defaults where a key is absent."""
    if isinstance(value, dict):
        properties = rules.get("properties", {})
        other = rules.get("additionalProperties")
        filled = {
            key: _filled(item, properties.get(key, other if isinstance(other, dict) else {}))
            for key, item in value.items()
        }
        defaults = {key: _filled(rule["default"], rule) for key, rule in properties.items() if "default" in rule}
        return {**defaults, **filled}
    if isinstance(value, list):
        return [_filled(item, rules.get("items", {})) for item in value]
    return value


def _names(names: Any) -> str:
    return "one of " + ", ".join(sorted(map(str, names))) if names else "none is known"


def nearest(name: str, names: Any) -> str:
    """`name` in quotes, and the known name that is most like it."""
    near: Iterator[str] = iter(difflib.get_close_matches(name, [str(known) for known in names], n=1))
    best = next(near, None)
    return f"{name!r}" + (f"; did you mean {best!r}?" if best else "")
