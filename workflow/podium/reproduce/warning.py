"""The page that is read before the first line of foreign code runs: what will be executed, and what holds it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from podium import files
from podium.errors import BadInput
from podium.reproduce import sandbox
from podium.reproduce.folder import Folder
from podium.reproduce.plan import Plan

SUSPECT = (
    ("calls for rights", r"\bsudo\b"),
    ("reaches out", r"\b(curl|wget|git clone|pip3? install|apt(-get)? install|huggingface|aws s3|gsutil)\b"),
    ("deletes", r"\brm +-\w*[rf]"),
    ("stops others' work", r"\b(pkill|killall|docker (?:container )?(?:rm|stop|kill)|enroot remove|scancel)\b"),
    ("runs what it fetched", r"\|\s*(ba)?sh\b|\beval\b"),
)
SHOWN = 4  # lines of each kind


def page(plan: Plan, tree: Path, code: Folder, engine: str, network: bool) -> str:
    """The page as text."""
    lines = [
        f"WARNING: code of {plan.submitter}, which nobody here has written, is about to run on this machine.",
        "",
        f"result          {plan.submitter}/{plan.system}/{plan.benchmark}, {plan.runs} runs of {plan.required}",
        f"implementation  {plan.code} in {tree}",
        f"style, engine   {plan.style}, {engine}",
        *_image(plan, engine),
        f"time            at most {plan.limit_minutes} minutes a run",
        "",
        "What is executed:",
        *(f"  {line}" for line in plan.commands if engine != "process" or not line.startswith("docker ")),
        "",
        "Its scripts:",
    ]
    entry = plan.start[-1].removeprefix("./") if plan.start else ""
    for name in dict.fromkeys((plan.config, entry, "run_and_time.sh")):
        path = code.place / name
        if name and path.is_file():
            lines.append(f"  {files.hash_file(path)[:16]}  {name}")
    for what, found in suspects(code).items():
        lines += ["", f"What {what}:", *(f"  {line}" for line in found)]
    inside = "reaches the network (reproduce.network)" if network else "reaches no network"
    lines += [
        "",
        f"What holds it: its scripts run in a sandbox ({sandbox.way()}) with a read-only copy of the code; only",
        f"LOGDIR can be written to. It {inside}, has no sudo, and no socket of Docker or Slurm: podium answers",
        "those calls itself and writes each into calls.jsonl. Mounts outside of the run's data and logs are refused.",
    ]
    if engine == "enroot":
        lines.append("What does not: pyxis containers share the node's network.")
    if plan.image.kind == "build" and engine != "process":
        lines.append("What does not: `docker build` runs the Dockerfile's lines, with network, as Docker does.")
    return "\n".join(lines) + "\n"


def _image(plan: Plan, engine: str) -> list[str]:
    if engine == "process" or not plan.image.reference:
        return ["image           none: the code itself, with this machine's programs"]
    head = f"image           {plan.image.reference} ({plan.image.kind})"
    return [head, *(f"  from          {base}" for base in plan.image.bases)]


def suspects(code: Folder) -> dict[str, list[str]]:
    """Lines of its scripts and its Dockerfile that a reader should see, by kind, with their place."""
    found: dict[str, list[str]] = {}
    for name in code.matching("*.sh", "*.sub", "*.slurm", "Dockerfile*"):
        for number, line in enumerate(code.text(name).splitlines(), 1):
            if line.lstrip().startswith("#"):
                continue
            for what, pattern in SUSPECT:
                if re.search(pattern, line) and len(found.setdefault(what, [])) < SHOWN:
                    found[what].append(f"{name}:{number}: {line.strip()[:110]}")
    return {what: lines for what, lines in found.items() if lines}


def agreed(text: str, yes: bool, where: Path) -> None:
    """Show the page and wait for a yes; raises BadInput where nobody says so."""
    files.write_text(where, text)
    print(text, file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        expected = "--yes, or a terminal to ask on"
        raise BadInput("foreign code is not run unasked", expected, "neither", f"read {where}, then --yes")
    print("Run it? Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise BadInput("foreign code was not run", "yes", "another answer", f"read {where}")
