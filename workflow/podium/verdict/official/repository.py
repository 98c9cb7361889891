"""The repository rules on a submitter's tree: names, sizes, links (the official repo_checker's functions)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from podium.verdict.findings import ERROR, WARNING, Finding
from podium.verdict.official.hearing import FAIL, NONE, PASS, listening


@dataclass(frozen=True)
class Repository:
    """The repository checker's answer on a submitter's tree."""

    official: str
    messages: tuple[str, ...]
    findings: tuple[Finding, ...]


def check(folder: Path) -> Repository:
    """Check every file and folder below `folder`.

    The checker's links are looked up from the folder in which it is started, here the one above the tree, as in the
    round's verify script; a relative link that is whole can so be called broken.
    """
    from mlperf_logging.repo_checker import repo_checker

    try:
        files = repo_checker.list_files_recursively(str(folder))
        folders = repo_checker.list_dirs_recursively(str(folder))
    except RecursionError as error:
        expected, text = "folders that can be walked through", f"RecursionError: {error}"
        deep = Finding(
            "repository-depth", ERROR, folder.name, 0, expected, "too many in each other", text, "falls over"
        )
        return Repository(NONE, (), (deep,))
    links = [path for path in map(Path, files) if path.is_symlink()]
    dead = [path for path in links if not _exists(folder.parent / path.readlink())]
    with listening() as lines:
        passed = repo_checker._check_bad_filenames(files, folders) and not dead
        passed = repo_checker._check_file_sizes(files) and passed
    root = f"{folder.parent}/"
    messages = [line.replace(root, "") for line in lines]
    if dead:
        named = "\n".join(str(path).removeprefix(root) for path in dead)
        messages.append(f"ERROR: {folder.name} contains broken symbolic links: {named}")
    found = [*_names(folders, files, root), *_sizes(files, root), *_links(dead, root)]
    return Repository(PASS if passed else FAIL, tuple(messages), tuple(found))


def _names(folders: list[str], files: list[str], root: str) -> list[Finding]:
    wrong = [path for path in (*folders, *files) if (name := path.rsplit("/", 1)[-1]).startswith(".") or " " in name]
    expected = "no space in a name, and no dot before it"
    return [_finding("repository-name", ERROR, path, root, expected, path.rsplit("/", 1)[-1]) for path in wrong]


def _sizes(files: list[str], root: str) -> list[Finding]:
    limit = 50 * 1024 * 1024
    sizes = {path: os.lstat(path).st_size for path in files}
    large = [path for path, size in sizes.items() if size > limit]
    return [
        _finding("repository-size", ERROR, path, root, "at most 50 MiB", f"{sizes[path] / 2**20:.1f} MiB")
        for path in large
    ]


def _links(dead: list[Path], root: str) -> list[Finding]:
    found = []
    for path in dead:
        target = str(path.readlink())
        if _exists(path):
            expected = "nothing: the link is whole; the official checker looks it up from where it is started"
            found.append(_finding("repository-link-relative", WARNING, str(path), root, expected, target))
        else:
            found.append(_finding("repository-link", ERROR, str(path), root, "a link to something", target))
    return found


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def _finding(rule: str, level: str, path: str, root: str, expected: str, found: str) -> Finding:
    return Finding(rule, level, path.removeprefix(root), 0, expected, found)
