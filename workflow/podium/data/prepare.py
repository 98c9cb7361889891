"""`podium prepare`: a fetched data set into the layout that an implementation reads.

The data set's own module does the work; here are the work folder that survives an interruption, the manifest, and the
rename that makes the result appear whole.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from podium import config as configuration
from podium import files, manifest, plan
from podium.data import bring
from podium.data.job import Job
from podium.errors import BadInput

DATASETS = ("c4", "criteo", "govreport", "igbh", "imagenet", "kits19", "librispeech", "openimages", "wikipedia")


def module(dataset: str) -> ModuleType:
    """The module of a data set: FORMS, LAYOUTS, PARAMS, perhaps OTHER_NAMES of these and settled(params),
    prepare(job), invariants(folder, layout, counts), rederive(sample).
    """
    if dataset not in DATASETS:
        raise BadInput(
            f"no preparation for {dataset!r}", "one of " + ", ".join(DATASETS), dataset, "podium prepare --help"
        )
    return importlib.import_module(f"podium.data.{dataset}")


def prepare(
    dataset: str, source: Path, layout: str, to: Path, params: dict[str, Any], workers: int
) -> manifest.Manifest:
    """Prepare `source` into `to`; nothing is done where `to` already holds this layout of the same source and params.

    Returns the manifest, which is also written into `to`. Until all is done the files lie in `<to>.partial`, and a
    second call goes on from there; two at the same time take turns. With the parameter `take` the counts say `subset`.
    Raises BadInput for an unknown layout or parameter, a source that is wrong, or a subset in place of a whole set.
    """
    maker = module(dataset)
    _known("layout", layout, maker.LAYOUTS)
    other_names = getattr(maker, "OTHER_NAMES", {})
    params = {other_names.get(name, name): value for name, value in params.items()}
    for name in params:
        _known("parameter", name, maker.PARAMS)
    params = getattr(maker, "settled", dict)(params)
    take = _take(params)
    if not source.is_dir():
        raise BadInput(f"no source for {dataset}", "a folder", f"nothing at {source}", f"podium fetch {dataset}")
    fetched = manifest.read(source) if (source / manifest.NAME).exists() else manifest.Manifest(files=())
    made_from = fetched.sha256 if fetched.files else str(source)
    with files.locked(to.with_name(f".{to.name}.lock")):
        if (to / manifest.NAME).exists():
            present = manifest.read(to)
            if (present.made_from, dict(present.params)) == (made_from, params) and not manifest.differences(
                to, present, "quick"
            ):
                return present
            if take and not present.counts.get(manifest.SUBSET):
                raise BadInput(
                    f"{to} holds a whole set", "a folder of its own for a subset", f"take {take}", "give another --to"
                )
        partial = to.with_name(f"{to.name}.partial")
        _resume(partial, {"from": made_from, "layout": layout, "params": params})
        if not (partial / _COUNTS).exists():
            with files.explained(to):
                counts = maker.prepare(Job(source=source, layout=layout, to=partial, params=params, workers=workers))
            files.write_json(partial / _COUNTS, {**counts, manifest.SUBSET: bool(take), **fetched.marks})
        made = manifest.of_folder(
            partial, counts=files.read_json(partial / _COUNTS), params=params, made_from=made_from
        )
        made = replace(made, files=tuple(entry for entry in made.files if not _hidden(Path(entry.path))))
        manifest.write(partial, made)
        for path in filter(_hidden, files.walk(partial)):
            (partial / path).unlink()
        with files.replacing(to) as fresh:
            fresh.rmdir()
            partial.rename(fresh)
    return made


def _take(params: dict[str, Any]) -> int:
    """The parameter `take`, which all data sets have: 0 is all; raises BadInput for anything but a whole number."""
    take = params.get("take", 0)
    if not isinstance(take, int) or isinstance(take, bool) or take < 0:
        raise BadInput("parameter take", "a whole number, or 0 for all", repr(take), "podium prepare --help")
    return take


_PLAN, _COUNTS = ".plan.json", ".counts.json"  # what is being made; what the data set's module counted at its end


def _resume(partial: Path, wanted: dict[str, Any]) -> None:
    """Keep the files of an interrupted try only if it was made from the same source with the same parameters.

    Hidden files are those that were being written when it was interrupted.
    """
    marker = partial / _PLAN
    if partial.exists() and not (marker.exists() and files.read_json(marker) == wanted):
        shutil.rmtree(partial)
    for path in files.walk(partial):
        if path.name.startswith(".") and path.name not in (_PLAN, _COUNTS):
            (partial / path).unlink()
    files.write_json(marker, wanted)


def _hidden(path: Path) -> bool:
    """Whether a file is no part of the result: notes, or what a process that was killed left half written."""
    return any(part.startswith(".") for part in path.parts)


def _known(what: str, name: str, known: dict[str, str]) -> None:
    if name not in known:
        raise BadInput(f"unknown {what} {name!r}", "one of " + ", ".join(sorted(known)), name, "podium prepare --help")


def _help() -> str:
    """Every form, layout and parameter of every data set, for `podium prepare --help`."""
    lines = []
    for dataset in DATASETS:
        maker = module(dataset)
        lines.append(f"{dataset}:")
        for title, table in (("form", maker.FORMS), ("layout", maker.LAYOUTS), ("param", maker.PARAMS)):
            lines += [f"  {title:6} {name:18} {line}" for name, line in table.items()]
    return "\n".join(lines)


def _params(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise BadInput(f"cannot read {path}", "a YAML or JSON mapping", str(error), "podium prepare --help") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path} holds no parameters", "a mapping", type(value).__name__, "podium prepare --help")
    return value


class _Help(argparse.Action):
    """`--help` with every form, layout and parameter; the data sets' modules are imported for it alone."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.print_help()
        print("\n" + _help())
        parser.exit()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", help=", ".join(DATASETS) + "; or any set of the config that is read as it is")
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="this help, with every form, layout and parameter")
    parser.add_argument("--from", dest="source", type=Path, metavar="DIR", help="the source (default: from the config)")
    parser.add_argument("--layout", help="the layout (default: from the config)")
    parser.add_argument("--to", type=Path, metavar="DIR", help="where to (default: from the config)")
    parser.add_argument(
        "--params", type=Path, metavar="FILE", help="YAML or JSON with parameters (default: from the config)"
    )
    parser.add_argument(
        "--take", type=int, metavar="N", help="only the first N items, the parameter `take`: a subset for tests"
    )
    parser.add_argument(
        "--tokenizer", metavar="PATH", help="tokenizer.json or its folder, the parameter `tokenizer` (c4)"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes; the bytes do not depend on it"
    )
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium prepare DATASET [--take N] [--tokenizer PATH] [--from DIR --layout L --to DIR [--params FILE]]`.

    With the three no config is read.
    """
    given = (args.source, args.layout, args.to)
    if all(given):
        source, layout, to, params = args.source, args.layout, args.to, _params(args.params)
    elif any(given):
        raise BadInput(
            "half a source", "--from, --layout and --to together, or none", "some of them", "podium prepare --help"
        )
    else:
        config = configuration.load(args.config)
        dataset = config.dataset(args.dataset)
        if dataset.as_it_is:
            return _tell(args, dataset.layout, plan.data_folder(config, dataset), bring.bring(config, dataset))
        source, layout = plan.raw_folder(config, dataset.name), dataset.layout
        to, params = plan.layout_folder(config, dataset), dict(dataset.params)
    if args.take is not None:
        params["take"] = args.take
    if args.tokenizer is not None:
        params["tokenizer"] = args.tokenizer
    return _tell(args, layout, to, prepare(args.dataset, source, layout, to, params, args.workers))


def _tell(args: argparse.Namespace, layout: str, to: Path, made: manifest.Manifest) -> int:
    if args.json:
        print(json.dumps(made.as_json(), indent=1))
    else:
        print(f"prepare {args.dataset}: {layout} in {to}, {len(made.files)} files, {dict(made.counts)}")
    return 0
