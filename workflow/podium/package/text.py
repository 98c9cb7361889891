"""The texts of a submission tree, made from facts: its README, each implementation's README and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from podium.config import Config
from podium.package.sources import Source
from podium.plan import Plan
from podium.verdict.score.score import heading, label

# libyaml where PyYAML was built with it.
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def tree_readme(config: Config, found: Sequence[Source], verdicts: Sequence[Mapping[str, Any]]) -> str:
    """README.md of the tree: what it holds, where, and how its figures may be spoken of."""
    lines = [
        f"# {heading(config)}",
        "",
        f"**{label(config)}.**",
        "",
        "| system | benchmark | counted runs | minutes | choice of runs |",
        "|---|---|---|---|---|",
    ]
    for source, verdict in zip(found, verdicts, strict=True):
        item, minutes = source.item, verdict["score"]["minutes"]
        lines.append(
            f"| {item.system.name} | {item.benchmark} | {len(verdict['counted'])} | "
            f"{'-' if minutes is None else f'{minutes:.4f}'} | {verdict['choice']} |"
        )
    lines += [
        "",
        "- `systems/<system>.json`: what each system is",
        "- `results/<system>/<benchmark>/result_<i>.txt`: the logs of the counted runs, in launch order",
        "- `benchmarks/<benchmark>/implementations/<implementation>/`: the code as it ran",
        "- `benchmarks/<benchmark>/implementations/<system>/`: how to repeat it on that system; the JSON there "
        "holds the image's lock, the hash of the data's manifest, and which runs count and why",
    ]
    lines += ["", "`SCRUBBED_…` stands for a name of the submitter's site."]
    if not config.inhouse:
        lines += ["", "MLPerf is a registered trademark of MLCommons Association; this tree was not reviewed by it."]
    lines += [""]
    return "\n".join(lines)


def implementation_readme(config: Config, item: Plan, verdict: Mapping[str, Any], reference: str) -> str:
    """README.md of a system's folder: the commands that repeat the result."""
    return f"""# {item.benchmark} on {item.system.name}

{label(config)}.

Implementation `{item.implementation}` with `configs/{item.result.config}.env`, image `{reference}`,
data set {item.dataset.name} in layout {item.dataset.layout}; {len(verdict["counted"])} runs: {verdict["choice"]}.

1. `./setup.sh` makes the environment from the implementation's pinned requirements.
2. `./init_datasets.sh` fetches and prepares the data as `podium.yaml` says.
3. `DATADIR=... LOGDIR=... SEED=... ./run_and_time.sh` is one run.

How the model, the data order and the evaluation work: `../{item.implementation}/README.md`.
"""


def config_of(config: Config, item: Plan) -> str:
    """podium.yaml of a system's folder: the part of the config that this result came from.

    A source on this site's disk becomes the folder `source` beside it, where a reader puts the same files.
    """
    dataset = item.dataset
    value = {
        "submission": asdict(config.submission),
        **({"benchmarks": {item.benchmark: _declared(item)}} if item.task.inhouse else {}),
        "systems": {item.system.name: {"nodes": item.system.nodes, "gpus_per_node": item.system.gpus_per_node}},
        "results": [
            {
                "system": item.system.name,
                "benchmark": item.benchmark,
                "implementation": f"../{item.implementation}",
                "config": item.result.config,
                "dataset": dataset.name,
                "attempts": item.attempts,
            }
        ],
        "data": {
            "sets": {
                dataset.name: {
                    "source": dataset.source if dataset.source in ("demo", "catalog") else "file:source",
                    "layout": dataset.layout,
                    "params": dict(dataset.params),
                }
            }
        },
    }
    return yaml.dump(value, Dumper=DUMPER, sort_keys=False)


def _declared(item: Plan) -> dict[str, Any]:
    return {key: value for key, value in asdict(item.task).items() if key != "name"}


def scripts(config: Config, item: Plan) -> dict[str, str]:
    """setup.sh, init_datasets.sh and run_and_time.sh of a system's folder (submission rules: required files)."""
    make = f"podium sources {item.dataset.name} --config podium.yaml\n" if item.dataset.source == "demo" else ""
    if not item.dataset.as_it_is:
        make += f"podium fetch {item.dataset.name} --config podium.yaml\n"
    identity = {
        "MLPERF_SUBMISSION_ORG": config.submission.org,
        "MLPERF_SUBMISSION_PLATFORM": item.system.name,
        "MLPERF_DIVISION": config.submission.division,
        "MLPERF_STATUS": config.submission.status,
        "DGXNNODES": item.system.nodes,
        "DGXNGPU": item.system.gpus_per_node,
    }
    return {
        "setup.sh": _script(
            f"The environment of {item.benchmark}, from the implementation's pinned requirements.",
            f'cd "$(dirname "$0")/../{item.implementation}"\n'
            "python3 -m venv .venv\n"
            ".venv/bin/pip install --requirement requirements.txt\n",
        ),
        "init_datasets.sh": _script(
            f"Fetch and prepare {item.dataset.name}; needs `podium` on the PATH.",
            f'cd "$(dirname "$0")"\n{make}podium prepare {item.dataset.name} --config podium.yaml\n',
        ),
        "run_and_time.sh": _script(
            "One run, in the environment of setup.sh; DATADIR, LOGDIR and SEED must be set.",
            f'cd "$(dirname "$0")/../{item.implementation}"\n'
            "set -a\n"
            f". configs/{item.result.config}.env\n"
            + "".join(f"{name}={value}\n" for name, value in identity.items())
            + 'PATH="$PWD/.venv/bin:$PATH"\n'
            "set +a\n"
            "exec ./run_and_time.sh\n",
        ),
    }


def _script(what: str, lines: str) -> str:
    return f"#!/usr/bin/env bash\n# {what}\nset -euo pipefail\n{lines}"
