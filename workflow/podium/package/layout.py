"""`podium pack`: the submission tree in the official layout, built afresh beside the last one and swapped in.

Layout: MLPerf submission rules, section on the directory structure of a training submission. Only counted runs go in.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.data.verify import refuse_subset
from podium.errors import BadInput, Findings
from podium.images import lock
from podium.package import text
from podium.plan import Plan
from podium.verdict import kept
from podium.verdict.reading import logs


def pack(config: Config) -> manifest.Manifest:
    """Build `submission/<org>/` from the counted runs of every result; returns (and writes beside it) its manifest.

    Raises Findings for a result that is not compliant, BadInput for one whose data may not be behind it; the last good
    tree stays where it is.
    """
    plans = plan.plans(config)
    verdicts = [_verdict(config, item) for item in plans]
    for item, verdict in zip(plans, verdicts, strict=True):
        _check_data(config, item, verdict)
    tree = plan.tree_folder(config)
    with files.replacing(tree) as fresh:
        files.write_text(fresh / "README.md", text.tree_readme(config, plans, verdicts))
        for name in sorted({item.system.name for item in plans}):
            (fresh / "systems").mkdir(exist_ok=True)
            shutil.copyfile(plan.system_file(config, name), fresh / "systems" / f"{name}.json")
        for item, verdict in zip(plans, verdicts, strict=True):
            _add_results(config, item, verdict, fresh)
            _add_implementation(config, item, verdict, fresh)
    content = manifest.of_folder(tree, counts={"results": len(plans), "runs": sum(len(v["counted"]) for v in verdicts)})
    files.write_json(manifest_file(config), content.as_json())
    return content


def manifest_file(config: Config) -> Path:
    """Where the tree's manifest lies: beside the tree, which holds nothing but what is submitted."""
    return plan.tree_folder(config).with_suffix(".manifest.json")


def _verdict(config: Config, item: Plan) -> dict[str, Any]:
    """A result's verdict, and the gate: nothing that is not compliant is packed."""
    verdict, command = kept.read(config, item), kept.command(config, item)
    if verdict is None:
        path = plan.verdict_file(config, item)
        raise BadInput(f"{item.system.name}/{item.benchmark} is not checked", str(path), "nothing", command)
    if verdict["verdict"] != "compliant":
        found = [*verdict["findings"], *verdict["official"]["messages"]]
        raise Findings(
            f"{item.system.name}/{item.benchmark} cannot be packed",
            "a compliant result",
            "\n    ".join([verdict["verdict"], *found]),
            command,
        )
    return verdict


def _check_data(config: Config, item: Plan, verdict: dict[str, Any]) -> None:
    """In the closed division: the data are no subset, and every counted run was made with them."""
    if config.submission.division != "closed":
        return
    content = manifest.read(plan.layout_folder(config, item.dataset))
    refuse_subset(config, item.dataset, content)
    for attempt in verdict["counted"]:
        record = files.read_json(plan.result_folder(config, item) / str(attempt) / "run.json")
        if record["data"] != content.sha256:
            raise BadInput(
                f"attempt {attempt} of {item.system.name}/{item.benchmark} was made with other data",
                f"data {content.sha256}, the {item.dataset.layout} of {item.dataset.name} that the tree describes",
                f"data {record['data']}",
                f"snakemake --profile profiles/local --configfile {config.path}",
            )


def _add_results(config: Config, item: Plan, verdict: dict[str, Any], tree: Path) -> None:
    folder = tree / "results" / item.system.name / item.benchmark
    folder.mkdir(parents=True)
    for index, attempt in enumerate(verdict["counted"]):
        source = plan.result_folder(config, item) / str(attempt) / "result.txt"
        if logs.read(source).rehearsal:
            raise Findings(
                f"{source} cannot be packed: rehearsal-log",
                "the log of a training",
                "a rehearsal's (podium_rehearsal), which trains nothing",
                "podium explain rehearsal-log",
            )
        shutil.copyfile(source, folder / f"result_{index}.txt")


def _add_implementation(config: Config, item: Plan, verdict: dict[str, Any], tree: Path) -> None:
    """The implementation's own files, and beside them what the rules ask for about this system."""
    image = lock.read(plan.image_file(config, item))
    folder = tree / "benchmarks" / item.benchmark / "implementations"
    if not (folder / item.implementation).exists():
        for name in sorted(image.files):
            (folder / item.implementation / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(image.implementation) / name, folder / item.implementation / name)
    about = folder / item.system.name
    description = json.loads(plan.system_file(config, item.system.name).read_text(encoding="utf-8"))
    facts = {
        "system": description,
        "implementation": item.implementation,
        "config": f"configs/{item.result.config}.env",
        "image": {"reference": image.reference, "python": image.python, "packages": dict(image.packages)},
        "commit": image.commit,
        "data": {"set": item.dataset.name, "layout": item.dataset.layout, "manifest": _data_hash(config, item)},
        "choice_of_runs": verdict["choice"],
    }
    files.write_json(about / f"{item.system.name}_{item.implementation}.json", facts)
    files.write_text(about / "README.md", text.implementation_readme(config, item, verdict, image.reference))
    files.write_text(about / "podium.yaml", text.config_of(config, item))
    for name, content in text.scripts(config, item).items():
        files.write_text(about / name, content)
        (about / name).chmod(0o755)


def _data_hash(config: Config, item: Plan) -> str:
    return manifest.read(plan.layout_folder(config, item.dataset)).sha256


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium pack`."""
    config = configuration.load(args.config)
    content = pack(config)
    if args.json:
        print(json.dumps(content.as_json(), indent=1))
    else:
        print(f"pack: {content.counts['runs']} runs, {len(content.files)} files in {plan.tree_folder(config)}")
    return 0
