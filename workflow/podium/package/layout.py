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
import getpass
import json
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.data.verify import refuse_unofficial
from podium.errors import BadInput, Findings
from podium.images.lock import Image
from podium.package import scrub, sources, system, text
from podium.package.detect import Names
from podium.package.sources import Source
from podium.progress import bar
from podium.runs import ledger
from podium.verdict import kept
from podium.verdict.reading import logs

COMMON_WORDS = {"localhost", "host", "node", "root", "user", "admin", "ubuntu", "mlperf", "podium", "test"}


def pack(config: Config) -> manifest.Manifest:
    """Build `submission/<org>/` from the counted runs of every result; returns (and writes beside it) its manifest.

    Raises Findings for a result that is not compliant, BadInput for one whose data, log or code may not be behind it;
    the last good tree stays where it is.
    """
    found = sources.sources(config)
    verdicts = [_verdict(source) for source in found]
    for source, verdict in zip(found, verdicts, strict=True):
        _check_data(source, verdict)
        _check_attempts(source, verdict)
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
        cleaned = scrub.scrub(fresh, names(config, found), wanted.withhold, wanted.allow_files)
        _check_meaning(found, verdicts, fresh, cleaned)
        counts = {"results": len(found), "runs": sum(len(verdict["counted"]) for verdict in verdicts)}
        content = manifest.Manifest(files=cleaned.entries, counts=counts)
    _write_ledger(config, found)
    files.write_json(scrub_file(config), cleaned.as_json())
    files.write_text(scrub_file(config).with_suffix(".diff"), cleaned.diff)
    scrub_file(config).with_suffix(".diff").chmod(0o600)  # it names what must not leave
    files.write_json(manifest_file(config), content.as_json())
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


def names(config: Config, found: Sequence[Source]) -> Names:
    """What the site is known by: as the config says, and as the nodes, the runs and this process tell."""
    wanted = config.package.scrub
    hosts = {platform.node(), *(host for source in found for host in _hosts(source))}
    roots = {folder for source in found for folder in (source.config.root, source.config.data_root)}
    folders = {str(folder.absolute()) for folder in (*roots, Path.cwd(), Path.home())}
    public = {config.submission.org, *(name for source in found for name in _public(source))}
    return Names(
        hosts=tuple(sorted({*_distinct(hosts), *wanted.hosts} - public)),
        users=tuple(sorted({*_distinct({_user()}), *wanted.users} - public)),
        paths=tuple(sorted(folder for folder in folders if folder.count("/") > 1)),
        patterns=wanted.patterns,
        allow=wanted.allow,
        public=tuple(sorted(public)),
    )


def _hosts(source: Source) -> Iterator[str]:
    """The nodes that the description and the attempts of a result name, in full and without their domain."""
    told = system.facts_file(source.config, source.item.system.name)
    named = [node["host"] for node in files.read_json(told)["nodes"]] if told.exists() else []
    for attempt in ledger.attempts(source.folder):
        named += (attempt.record or {}).get("nodes", [])
    for host in named:
        yield from (host, host.partition(".")[0])


def _public(source: Source) -> tuple[str, ...]:
    item = source.item
    return (item.system.name, item.benchmark, item.implementation, item.result.config)


def _distinct(words: Iterable[str]) -> set[str]:
    """Names that mean nothing else: short ones (n1, vm) and common ones would be found everywhere; the config can
    name them all the same."""
    return {word for word in words if len(word) > 3 and word.lower() not in COMMON_WORDS}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a container's user has no name


def _verdict(source: Source) -> dict[str, Any]:
    """A result's verdict, and the gate: nothing that is not compliant is packed."""
    config, item = source.config, source.item
    verdict, command = kept.read(config, item), kept.command(config, item)
    if not source.description.exists():
        raise BadInput(
            f"system {item.system.name} is not described",
            str(source.description),
            "nothing",
            f"podium describe --system {item.system.name} --config {config.path}",
        )
    if verdict is None:
        raise BadInput(f"{source.name} is not checked", str(plan.verdict_file(config, item)), "nothing", command)
    if verdict["verdict"] != "compliant":
        found = [*verdict["findings"], *verdict["official"]["messages"]]
        raise Findings(
            f"{source.name} cannot be packed",
            "a compliant result",
            "\n    ".join([verdict["verdict"], *found]),
            command,
        )
    if len(verdict["counted"]) != item.required:
        raise Findings(
            f"{source.name} has too few runs", f"{item.required} counted runs", str(len(verdict["counted"])), command
        )
    return verdict


