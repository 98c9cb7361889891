"""From the config to what must be made: which runs, from which data and images; and where everything lies."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium import config as configuration
from podium.config import Benchmark, Config, DataSet, Result, System
from podium.errors import BadInput


@dataclass(frozen=True)
class Plan:
    """One result and all it hangs on. `required` runs are counted; `attempts` are launched."""

    result: Result
    task: Benchmark
    system: System
    dataset: DataSet
    required: int
    attempts: int

    @property
    def benchmark(self) -> str:
        return self.result.benchmark

    @property
    def implementation(self) -> str:
        """The name of the implementation: that of its folder."""
        return self.result.implementation.name


def plans(config: Config) -> tuple[Plan, ...]:
    """Every result of the config; raises BadInput for a benchmark that the round does not know, or a wrong number of
    attempts.

    Run counts and the list of benchmarks of a round: mlperf_logging.benchmark_meta.
    """
    found = tuple(_plan(config, result) for result in config.results)
    seen: set[tuple[str, str]] = set()
    for plan in found:
        key = (plan.system.name, plan.benchmark)
        if key in seen:
            raise BadInput(
                f"two results for {key[1]} on {key[0]}",
                "one result for each system and benchmark",
                "the pair is listed twice",
                f"give one of them a system name of its own in {config.path}",
            )
        seen.add(key)
    _check_kinds(config, found)
    return found


def _check_kinds(config: Config, found: Sequence[Plan]) -> None:
    """One implementation has one image: for containers, or for engine `process`."""
    kinds: dict[Path, Plan] = {}
    for plan in found:
        first = kinds.setdefault(image_file(config, plan), plan)
        if {first.system.engine, plan.system.engine} > {"process"}:
            raise BadInput(
                f"two kinds of image for {plan.benchmark} of {plan.implementation}",
                "engine process on all systems that run it, or on none",
                f"{first.system.engine} on {first.system.name}, {plan.system.engine} on {plan.system.name}",
                f"give one of them a config with a root of its own; edit {config.path}",
            )


def of(config: Config, system: str, benchmark: str) -> Plan:
    """The plan of one result; raises BadInput when the config does not list it."""
    for plan in plans(config):
        if (plan.system.name, plan.benchmark) == (system, benchmark):
            return plan
    listed = ", ".join(f"{plan.system.name}/{plan.benchmark}" for plan in plans(config))
    raise BadInput(f"no result {system}/{benchmark} in {config.path}", f"one of {listed}", "another", "podium plan")


def required_runs(benchmark: str, round: str) -> int:
    """The number of runs that a result needs, from the pinned checker's own table."""
    from mlperf_logging.benchmark_meta import get_allowed_benchmarks, get_result_file_counts

    try:
        allowed = get_allowed_benchmarks("training", round)
    except (KeyError, ValueError) as error:
        raise BadInput(f"unknown round {round}", "a ruleset like 3.1.0", str(error), "see config/README.md") from error
    if benchmark not in allowed:
        raise BadInput(
            f"benchmark {benchmark} is not in round {round}",
            "one of " + ", ".join(sorted(allowed)),
            benchmark,
            "choose another round or benchmark in the config",
        )
    return get_result_file_counts("training")[benchmark]


def _plan(config: Config, result: Result) -> Plan:
    task = config.benchmark(result.benchmark)
    required = task.runs or required_runs(result.benchmark, config.submission.round)
    attempts = result.attempts or required
    if attempts < required:
        raise BadInput(
            f"too few attempts for {result.benchmark} on {result.system}",
            f"at least the {required} runs that the rules require",
            f"attempts: {attempts}",
            f"edit {config.path}",
        )
    return Plan(
        result=result,
        task=task,
        system=config.system(result.system),
        dataset=config.dataset(result.dataset or task.dataset),
        required=required,
        attempts=attempts,
    )


# Where things lie below the work root (design section 5). Every path that two stages share is built here.


def raw_folder(config: Config, dataset: str) -> Path:
    return config.data_root / dataset / "raw"


def layout_folder(config: Config, dataset: DataSet) -> Path:
    """Where the manifest of a prepared set is, and its files too, unless they are read as they are."""
    return config.data_root / dataset.name / dataset.layout


def data_folder(config: Config, dataset: DataSet) -> Path:
    """What a run reads: the prepared layout, or the set where it lies."""
    return Path(dataset.source.removeprefix("file:")) if dataset.as_it_is else layout_folder(config, dataset)


def image_file(config: Config, plan: Plan) -> Path:
    return config.root / "images" / plan.benchmark / plan.implementation / "image.json"


def system_file(config: Config, system: str) -> Path:
    return config.root / "systems" / f"{system}.json"


def result_folder(config: Config, plan: Plan) -> Path:
    return config.root / "runs" / plan.system.name / plan.benchmark


def stamps(config: Config, plan: Plan) -> list[Path]:
    """One file for each wanted run; it names the attempt of the ledger that stands for the run."""
    return [result_folder(config, plan) / str(number) / "stamp.json" for number in range(plan.attempts)]


def implementation_files(plan: Plan) -> list[Path]:
    """What a change of makes another image: every file of the implementation, through its links."""
    found = []
    for base, folders, names in os.walk(plan.result.implementation, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        found += [Path(base) / name for name in names if not name.startswith(".")]
    return sorted(found)


def verdict_file(config: Config, plan: Plan) -> Path:
    return config.root / "verdicts" / plan.system.name / f"{plan.benchmark}.json"


def tree_folder(config: Config) -> Path:
    """Results of one's own benchmarks never come near a submission."""
    return config.root / ("inhouse" if config.inhouse else "submission") / config.submission.org


def summary(config: Config) -> list[Mapping[str, object]]:
    """The plan as rows, for people and machines."""
    return [
        {
            "system": plan.system.name,
            "benchmark": plan.benchmark,
            "implementation": str(plan.result.implementation),
            "config": plan.result.config,
            "required": plan.required,
            "attempts": plan.attempts,
            "dataset": plan.dataset.name,
            "layout": plan.dataset.layout,
        }
        for plan in plans(config)
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium plan`: what the config asks for."""
    rows = summary(configuration.load(args.config))
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(
            f"{row['system']}/{row['benchmark']}: {row['attempts']} attempts ({row['required']} counted) of "
            f"{row['implementation']} with configs/{row['config']}.env on {row['dataset']} ({row['layout']})"
        )
    return 0
