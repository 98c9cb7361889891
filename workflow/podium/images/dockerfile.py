"""A Dockerfile, read before it is built: what it starts from, what it declares, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadInput

# Grammar: https://docs.docker.com/reference/dockerfile/
FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
ARG = re.compile(r"ARG\s+(\w+)(?:=(.*))?$", re.IGNORECASE)
SECRET = re.compile(r"(?:ARG|ENV)\s+(\w*(?:TOKEN|PASSWORD|SECRET|API_?KEY|CREDENTIAL)\w*)", re.IGNORECASE)


@dataclass(frozen=True)
class Instruction:
    """One instruction: the line it starts at (from 1), and its words with continued lines joined."""

    line: int
    text: str


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, without comments and empty lines; here-documents are taken as they stand."""
    found: list[Instruction] = []
    parts: list[str] = []
    first, end = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if end:
            end = "" if line.strip() == end else end
            continue
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        first = first if parts else number
        parts.append(words.removesuffix("\\").strip())
        if not words.endswith("\\"):
            joined = " ".join(parts)
            found.append(Instruction(first, joined))
            document = re.search(r"<<-?[\"']?(\w+)[\"']?", joined)
            parts, end = [], document[1] if document else ""
    return found + ([Instruction(first, " ".join(parts))] if parts else [])


def declared(text: str) -> set[str]:
    """The build arguments that a Dockerfile declares."""
    return {found[1] for item in instructions(text) if (found := ARG.match(item.text))}


def bases(text: str, arguments: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Line and name of every image that a Dockerfile starts from or copies from, other than its own stages and scratch.

    `arguments` go before the defaults of ARG; a name that is still open is given as it stands, with its `$`.
    """
    values: dict[str, str] = {}
    stages = {"scratch"}
    for item in instructions(text):
        if argument := ARG.match(item.text):
            values[argument[1]] = arguments.get(argument[1], (argument[2] or "").strip("\"'"))
        base = FROM.match(item.text)
        sources = [base[1]] if base else re.findall(r"--(?:mount=\S*?,?)?\bfrom=([^\s,]+)", item.text)
        for source in sources:
            name = re.sub(r"\$\{?(\w+)(?::-[^}]*)?\}?", lambda found: values.get(found[1]) or found[0], source).strip(
                "\"'"
            )
            if name.lower() not in stages and not name.isdigit():
                yield item.line, name
        if base and base[2]:
            stages.add(base[2].lower())


def check(path: Path, arguments: Mapping[str, str], by_digest: bool) -> list[str]:
    """Refuse what must not be built, and say what should be better: one line each.

    Raises BadInput for a base that no argument names, for one without a digest where `by_digest`, and for a secret in
    ARG or ENV, which everyone can read from the image.
    """
    text = path.read_text(encoding="utf-8")
    for line, name in bases(text, arguments):
        if "$" in name or not name:
            raise BadInput(
                f"{path}:{line}: the base image is open",
                "an image by digest",
                name or "nothing",
                "set images.base in the config",
            )
        if by_digest and "@sha256:" not in name and not name.startswith("sha256:"):
            raise BadInput(
                f"{path}:{line}: a tag alone names no image in the closed division: it may be moved",
                "NAME@sha256:DIGEST",
                name,
                f"docker buildx imagetools inspect {name} (or skopeo inspect docker://{name}) tells the digest",
            )
    found = instructions(text)
    for item in found:
        if secret := SECRET.match(item.text):
            raise BadInput(
                f"{path}:{item.line}: {secret[1]} would be readable in the image",
                "RUN --mount=type=secret,id=…, and images.secrets in the config",
                item.text[:60],
                f"edit {path}",
            )
    return list(_advice(path, found))


def _advice(path: Path, found: list[Instruction]) -> Iterator[str]:
    rules = {
        r"FROM\s+\S+:latest\b": "a base called latest changes unseen",
        r"ADD\s+https?://": "ADD of a URL is not checked; use --checksum, or RUN with a hash",
        r"RUN.*\bgit\+https?://\S+(?<!@[0-9a-f]{40})(?:\s|$)": "a package from git without a commit changes unseen",
        r"RUN.*\bcurl\b.*\|\s*(?:ba|z)?sh\b": "a script from the network is run unseen",
        r"RUN.*\bpip3? install\b(?!.*(?:-r|--requirement|==|@|\s\.(?:\s|$|\[)))": "pip install without a version",
        r"RUN.*\bsudo\b": "sudo in an image: the build is root already",
    }
    for item in found:
        for rule, words in rules.items():
            if re.search(rule, item.text, re.IGNORECASE):
                yield f"{path}:{item.line}: {words}"
    users = [item.text.split()[1] for item in found if re.match(r"USER\s+\S", item.text, re.IGNORECASE)]
    if not users or users[-1].split(":")[0] in ("root", "0"):
        yield f"{path}: the image's user is root; Podium runs it as the caller"
