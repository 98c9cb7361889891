"""`podium verify`: a prepared data set against its manifest, its own format, what is published, and its source.

Three depths: `quick` looks at names, sizes and counts; `full` also at every hash and every record; `sample` at what
`quick` does and at 1 % of the items, which are made again from the source by slower code of their own.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import struct
import tarfile
import wave
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config, DataSet
from podium.data import layout as rules
from podium.data import published
from podium.data.again import Again, Sample
from podium.data.prepare import module
from podium.errors import BadInput, Findings

# What the readers of the formats raise for bytes that are none of theirs.
_UNREADABLE = (OSError, ValueError, LookupError, EOFError, struct.error, wave.Error, tarfile.TarError)
RAW = "raw"  # the layout of sets that are read as they are fetched; the catalog says what must lie there
DEPTHS = ("quick", "full", "sample")


@dataclass(frozen=True)
class Answer:
    """What was found: every problem, one sentence each; `facts` say how it was looked for."""

    content: manifest.Manifest
    problems: list[str]
    facts: dict[str, Any] = field(default_factory=dict)


def problems(config: Config, dataset: DataSet, depth: str) -> list[str]:
    """Everything by which a set contradicts its manifest or, at depth "full", its format.

    Of a set that is read as it is no format is known.
    """
    folder = plan.data_folder(config, dataset)
    content = manifest.read(plan.layout_folder(config, dataset))
    found = manifest.differences(folder, content, depth)
    if dataset.layout == RAW:
        found += rules.problems(dataset.name, folder)
    elif depth == "full" and not dataset.as_it_is:
        found += module(dataset.name).invariants(folder, dataset.layout, content.counts)
    return found


def verify(config: Config, dataset: DataSet, depth: str, seed: int | None = None) -> Answer:
    """Look at a data set of the config; `seed` draws the items of depth "sample".

    Raises BadInput where there is nothing to look at, or no source to make items again from.
    """
    folder = plan.layout_folder(config, dataset)
    content = manifest.read(folder)
    found = problems(config, dataset, "full" if depth == "full" else "quick")
    facts: dict[str, Any] = {}
    if depth == "sample":
        seed = secrets.randbits(32) if seed is None else seed
        source = _source(config, dataset, content)
        sample = Sample(source, folder, dataset.layout, content, random.Random(seed))
        again = _made_again(dataset, sample) if not found else Again(0, [])
        found += again.problems
        facts |= {"seed": seed, "made_again": again.items}
    if _is_whole(config, dataset, content):
        found += published.differences(dataset.name, content.counts)
    facts["known_issues"] = published.known_issues(dataset.name, {entry.path for entry in content.files})
    return Answer(content, found, facts)


def refuse_unofficial(config: Config, dataset: DataSet, content: manifest.Manifest) -> None:
    """Raise BadInput where a closed submission would use a subset, or a set that was not made of what is published;
    `content` describes it.
    """
    if config.submission.division != "closed":
        return
    folder = plan.layout_folder(config, dataset)
    if content.counts.get(manifest.SUBSET):
        raise BadInput(
            f"{folder} is a subset",
            "the whole set, which the closed division trains and evaluates on",
            f"take: {content.params.get('take')}",
            f"take out `take`; rm -r {folder} && podium prepare {dataset.name} --config {config.path}",
        )
    if content.counts.get(manifest.OFFICIAL) is False:
        raise BadInput(
            f"{folder} is not official",
            f"the published form of {dataset.name}, which the closed division trains and evaluates on",
            f"made of the form {content.counts.get('form')}, with other results",
            f"podium fetch {dataset.name} from the catalog, then rm -r {folder} && podium prepare {dataset.name}",
        )


def _made_again(dataset: DataSet, sample: Sample) -> Again:
    try:
        return module(dataset.name).rederive(sample)
    except _UNREADABLE as error:
        return Again(0, [f"{sample.folder}: expected items that can be compared with the source, found {error!r}"])


def _is_whole(config: Config, dataset: DataSet, content: manifest.Manifest) -> bool:
    """Whether the set must be what is published of it: fetched from the servers, or behind a closed submission."""
    if content.counts.get(manifest.SUBSET):
        return False
    return config.submission.division == "closed" or (dataset.source == "catalog" and not dataset.params)


def _source(config: Config, dataset: DataSet, content: manifest.Manifest) -> Path:
    """Where the source is; raises BadInput unless it is as it was when the layout was made."""
    if dataset.layout == RAW or dataset.as_it_is:
        raise BadInput(
            f"nothing was made of {dataset.name}", "a layout that was", f"layout {dataset.layout}", "--depth full"
        )
    raw = plan.raw_folder(config, dataset.name)
    source = manifest.read(raw)
    found = manifest.differences(raw, source, "quick")
    if source.sha256 != content.made_from:
        found.insert(0, f"sha256 {source.sha256}, where the layout was made from {content.made_from}")
    if found:
        raise BadInput(
            f"{raw} is not what {dataset.layout} was made from",
            "the files of its manifest",
            "; ".join(found[:5]),
            f"podium fetch {dataset.name} --config {config.path}",
        )
    return raw


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset")
    parser.add_argument(
        "--depth",
        choices=DEPTHS,
        default="full",
        help="quick: names, sizes, counts; full: also every hash and record; sample: quick, and 1%% made again",
    )
    parser.add_argument("--seed", type=int, help="draws the items of depth sample (default: others each time)")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium verify DATASET`: writes `<layout>.verify.json` beside the data; status 1 where anything is wrong."""
    config = configuration.load(args.config)
    dataset = config.dataset(args.dataset)
    folder = plan.layout_folder(config, dataset)
    answer = verify(config, dataset, args.depth, args.seed)
    made_by = "fetch" if dataset.layout == RAW else "prepare"
    how = args.depth
    if "made_again" in answer.facts:
        how += f", {answer.facts['made_again']} items made again, seed {answer.facts['seed']}"
    if answer.problems:
        raise Findings(
            f"{folder} is not what it must be",
            "what its manifest, its format, its source and the catalog say",
            f"{len(answer.problems)} problems ({how}):\n    " + "\n    ".join(answer.problems),
            f"rm -r {folder} && podium {made_by} {dataset.name} --config {config.path}",
        )
    told = {
        "manifest": answer.content.sha256,
        "depth": args.depth,
        "problems": answer.problems,
        **answer.facts,
        "counts": dict(answer.content.counts),
    }
    files.write_json(verified_file(folder), told)
    if args.json:
        print(json.dumps(told))
    else:
        print(f"verify {dataset.name}: {len(answer.content.files)} files right ({how})")
        for issue in answer.facts["known_issues"]:
            print(f"  known: {issue}")
    return 0


def verified_file(folder: Path) -> Path:
    """Where the answer about a layout folder is written."""
    return folder.with_name(f"{folder.name}.verify.json")
