"""The config: read, checked against its schema, filled with defaults, as frozen dataclasses."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podium.errors import BadInput

WORKFLOW = Path(__file__).resolve().parents[1]
REPOSITORY = WORKFLOW.parent
DEFAULT = Path("config/config.yaml")


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
    threads: int
    slurm: Mapping[str, Any]
    preflight: Mapping[str, Any]
    description: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """One wanted result: `attempts` runs of a benchmark on a system, with one implementation and one of its configs."""

    system: str
    benchmark: str
    implementation: Path
    config: str
    attempts: int | None
    time_limit_minutes: float
    stop_when_lost: bool


@dataclass(frozen=True)
class DataSet:
    """Where a dataset comes from, and the layout that implementations read."""

    name: str
    source: str
    layout: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Transfer:
    """How files come and go: connections at a time, and the most bytes a second of all together, if there is a most."""

    connections: int
    megabytes_per_second: float | None


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
class Config:
    """Everything the config says; `path` is where it was read from."""

    path: Path
    root: Path
    data_root: Path
    submission: Submission
    systems: Mapping[str, System]
    results: tuple[Result, ...]
    datasets: Mapping[str, DataSet]
    transfer: Transfer
    watch: Watch
    checker_version: str

    def system(self, name: str) -> System:
        """The system of that name; raises BadInput naming the nearest one."""
        if name not in self.systems:
            raise BadInput(
                f"unknown system {name!r}", _names(self.systems), _nearest(name, self.systems), f"edit {self.path}"
            )
        return self.systems[name]

    def dataset(self, name: str) -> DataSet:
        """The data set of that name; raises BadInput naming the nearest one."""
        if name not in self.datasets:
            raise BadInput(
                f"no data set {name!r} in {self.path}",
                _names(self.datasets),
                _nearest(name, self.datasets),
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
        value = yaml.safe_load(text)
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
        systems={name: System(name=name, **system) for name, system in value["systems"].items()},
        results=tuple(
            Result(
                system=result["system"],
                benchmark=result["benchmark"],
                implementation=Path(result["implementation"]),
                config=result["config"],
                attempts=result.get("attempts"),
                time_limit_minutes=result["time_limit_minutes"],
                stop_when_lost=result["stop_when_lost"],
            )
            for result in value["results"]
        ),
        datasets={name: DataSet(name=name, **item) for name, item in value["data"]["sets"].items()},
        transfer=Transfer(**{"megabytes_per_second": None} | value["data"]["transfer"]),
        watch=_watch(value["watch"]),
        checker_version=value["checker"]["version"],
    )
    for result in config.results:
        config.system(result.system)
    return config


def _watch(value: Mapping[str, Any]) -> Watch:
    path = value.get("prometheus")
    return Watch(**{**value, "prometheus": Path(path) if path else None})


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
        raise BadInput(f"nothing in the catalog about {name}", ", ".join(known), _nearest(path.stem, known), "")
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
                    f"{path}: unknown key {key!r} in {place}", _names(known), _nearest(str(key), known), f"edit {path}"
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


def _nearest(name: str, names: Any) -> str:
    near: Iterator[str] = iter(difflib.get_close_matches(name, [str(known) for known in names], n=1))
    best = next(near, None)
    return f"{name!r}" + (f"; did you mean {best!r}?" if best else "")


def argument(parser: Any) -> None:
    """Add `--config FILE` to a verb."""
    parser.add_argument("--config", type=Path, default=DEFAULT, metavar="FILE", help=f"the config (default {DEFAULT})")
