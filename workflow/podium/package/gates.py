"""What a result has to pass before it is packed: its description, its verdict, its data, its attempts."""

from __future__ import annotations

from typing import Any

from podium import files, manifest, plan
from podium.data.verify import refuse_unofficial
from podium.errors import BadInput, Findings
from podium.package.sources import Source
from podium.runs import ledger
from podium.verdict import kept
from podium.verdict.reading import logs


def verdict(source: Source) -> dict[str, Any]:
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


def check_data(source: Source, verdict: dict[str, Any]) -> None:
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


def check_attempts(source: Source, verdict: dict[str, Any]) -> None:
    """The attempts are those of the ledger, each number once, with the logs that they ended with."""
    attempts = source.attempts
    for log, _ in source.logs(verdict):
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
