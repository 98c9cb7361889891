"""Which implementation and which config of a submitter made a published result. Nobody writes it down.

Told apart by what must agree (nodes, accelerators, global batch size), and by names. Nothing is executed: the numbers
of a config are read from its text, and from names like DGXA100_8x8x204 (nodes x accelerators x batch of each).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from podium.reproduce import discover
from podium.reproduce.discover import Implementation, Published
from podium.reproduce.folder import Folder

SIZES = re.compile(r"(?<!\d)(\d{1,4})x(\d{1,2})x(\d{1,5})(?!\d)")
ACCELERATOR = re.compile(r"(?<![A-Z0-9])(GB[23]00|[ABHVL]\d{2,3}|MI\d{3}[AX]?|Gaudi2?|RTX\w+)(?![0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Choice:
    """The implementation and config (empty: it needs none) that most likely made a result, and why that is thought."""

    implementation: Implementation
    config: str
    score: float
    reasons: tuple[str, ...]


def choose(published: Published, found: Sequence[Implementation], batch_size: int | None) -> Choice | None:
    """The best choice among a submitter's implementations of the benchmark; None where it has none.

    `batch_size` is the global batch size of the logs.
    """
    names = {published.result.benchmark, discover.benchmark(published.result.benchmark)}
    mine = [item for item in found if item.submitter == published.result.submitter]
    mine = [item for item in mine if item.benchmark in names or discover.benchmark(item.benchmark) in names]
    choices = [
        _weighed(published, item, config, batch_size)
        for item in mine
        for config in ([item.style.config] if item.style.config else item.configs or [""])
    ]
    return max(choices, key=lambda choice: choice.score, default=None)


def _weighed(published: Published, item: Implementation, config: str, batch_size: int | None) -> Choice:
    score, reasons = 0.0, []
    system = published.result.system
    if item.refused:
        score -= 2
    if item.style.name == "wrapper" and likeness(system, item.name) < 0.8:
        score -= 3  # it stands for another system
    for name, what in ((item.name, "folder"), (config.rpartition("/")[2], "config")):
        like = likeness(system, name)
        score += 3 * like
        if like > 0.75:
            reasons.append(f"the {what}'s name {name} is like {system}")
    nodes, gpus, batch = sizes(item.code, config)
    for have, want, what in ((nodes, published.nodes, "nodes"), (gpus, published.gpus, "accelerators a node")):
        if have is not None and want:
            score += 2 if have == want else -3
            reasons += [f"{have} {what}"] if have == want else [f"{have} {what}, the system has {want}"]
    whole = _number(item.code.code(config), "GLOBAL_BATCH_SIZE") if config else None
    if batch_size and batch_size in (whole, (nodes or 1) * (gpus or 1) * (batch or 0)):
        score += 2
        reasons.append(f"global batch size {batch_size}")
    theirs = {
        word.upper() for word in ACCELERATOR.findall(str(published.description.get("accelerator_model_name", "")))
    }
    words = {word.upper() for word in ACCELERATOR.findall(config)}
    if theirs and words:
        score += 1.5 if theirs & words else -3
    return Choice(item, config, score, tuple(reasons))


@cache
def likeness(one: str, other: str) -> float:
    """0 to 1: how alike two names are, whatever their case and signs."""
    plain = [re.sub(r"[^a-z0-9]+", "", re.sub(r"^config_|\.(sh|env)$", "", name.lower())) for name in (one, other)]
    if not all(plain):
        return 0.0
    if plain[0] in plain[1] or plain[1] in plain[0]:
        return 0.8 + 0.2 * min(map(len, plain)) / max(map(len, plain))
    return difflib.SequenceMatcher(None, *plain).ratio()


def sizes(code: Folder, config: str) -> tuple[int | None, int | None, int | None]:
    """Nodes, accelerators of a node and batch of each accelerator that a config's text or name tells; None if not."""
    text = code.code(config) if config else ""
    named = SIZES.search(config.rpartition("/")[2])
    numbers = [int(part) for part in named.groups()] if named else [None, None, None]
    words = [_number(text, name) for name in ("DGXNNODES", "DGXNGPU", "BATCHSIZE")]
    return tuple(word if word is not None else number for word, number in zip(words, numbers, strict=True))


def _number(text: str, name: str) -> int | None:
    found = re.findall(rf"(?m)^\s*(?:export\s+)?{name}=[\"']?(?:\$\{{\w+:[-=])?(\d+)", text)
    return int(found[-1]) if found else None
