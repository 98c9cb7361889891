"""The config: read, checked against its schema, filled with defaults; `settings` is what it becomes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from podium.arguments import config as argument
from podium.config.schemas import LOADER, WORKFLOW, catalog, check, filled, nearest, schema
from podium.config.settings import (
    AS_IT_IS,
    Benchmark,
    Config,
    DataSet,
    Images,
    Merge,
    Nightly,
    NightlyResult,
    Package,
    Reproduce,
    Result,
    Scrub,
    Submission,
    System,
    Transfer,
    Watch,
)
from podium.errors import BadInput

__all__ = [
    "AS_IT_IS",
    "WORKFLOW",
    "Benchmark",
    "Config",
    "DataSet",
    "NightlyResult",
    "Result",
    "System",
    "Transfer",
    "argument",
    "catalog",
    "check",
    "load",
    "load_for_snakemake",
    "nearest",
    "schema",
]

OPEN = ("system", "price_per_accelerator_hour", "memory_gigabytes", "time_limit_minutes")  # of reproduce: may be absent


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
    value = filled(value, schema("config"))
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
