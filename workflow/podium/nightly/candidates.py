"""What a bisection chooses among: locked images, commits of the implementation, or whatever a site's command selects.

Each candidate is measured in a work root of its own below the bisection's, through the same path as any run.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podium import files, plan
from podium.config import Config
from podium.errors import BadEnvironment, BadInput
from podium.images import build, lock
from podium.plan import Plan


@dataclass(frozen=True)
class Candidates:
    """An ordered list, the good end first.

    `kind` is `images` (names are paths of image.json), `commits` (hashes in the repository of the implementation), or
    `select` (names are given to `command`, which installs or selects what they name).
    """

    kind: str
    names: tuple[str, ...]
    command: str | None = None


def of_commits(implementation: Path, good: str, bad: str) -> Candidates:
    """The commits after `good` up to `bad` that touch the implementation or what it links to, and `good` itself."""
    first, last = (_git(implementation, "rev-parse", "--verify", f"{name}^{{commit}}") for name in (good, bad))
    folders = {implementation, *(path.resolve() for path in implementation.iterdir() if path.is_symlink())}
    between = _git(
        implementation, "rev-list", "--reverse", "--first-parent", f"{first}..{last}", "--", *map(str, folders)
    )
    names = tuple(between.split())
    if not names:
        raise BadInput(
            f"no commit between {good} and {bad} touches {implementation}",
            f"the good commit before the bad one, and changes in {', '.join(sorted(map(str, folders)))}",
            "none",
            f"git log {good}..{bad} -- {implementation}",
        )
    return Candidates("commits", (first, *names))


def between(names: Sequence[str], good: str | None, bad: str | None) -> tuple[str, ...]:
    """The part of a list from `good` to `bad`, which are its ends where they are not given."""
    for name in (good, bad):
        if name is not None and name not in names:
            raise BadInput(
                f"{name} is no candidate", "one of " + ", ".join(names), name, "podium nightly bisect --help"
            )
    first = names.index(good) if good else 0
    last = names.index(bad) if bad else len(names) - 1
    if last <= first:
        expected = "two or more, the good one before the bad one"
        raise BadInput("nothing to choose among", expected, ", ".join(names), "podium nightly bisect --help")
    return tuple(names[first : last + 1])


def prepare(config: Config, wanted: Plan, candidates: Candidates, number: int, folder: Path) -> tuple[Config, Plan]:
    """Make ready to run one candidate: its own config and plan. `folder` is the bisection's.

    Raises BadInput or BadEnvironment for a candidate that cannot be built or selected.
    """
    name = candidates.names[number]
    own = replace(config, root=folder / "candidates" / str(number))
    target = plan.image_file(own, wanted)
    if candidates.kind == "commits":
        wanted = _checked_out(own, wanted, name)
        _share_environments(config, own)
        build.build(own, wanted)
        return own, wanted
    source = Path(name) if candidates.kind == "images" else plan.image_file(config, wanted)
    if not target.exists():
        image = lock.parse(source)
        # A container has its code inside; the snapshot beside a lock is what a submission publishes, and of the newest.
        files.write_json(target, (image if image.engine == "process" else replace(image, files={})).as_json())
    return own, wanted


def select(candidates: Candidates, number: int) -> None:
    """Run the site's command for one candidate; it gets the name as `$1`."""
    name = candidates.names[number]
    answer = subprocess.run(
        ["bash", "-c", candidates.command, "select", name], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise BadEnvironment(
            f"{name} could not be selected",
            "status 0",
            f"status {answer.returncode}: {(answer.stderr or answer.stdout).strip()[-300:]}",
            f"run it by hand: {candidates.command} (with $1={name})",
        )


def _checked_out(own: Config, wanted: Plan, commit: str) -> Plan:
    """The plan with its implementation as it was at a commit, from an archive: the user's checkout is not touched."""
    implementation = wanted.result.implementation
    top = Path(_git(implementation, "rev-parse", "--show-toplevel"))
    source = own.root.absolute() / "source"
    if not source.exists():
        with files.replacing(source) as fresh:
            packed = subprocess.Popen(["git", "-C", str(top), "archive", commit], stdout=subprocess.PIPE)
            status = subprocess.run(["tar", "-x", "-C", str(fresh)], stdin=packed.stdout, check=False).returncode
            packed.stdout.close()
            if packed.wait() or status:
                raise BadEnvironment(f"cannot unpack {commit}", "git archive", f"status {status}", f"df -h {fresh}")
    place = source / implementation.resolve().relative_to(top)
    return replace(wanted, result=replace(wanted.result, implementation=place))


def _share_environments(config: Config, own: Config) -> None:
    """Packages that all candidates ask for are installed once, where the config's own images have them."""
    shared, link = (config.root / "images" / "venvs").absolute(), own.root / "images" / "venvs"
    if not link.exists():
        shared.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(shared)


def _git(folder: Path, *words: str) -> str:
    answer = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise BadInput(f"git {' '.join(words)} in {folder}", "status 0", answer.stderr.strip(), f"git -C {folder} log")
    return answer.stdout.strip()
