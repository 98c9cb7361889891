"""What the logs of a published tree say, read once by all cores and kept (the verdict's cache), never in the tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from podium.reproduce.discover import Published, Tree
from podium.reproduce.plan import Known
from podium.verdict.reading import cache
from podium.verdict.reading.digest import Digest
from podium.verdict.score.olympic import olympic


def digests(tree: Tree, round: str) -> Mapping[Path, Digest]:
    """What is known of every log that was not left out."""
    place = cache.place()
    inside = place.resolve().is_relative_to(tree.root)
    return cache.digests((log for item in tree.results for log in item.result.logs), round, None if inside else place)


def known(tree: Tree, round: str) -> dict[str, Known]:
    """By the result's name: its times, batch size and raw score."""
    found = digests(tree, round)
    return {item.result.name: of(item, [found[log] for log in item.result.logs]) for item in tree.results}


def of(published: Published, logs: list[Digest]) -> Known:
    """From the digests of its logs; a run that did not converge has no time."""
    from mlperf_logging.benchmark_meta import get_result_file_counts

    minutes = tuple(log.minutes if log.epochs.converged else None for log in logs)
    sizes = [
        log.epochs.batch_size for log in logs if isinstance(log.epochs.batch_size, int) and log.epochs.batch_size > 0
    ]
    required = get_result_file_counts("training").get(published.result.benchmark, 0)
    points = olympic(minutes, published.result.benchmark)
    return Known(minutes, sizes[0] if sizes else None, points.minutes, required)
