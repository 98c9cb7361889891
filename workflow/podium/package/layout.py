"""`podium pack`: the submission tree in the official layout, built afresh beside the last one and swapped in.

Layout: MLPerf submission rules, section on the directory structure of a training submission. Only counted runs go in;
the ledger with all attempts, the scrub's diff for review and the manifest go beside the tree:

    submission/<org>/                 the tree
    submission/<org>.manifest.json    its files, sizes and hashes
    submission/<org>.scrub.{json,diff}  what was replaced: without, and with the values
    submission/<org>.ledger/          every attempt of every result, counted or not
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.errors import BadInput
from podium.images.lock import Image
from podium.package import gates, scrub, site, sources, text
from podium.package.sources import Source
from podium.progress import bar
from podium.runs import ledger


def pack(config: Config) -> manifest.Manifest:
    """Build `submission/<org>/` from the counted runs of every result; returns (and writes beside it) its manifest.

    Raises Findings for a result that is not compliant, BadInput for one whose data, log or code may not be behind it;
    the last good tree stays where it is.
    """
    found = sources.sources(config)
    verdicts = [gates.verdict(source) for source in found]
    for source, verdict in zip(found, verdicts, strict=True):
        gates.check_data(source, verdict)
        gates.check_attempts(source, verdict)
    tree = plan.tree_folder(config)
    with files.replacing(tree) as fresh:
        # Nobody sees these files before the swap, and the manifest is held to them before they are archived: no fsync.
        (fresh / "README.md").write_text(text.tree_readme(config, found, verdicts), encoding="utf-8")
        (fresh / "systems").mkdir()
        for name, path in sorted({source.item.system.name: source.description for source in found}.items()):
            shutil.copyfile(path, fresh / "systems" / f"{name}.json")
        images = {source.image_file: sources.image(source) for source in _one_each(found)}
        for source in _one_each(found):
            item, image = source.item, images[source.image_file]
            code = fresh / "benchmarks" / item.benchmark / "implementations" / item.implementation
            sources.copy_code(source, image, code)
        for source, verdict in bar(list(zip(found, verdicts, strict=True)), "pack", unit="result"):
            _add_results(source, verdict, fresh)
            _add_description(source, images[source.image_file], verdict, fresh)
        wanted = config.package.scrub
        cleaned = scrub.scrub(fresh, site.names(config, found), wanted.withhold, wanted.allow_files)
        _check_meaning(found, verdicts, fresh, cleaned)
        counts = {"results": len(found), "runs": sum(len(verdict["counted"]) for verdict in verdicts)}
        content = manifest.Manifest(files=cleaned.entries, counts=counts)
    _write_ledger(config, found)
    files.write_json(scrub_file(config), cleaned.as_json())
    files.write_text(scrub_file(config).with_suffix(".diff"), cleaned.diff)
    scrub_file(config).with_suffix(".diff").chmod(0o600)  # it names what must not leave
    files.write_text(manifest_file(config), json.dumps(content.as_json()) + "\n")  # of many files: not for reading
    return content


def manifest_file(config: Config) -> Path:
    """Where the tree's manifest lies: beside the tree, which holds nothing but what is submitted."""
    return plan.tree_folder(config).with_suffix(".manifest.json")


def scrub_file(config: Config) -> Path:
    """What the scrub replaced, without the values; the diff beside it has them."""
    return plan.tree_folder(config).with_suffix(".scrub.json")


def ledger_folder(config: Config) -> Path:
    """Where the ledgers of all results lie, for reviewers who ask."""
    return plan.tree_folder(config).with_suffix(".ledger")


def _add_results(source: Source, verdict: dict[str, Any], tree: Path) -> None:
    folder = tree / "results" / source.item.system.name / source.item.benchmark
    folder.mkdir(parents=True)
    for log, target in source.logs(verdict):
        shutil.copyfile(log, folder / target)


def _one_each(found: Sequence[Source]) -> list[Source]:
    """One source for each image: systems share implementations."""
    return list({source.image_file: source for source in found}.values())


