"""What lies in a submitter's tree beside the logs: code that others can run, names, sizes and links."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from podium.verdict.findings import Finding
from podium.verdict.lint import logs
from podium.verdict.tree import Submitter

LARGEST = 50 << 20  # bytes: the limit of the repository checker
NEEDED = ("README.md", "setup.sh", "init_datasets.sh", "run_and_time.sh")
# What others run or build. Python files are left out: their paths are those inside a container.
SCRIPTS = re.compile(r"\.(sh|sub|env|cfg|conf|ya?ml|toml)$|^(dockerfile|containerfile)", re.I)
UNUSED = {"tests", "test", "examples", ".github"}  # folders of libraries that came along; no run needs them
SITE = re.compile(
    r"(?<![\w./$}{:-])/(home|users|lustre|gpfs|beegfs|weka|vast|nfs\w*|efs|fsx|raid|scratch|mnt)/[\w.$-]+", re.I
)
FROM = re.compile(r"^\s*FROM\s+(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?", re.I)
ARGUMENT = re.compile(r"^\s*ARG\s+(\w+)=(\S+)", re.I)
IMAGE = re.compile(r"^\s*(?:export\s+)?CONT=[\"']?([\w.-]+(?:/[\w.-]+)+:[\w.-]+)", re.I)

# How a finding is made here: by rule, place, line (0 for the whole file), expected and found.
_Find = Callable[[str, Path, int, str, str], Finding]


def check(submitter: Submitter) -> Iterator[Finding]:
    """A whole submitter's tree: every file by its name and size, scripts in benchmarks/ also by what they say."""
    find = functools.partial(_find, submitter.folder.parent)
    yield from _code(submitter, find)
    for base, folders, names in os.walk(submitter.folder):
        folders.sort()
        for name in sorted(folders + names):
            path = Path(base) / name
            if " " in name:
                yield find("name-with-space", path, 0, "no space", name)
            if path.is_symlink():
                yield from _link(path, submitter.folder, find)
            elif name in names:
                yield from _file(path, submitter.folder, find)


def _find(root: Path, rule: str, path: Path, line: int, expected: str, found: str) -> Finding:
    return logs.finding(rule, path.relative_to(root).as_posix(), line, expected, found)


def _link(path: Path, tree: Path, find: _Find) -> Iterator[Finding]:
    """Where a link leads; a relative one starts in its own folder."""
    target = path.readlink()
    if not path.exists():
        yield find("link-broken", path, 0, "a file", f"{target}, which is not there")
    elif not path.resolve().is_relative_to(tree.resolve()):
        yield find("link-broken", path, 0, "a file in this tree", f"{target}, outside of it")


def _file(path: Path, tree: Path, find: _Find) -> Iterator[Finding]:
    size = path.lstat().st_size
    if size > LARGEST:
        yield find("file-too-large", path, 0, "at most 50 MiB", f"{size / (1 << 20):.1f} MiB")
        return
    folders = path.relative_to(tree).parts[:-1]
    if SCRIPTS.search(path.name) and folders and folders[0].startswith("benchmark") and not UNUSED & set(folders):
        yield from _script(path, find)


def _script(path: Path, find: _Find) -> Iterator[Finding]:
    """Site paths and images without digest in one script or container file: the first line of each, and how many."""
    try:
        lines = path.read_text(encoding="latin-1").splitlines()
    except OSError:
        return
    paths = [(number, found[0]) for number, line in enumerate(lines, 1) if (found := SITE.search(line.split("#")[0]))]
    container = not path.suffix or "file" in path.name.lower()
    images = [item for item in (_bases if container else _named)(lines) if "@sha256:" not in item[1]]
    for rule, expected, seen in (
        ("site-path", "a variable", paths),
        ("image-without-digest", "image@sha256:…", images),
    ):
        if seen:
            more = f" and {len(seen) - 1} more lines" if len(seen) > 1 else ""
            yield find(rule, path, seen[0][0], expected, seen[0][1] + more)


def _bases(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The images that a container file starts from, other than its own stages; ARG defaults are filled in."""
    values: dict[str, str] = {}
    stages: set[str] = set()
    for number, line in enumerate(lines, 1):
        if argument := ARGUMENT.match(line):
            values[argument[1]] = argument[2].strip("\"'")
        if base := FROM.match(line):
            image = re.sub(r"\$\{?(\w+)\}?", lambda name: values.get(name[1], name[0]), base[1]).strip("\"'")
            # A name without / and : is an image that was built before, one with $ is for the caller to say.
            if image.lower() not in stages and re.search("[/:]", image) and "$" not in image:
                yield number, image
            stages.add((base[2] or "").lower())


def _named(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The images that a script names in CONT, as the common launch scripts call it."""
    for number, line in enumerate(lines, 1):
        if image := IMAGE.match(line):
            yield number, image[1]


def _code(submitter: Submitter, find: _Find) -> Iterator[Finding]:
    """For every benchmark with results: its code, and the files that say how to run it."""
    home = submitter.folder / "benchmarks"
    if not home.is_dir():
        near = [name for name in _names(submitter.folder) if name.startswith("benchmark")]
        yield find("code-missing", submitter.folder, 0, "benchmarks/", ", ".join(near) or "nothing")
        return
    systems: dict[str, list[str]] = {}
    for result in submitter.results:
        systems.setdefault(result.benchmark, []).append(result.system)
    for benchmark, names in sorted(systems.items()):
        folder = home / benchmark / "implementations"
        if folder.is_dir():
            yield from _implementations(folder, names, find)
            continue
        there = _names(home)
        found = f"{benchmark}/ without implementations/" if benchmark in there else ", ".join(there)
        yield find("code-missing", home / benchmark, 0, f"{benchmark}/implementations/", found or "nothing")


def _implementations(folder: Path, systems: Sequence[str], find: _Find) -> Iterator[Finding]:
    """What is needed lies in the folder of an implementation or in that of each system."""
    folders = {name: _names(folder / name) for name in _names(folder) if (folder / name).is_dir()}
    if not folders:
        yield find("code-missing", folder, 0, "an implementation", "no folder")
        return
    shared = {file.lower() for name, names in folders.items() if name not in systems for file in names}
    for place in sorted({folder / system if system in folders else folder for system in systems}):
        there = shared | {file.lower() for file in folders.get(place.name, [])}
        if missing := [name for name in NEEDED if name.lower() not in there]:
            yield find("implementation-files", place, 0, ", ".join(NEEDED), f"no {', '.join(missing)}")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