def _check_data(source: Source, verdict: dict[str, Any]) -> None:
    """In the closed division: the data are no subset, and every counted run was made with them."""
    config, item = source.config, source.item
    if config.submission.division != "closed":
        return
    content = manifest.read(plan.layout_folder(config, item.dataset))
    refuse_unofficial(config, item.dataset, content)
    for attempt in verdict["counted"]:
        record = files.read_json(source.folder / str(attempt) / "run.json")
        if record["data"] != content.sha256:
            raise BadInput(
                f"attempt {attempt} of {source.name} was made with other data",
                f"data {content.sha256}, the {item.dataset.layout} of {item.dataset.name} that the tree describes",
                f"data {record['data']}",
                f"snakemake --profile profiles/local --configfile {config.path}",
            )


def _check_attempts(source: Source, verdict: dict[str, Any]) -> None:
    """The attempts are those of the ledger, each number once, with the logs that they ended with."""
    attempts = ledger.attempts(source.folder)
    for log, _ in _logs(source, verdict):
        # The word first: reading every log would cost more than packing them all.
        if log.exists() and logs.REHEARSAL.encode() in log.read_bytes() and logs.read(log).rehearsal:
            raise Findings(
                f"{log} cannot be packed: rehearsal-log",
                "the log of a training",
                "a rehearsal's (podium_rehearsal), which trains nothing",
                "podium explain rehearsal-log",
            )
    numbers = [attempt.number for attempt in attempts]
    found = [f"attempt {number} was launched twice" for number in sorted(set(numbers)) if numbers.count(number) > 1]
    known = {attempt.number: attempt for attempt in attempts}
    for number in verdict["counted"]:
        record = known[number].record if number in known else None
        if record is None:
            found.append(f"attempt {number} counts, and has no record")
        elif record["attempt"] != number:
            found.append(f"the record of attempt {number} is that of attempt {record['attempt']}")
    found += ledger.problems(source.folder)
    if found:
        raise BadInput(
            f"the ledger of {source.name} and its attempts do not fit each other",
            "each attempt once, records and logs as they were written when it ended",
            "\n    ".join(found),
            f"restore {source.folder} from a copy; what was edited cannot be submitted",
        )


def _add_results(source: Source, verdict: dict[str, Any], tree: Path) -> None:
    folder = tree / "results" / source.item.system.name / source.item.benchmark
    folder.mkdir(parents=True)
    for log, target in _logs(source, verdict):
        shutil.copyfile(log, folder / target)


def _logs(source: Source, verdict: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The counted logs in launch order, and their names in the tree."""
    for index, attempt in enumerate(verdict["counted"]):
        yield source.folder / str(attempt) / "result.txt", f"result_{index}.txt"


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
    known = {attempt.number: attempt.record or {} for attempt in ledger.attempts(source.folder)}
    return [
        {"file": target, "attempt": number, "seed": known[number]["seed"], "log": known[number]["log"]["sha256"]}
        for number, (_, target) in zip(verdict["counted"], _logs(source, verdict), strict=True)
    ]


def _check_meaning(
    found: Sequence[Source], verdicts: Sequence[Mapping[str, Any]], tree: Path, cleaned: scrub.Scrubbed
) -> None:
    """A scrubbed log says the same to the checkers as that of the run: verdict, seeds, clock, convergence."""
    from podium.verdict.reading import cache

    pairs = {
        tree / place: log
        for source, verdict in zip(found, verdicts, strict=True)
        for log, name in _logs(source, verdict)
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
            for attempt in ledger.attempts(source.folder):
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
