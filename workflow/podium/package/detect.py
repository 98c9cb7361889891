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

# detect-secrets' plugins that know a form of key; entropy alone would take every hash in a lock file for a key.
PLUGINS = (
    *("ArtifactoryDetector", "AWSKeyDetector", "AzureStorageKeyDetector", "BasicAuthDetector", "CloudantDetector"),
    *("DiscordBotTokenDetector", "GitHubTokenDetector", "GitLabTokenDetector", "IbmCloudIamDetector"),
    *("IbmCosHmacDetector", "JwtTokenDetector", "KeywordDetector", "MailchimpDetector", "NpmDetector"),
    *("OpenAIDetector", "PypiTokenDetector", "SendGridDetector", "SlackDetector", "SoftlayerDetector"),
    *("SquareOAuthDetector", "StripeDetector", "TelegramBotTokenDetector", "TwilioKeyDetector"),
)
KEYWORDS = (
    r"(?i:(?:api|auth|service|account|db|database|priv|private|client|access|storage|account)[_-]?key|pass(?:word|wd|phrase)"
    r"|_pass\b|\bpwd|contrase|secret|token|credential|bearer|authorization|softlayer|cloudant|cos_|ibm_)"
)
FORMS = (
    r"://[^\s/:@]+:[^\s/@]+@|A3T[A-Z0-9]|AKIA|ABIA|ACCA|ASIA|gh[pousr]_|github_pat_|gl\w{2,6}-|xox[a-z]-|hooks\.slack|eyJ"
    r"|PRIVATE KEY|PuTTY-User|AKC[a-zA-Z0-9]|AP[0-9A-F][a-zA-Z0-9]{8}|[sr]k_(?:live|test)|SG\.|(?:SK|AC)[a-z0-9]{32}"
    r"|_authToken|npm_|pypi-|sq0csp|sk-|hf_[A-Za-z]|nvapi-|wandb|AccountKey|[0-9]{8,10}:[0-9A-Za-z_-]{35}|-us[0-9]{1,2}"
    r"|[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\."
)
# Forms that detect-secrets does not know; the first group is the secret.
TOKENS = (
    r"\b(hf_[A-Za-z]{34,})\b",
    r"\b(nvapi-[\w-]{60,})",
    r"\b(eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,})",
    r"\b(github_pat_\w{60,})",
    r"\b(sk-(?:proj-|ant-)?[\w-]{32,})",
    r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+([\w.~+/=-]{8,})",
    r"(?i)\b(?:[\w-]*(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|auth_?key))\b[\"']?\s*[:=]\s*[\"']?"
    r"((?=(?:[\w~+/=-]*?\d){3})(?=[\d~+/=-]*[A-Za-z])[\w~+/=-]{16,})",
    r"(?i)--?(?:password|passwd|token|api-key|secret)[= ]([^\s\"'$<]{6,})",
    r"\b[A-Z_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY)=[\"']?([^\s\"'${}()<>,;]{6,})",
)
KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    re.DOTALL,
)
SITES = r"home|users|lustre|gpfs|beegfs|weka|vast|nfs\d*|efs|fsx|raid|scratch"
PATH = re.compile(rf"(?<![\w.$}}{{:/-])/(?i:{SITES})(?:/[\w.+@-]+)+")
QUAD = re.compile(r"(?<![\w.+-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d|\.\w|-)")
IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])|(?<![\w:.])(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
)
PRIVATE_HOST = re.compile(
    r"(?<![\w.@/-])(?:[a-z0-9][a-z0-9-]*\.)+(?:local|internal|intranet|corp|lan|localdomain|private)\b(?!\.\w|\()", re.I
)
REGISTRY = re.compile(
    r"(?<![\w.-])((?:registry|docker|harbor|nexus|artifactory|gitlab|pypi|conda|mirror)[\w-]*(?:\.[\w-]+)+(?::\d+)?"
    r"|\d{12}\.dkr\.ecr\.[\w-]+\.amazonaws\.com)(?=[/#])",
    re.I,
)
PUBLIC_REGISTRIES = re.compile(
    r"(?:registry(?:-1)?\.docker\.io|docker\.io|docker\.com|(?:registry\.)?gitlab\.com|registry\.k8s\.io|docker\.elastic\.co"
    r"|pypi\.org|pypi\.python\.org|pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com|conda\.anaconda\.org|registry\.npmjs\.org"
    r"|registry\.hub\.docker\.com|mirrors?\.kernel\.org|registry\.redhat\.io|registry\.access\.redhat\.com)(?::\d+)?",
    re.I,
)
PLACEHOLDER = re.compile(r"SCRUBBED_[A-Z0-9_]+_\d+")  # what the scrub itself writes
# A number with three dots is a version where such a word or mark stands before it.
VERSION = re.compile(r"(?:version|release|driver|cudnn|cublas|nccl|cuda|rocm|[=<>~^]=|\bv|[A-Za-z]-)[\s:\"'=]*$", re.I)


LICENCE = (
    r"(?i)proprietary and confidential|confidential and proprietary|without an express license agreement"
    r"|not for (?:re)?distribution|do not (?:re)?distribute|under (?:a )?non-?disclosure"
)


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
            or PLACEHOLDER.search(value) is not None
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
            KEYWORDS,
            FORMS,
            r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}",
            rf"/(?i:{SITES})/",
            r"(?:[0-9a-fA-F]{1,4}:){4}",
        ]
        first += [r"(?i:fe80|\bf[cd][0-9a-f]{2}|\b2[0-9a-f]{3}):[0-9a-f:]+:", r"\d{12}\.dkr\.ecr\."]
        first += [r"(?i:\.(?:local|internal|intranet|corp|lan|localdomain|private)\b)"]
        first += [
            r"(?i:(?:registry|docker|harbor|nexus|artifactory|gitlab|pypi|conda|mirror)[\w-]*\.[\w.-]+(?::\d+)?[/#])"
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
        self._licence = re2.compile(LICENCE.encode(), options)
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
            found += [Found(hit.start(), hit.end(), "secret", hit[0]) for hit in KEY_BLOCK.finditer(text)]
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
    return [re.compile(pattern) for pattern in TOKENS]


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
    return [classes[name]() for name in PLUGINS], harmless


def _addresses(line: str) -> Iterator[tuple[int, int, str]]:
    """IP addresses that are of a machine: not of this host, not of everybody, and no version of something."""
    for hit in (*QUAD.finditer(line), *IPV6.finditer(line)):
        try:
            address = ipaddress.ip_address(hit[0])
        except ValueError:
            continue
        everybody = address.is_loopback or address.is_unspecified or address.is_multicast
        if everybody or hit[0] == "255.255.255.255" or VERSION.search(line[: hit.start()]):
            continue
        yield hit.start(), hit.end(), hit[0]


def _paths(line: str) -> Iterator[tuple[int, int, str]]:
    """Paths of a site, but their last part: what a file is called tells a reader something."""
    for hit in PATH.finditer(line):
        value = hit[0].rpartition("/")[0] if hit[0].count("/") > 2 else hit[0]
        yield hit.start(), hit.start() + len(value), value


def _hosts(line: str) -> Iterator[tuple[int, int, str]]:
    for hit in PRIVATE_HOST.finditer(line):
        yield hit.start(), hit.end(), hit[0]


def _registries(line: str) -> Iterator[tuple[int, int, str]]:
    for hit in REGISTRY.finditer(line):
        if not PUBLIC_REGISTRIES.fullmatch(hit[1]):
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
