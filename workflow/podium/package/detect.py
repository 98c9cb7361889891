"""What must not leave the site, found in a text: keys and tokens, addresses, hosts, users, site paths, registries.

Keys and tokens are found by the detectors of detect-secrets, the rest by patterns here and by the names that the config
and the work root know. A first look by RE2 over the whole text finds the lines on which all of them are then asked:
nearly all text has none, and RE2 is sixty times as fast as a look at every line.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from podium.package import forms


@dataclass(frozen=True)
class Names:
    """What the site is known by: `hosts` and domains (".corp.example"), `users`, `paths`; the operator's own
    `patterns` by name; `secrets` that were found elsewhere; `allow` are texts, with * and ?, that may stay; `public`
    are names that the submission gives."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    def stays(self, value: str) -> bool:
        return (
            value in self.public
            or forms.PLACEHOLDER.search(value) is not None
            or any(fnmatchcase(value, pattern) for pattern in self.allow)
        )


@dataclass(frozen=True)
class Found:
    """A place in a text that must not leave: from `start` to before `stop`, of some kind (secret, host, path …)."""

    start: int
    stop: int
    kind: str
    value: str


Detector = Callable[[str], Iterator[tuple[int, int, str]]]


class Detectors:
    """All that looks for something, made once for a submission; safe to use from many threads."""

    def __init__(self, names: Names) -> None:
        import re2

        self._names = names
        self._known = _known(names)
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 64 << 20
        first = [
            forms.KEYWORDS,
            forms.FORMS,
            r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}",
            rf"/(?i:{forms.SITES})/",
            r"(?:[0-9a-fA-F]{1,4}:){4}",
        ]
        first += [r"(?i:fe80|\bf[cd][0-9a-f]{2}|\b2[0-9a-f]{3}):[0-9a-f:]+:", r"\d{12}\.dkr\.ecr\."]
        first += [r"(?i:\.(?:local|internal|intranet|corp|lan|localdomain|private)\b)"]
        first += [
            r"(?i:(?:registry|docker|harbor|nexus|artifactory|gitlab|pypi|conda|mirror)[\w-]*\.[\w.-]+(?::\d+|[/#]))"
        ]
        first += [re.escape(name.lstrip(".")) for name in (*names.hosts, *names.users, *names.paths, *names.secrets)]
        first += [re.escape(stem) for stem in _stems(names.hosts)]
        self._own = [(kind, re.compile(pattern)) for kind, pattern in names.patterns.items()]
        # An operator's pattern that RE2 does not know (look-around) is asked of every text.
        self._slow = []
        for kind, pattern in self._own:
            try:
                re2.compile(pattern.pattern.encode(), options)
            except re2.error:
                self._slow.append((kind, pattern))
            else:
                first.append(pattern.pattern)
        self._licence = re2.compile(forms.LICENCE.encode(), options)
        self._first = re2.compile("|".join(f"(?:{pattern})" for pattern in first).encode(), options)

    def find(self, data: bytes) -> list[Found]:
        """Every place in a text (any bytes; places count bytes), in order and without overlaps: the longest first."""
        if self._slow == [] and self._first.search(data) is None:
            return []
        text = data.decode("latin-1")
        found = [
            Found(hit.start(), hit.end(), kind, hit[0])
            for kind, pattern in self._slow
            for hit in pattern.finditer(text)
        ]
        if "PRIVATE KEY" in text:
            found += [Found(hit.start(), hit.end(), "secret", hit[0]) for hit in forms.KEY_BLOCK.finditer(text)]
        for start, stop in self._lines(data):
            found += self._line(text[start:stop], start)
        return _apart(item for item in found if not self._names.stays(item.value))

    def licence(self, head: bytes) -> str:
        """The words in the first lines of a file that keep it from being published; "" where there are none."""
        said = self._licence.search(head)
        return said[0].decode("latin-1") if said else ""

    def _lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The lines on which something may be."""
        place = 0
        while place < len(data) and (hit := self._first.search(data, place)):
            start = data.rfind(b"\n", 0, hit.start()) + 1
            stop = data.find(b"\n", hit.end())
            stop = len(data) if stop < 0 else stop
            yield start, stop
            place = stop + 1

    def _line(self, line: str, offset: int) -> Iterator[Found]:
        for kind, detector in (*self._known, *DETECTORS):
            for start, stop, value in detector(line):
                yield Found(offset + start, offset + stop, kind, value)
        for kind, pattern in self._own:
            for hit in pattern.finditer(line):
                yield Found(offset + hit.start(), offset + hit.end(), kind, hit[0])


def _apart(found: Iterable[Found]) -> list[Found]:
    """Without overlaps: of two the longer stays, of equal ones the first kind."""
    kept: list[Found] = []
    for item in sorted(found, key=lambda item: (item.start, -(item.stop - item.start))):
        if kept and item.start < kept[-1].stop:
            if item.stop - item.start > kept[-1].stop - kept[-1].start:
                kept[-1] = item
            continue
        if item.stop > item.start:
            kept.append(item)
    return kept


def _secrets(line: str) -> Iterator[tuple[int, int, str]]:
    """detect-secrets' findings on a line, without what its own filters take for no secret; then the forms it lacks."""
    plugins, harmless = _plugins()
    for plugin in plugins:
        for value in plugin.analyze_string(line):
            if value and not any(test(value) for test in harmless):
                for hit in re.finditer(re.escape(value), line):
                    yield hit.start(), hit.end(), value
    for pattern in _tokens():
        for hit in pattern.finditer(line):
            if not any(test(hit[1]) for test in harmless):
                yield hit.start(1), hit.end(1), hit[1]


