"""What the site is known by, and must not be told outside: its hosts, users and paths, as the config and the work root
name them."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from podium import files
from podium.config import Config
from podium.package import system
from podium.package.detect import Names
from podium.package.sources import Source

COMMON_WORDS = {"localhost", "host", "node", "root", "user", "admin", "ubuntu", "mlperf", "podium", "test"}


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
    for attempt in source.attempts:
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