def _add_description(source: Source, image: Image, verdict: dict[str, Any], tree: Path) -> None:
    """What the rules ask for about this system, beside the implementation."""
    item, config = source.item, source.config
    about = tree / "benchmarks" / item.benchmark / "implementations" / item.system.name
    content = manifest.read(plan.layout_folder(config, item.dataset))
    facts = {
        "system": files.read_json(source.description),
        "implementation": item.implementation,
        "config": f"configs/{item.result.config}.env",
        "image": {
            "engine": image.engine,
            "reference": image.reference,
            "digest": image.digest,
            "base": image.base,
            "python": image.python,
            "packages": dict(image.packages),
        },
        "commit": image.commit,
        "data": {
            "set": item.dataset.name,
            "layout": item.dataset.layout,
            "manifest": content.sha256,
            "from": content.made_from,
            "params": dict(content.params),
        },
        "runs": _runs(source, verdict),
        "choice_of_runs": {"rule": verdict["choice"], **verdict["proof"]},
    }
    scripts = text.scripts(config, item)
    written = {
        f"{item.system.name}_{item.implementation}.json": json.dumps(facts, indent=1, ensure_ascii=False) + "\n",
        "README.md": text.implementation_readme(config, item, verdict, image.reference),
        "podium.yaml": text.config_of(config, item),
        **scripts,
    }
    about.mkdir(parents=True, exist_ok=True)
    for name, words in written.items():
        (about / name).write_text(words, encoding="utf-8")
        (about / name).chmod(0o755 if name in scripts else 0o644)


def _runs(source: Source, verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Which attempt of the ledger each result file is."""
    known = {attempt.number: attempt.record or {} for attempt in source.attempts}
    return [
        {"file": target, "attempt": number, "seed": known[number]["seed"], "log": known[number]["log"]["sha256"]}
        for number, (_, target) in zip(verdict["counted"], source.logs(verdict), strict=True)
    ]


def _check_meaning(
    found: Sequence[Source], verdicts: Sequence[Mapping[str, Any]], tree: Path, cleaned: scrub.Scrubbed
) -> None:
    """A scrubbed log says the same to the checkers as that of the run: verdict, seeds, clock, convergence."""
    from podium.verdict.reading import cache

    pairs = {
        tree / place: log
        for source, verdict in zip(found, verdicts, strict=True)
        for log, name in source.logs(verdict)
        if (place := f"results/{source.item.system.name}/{source.item.benchmark}/{name}") in cleaned.replaced
    }
    if not pairs:
        return
    known = cache.digests([*pairs, *pairs.values()], found[0].config.submission.round, None)
    changed = [
        f"{new.relative_to(tree)} ({log})" for new, log in pairs.items() if _said(known[new]) != _said(known[log])
    ]
    if changed:
        raise BadInput(
            "the scrub would change what logs say",
            "nothing of it in what the checkers read: values of MLLOG records",
            "\n    ".join(changed[:10]),
            "list the text under package.scrub.allow, or make the runs anew without it in their records",
        )


def _said(digest: Any) -> Any:
    """What a log says, without the words that repeat its lines."""
    seeds = [(seed.value, seed.line) for seed in digest.seeds.found] if digest.seeds.found else []
    where = (digest.benchmark, digest.division, digest.minutes, len(digest.broken))
    return (digest.compliant, len(digest.errors), len(digest.warnings), seeds, digest.epochs, digest.samples, *where)


def _write_ledger(config: Config, found: Sequence[Source]) -> None:
    with files.replacing(ledger_folder(config)) as fresh:
        for source in found:
            target = fresh / source.item.system.name / source.item.benchmark
            target.mkdir(parents=True)
            shutil.copyfile(source.folder / ledger.NAME, target / ledger.NAME)
            for attempt in source.attempts:
                record = source.folder / str(attempt.number) / "run.json"
                if record.exists():
                    shutil.copyfile(record, target / f"{attempt.number}.json")


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium pack`."""
    config = configuration.load(args.config)
    content = pack(config)
    cleaned = files.read_json(scrub_file(config))
    if args.json:
        print(json.dumps({**content.as_json(), "scrub": cleaned}, indent=1))
        return 0
    print(f"pack: {content.counts['runs']} runs, {len(content.files)} files in {plan.tree_folder(config)}")
    places = sum(item["places"] for item in cleaned["replaced"])
    if places or cleaned["withheld"]:
        kinds = sorted({item["kind"] for item in cleaned["replaced"]})
        told = f"{places} places replaced ({', '.join(kinds)})" if places else "nothing replaced"
        review = scrub_file(config).with_suffix(".diff")
        print(f"scrub: {told}, {len(cleaned['withheld'])} files withheld; review {review}")
    for path, why in cleaned["withheld"].items():
        print(f"  withheld: {path}: {why}")
    print(f"next: podium inspect --config {config.path}")
    return 0