@functools.cache
def _tokens() -> list[re.Pattern[str]]:
    return [re.compile(pattern) for pattern in forms.TOKENS]


@functools.cache
def _plugins() -> tuple[list[Any], list[Callable[[str], bool]]]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.filters import heuristic

    classes = {plugin.__name__: plugin for plugin in get_mapping_from_secret_type_to_class().values()}
    harmless = [
        heuristic.is_templated_secret,
        heuristic.is_prefixed_with_dollar_sign,
        heuristic.is_not_alphanumeric_string,
        heuristic.is_sequential_string,
    ]
    return [classes[name]() for name in forms.PLUGINS], harmless


def _addresses(line: str) -> Iterator[tuple[int, int, str]]:
    """IP addresses that are of a machine: not of this host, not of everybody, and no version of something."""
    for hit in (*forms.QUAD.finditer(line), *forms.IPV6.finditer(line)):
        try:
            address = ipaddress.ip_address(hit[0])
        except ValueError:
            continue
        everybody = address.is_loopback or address.is_unspecified or address.is_multicast
        if everybody or hit[0] == "255.255.255.255" or forms.VERSION.search(line[: hit.start()]):
            continue
        yield hit.start(), hit.end(), hit[0]


def _paths(line: str) -> Iterator[tuple[int, int, str]]:
    """Paths of a site, but their last part: what a file is called tells a reader something."""
    for hit in forms.PATH.finditer(line):
        value = hit[0].rpartition("/")[0] if hit[0].count("/") > 2 else hit[0]
        yield hit.start(), hit.start() + len(value), value


def _hosts(line: str) -> Iterator[tuple[int, int, str]]:
    for hit in forms.PRIVATE_HOST.finditer(line):
        yield hit.start(), hit.end(), hit[0]


def _registries(line: str) -> Iterator[tuple[int, int, str]]:
    for hit in forms.REGISTRY.finditer(line):
        if not forms.PUBLIC_REGISTRIES.fullmatch(hit[1]):
            yield hit.start(1), hit.end(1), hit[1]


DETECTORS: tuple[tuple[str, Detector], ...] = (
    ("secret", _secrets),
    ("address", _addresses),
    ("path", _paths),
    ("registry", _registries),
    ("host", _hosts),
)


def _known(names: Names) -> list[tuple[str, Detector]]:
    """Detectors of the names that are known: whole words, hosts also as part of a list (gpu[001-128])."""
    whole = r"(?<![A-Za-z0-9-]){}(?![A-Za-z0-9-])"
    patterns = [("host", whole.format(re.escape(host))) for host in names.hosts if not host.startswith(".")]
    patterns += [
        ("host", rf"(?<![A-Za-z0-9_.-])[\w.-]+{re.escape(host)}(?![\w-])") for host in names.hosts if host[0] == "."
    ]
    patterns += [
        ("host", rf"(?<![A-Za-z0-9-]){re.escape(stem)}(?:\d+|\[[\d,-]+\])(?![\w-])") for stem in _stems(names.hosts)
    ]
    patterns += [("secret", re.escape(secret)) for secret in names.secrets]
    patterns += [("user", whole.format(re.escape(user))) for user in names.users]
    patterns += [("path", rf"{re.escape(path)}(?![\w-])") for path in sorted(names.paths, key=len, reverse=True)]
    return [(kind, functools.partial(_matches, re.compile(pattern))) for kind, pattern in patterns]


def _matches(pattern: re.Pattern[str], line: str) -> Iterator[tuple[int, int, str]]:
    for hit in pattern.finditer(line):
        yield hit.start(), hit.end(), hit[0]


def _stems(hosts: Sequence[str]) -> list[str]:
    """What numbered hosts are called without their numbers: the others of the cluster are called so too."""
    stems = {host.rstrip("0123456789") for host in hosts if host[-1:].isdigit() and not host.startswith(".")}
    return sorted(stem for stem in stems if len(stem) >= 3)
