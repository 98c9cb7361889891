"""`podium lock`: what is locked; with `--verify`, whether this machine's images still are what their locks say."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import Findings, PodiumError
from podium.images import build, container, inventory, lock, sbom
from podium.images.engines import choose, store
from podium.images.lock import Image
from podium.plan import Plan
from podium.signals import stoppable

PACKAGES = ("packages", "system_packages", "conda_packages", "versions")  # of a lock, compared one by one


def differences(config: Config, wanted: Plan) -> list[str]:
    """What of a locked image is not as its lock says, one line each: content, tag, base, packages, files, exports.

    Nothing is changed. Raises BadInput without a lock, BadEnvironment where the engine does not answer.
    """
    path = plan.image_file(config, wanted)
    image = lock.parse(path)
    found = list(_files(image, path))
    if image.engine == "process":
        return found + list(_environment(image))
    try:
        engine, held = choose.runner(wanted.system.engine, image)
    except PodiumError as error:
        return [*found, f"{error.thing}: expected {error.expected}, found {error.found}"]
    if engine in choose.FILES:
        return found
    return found + list(_tags(engine, held)) + list(_packages(engine, held))


def _files(image: Image, path: Path) -> Iterator[str]:
    """The snapshot, the bill of materials and the exported files."""
    now = lock.contents(Path(image.implementation))
    for name in sorted(now.keys() | image.files.keys()):
        if now.get(name) != image.files.get(name):
            yield f"{Path(image.implementation) / name} is not the locked one"
    bill = path.with_name(sbom.NAME)
    if image.sbom and (not bill.exists() or files.hash_file(bill) != image.sbom):
        yield f"{bill} is not the locked one"
    for export in image.exports.values():
        if (digest := lock.digest(Path(export.path))) != export.sha256:
            yield f"{export.path}: expected sha256 {export.sha256}, found {digest or 'nothing'}"


def _environment(image: Image) -> Iterator[str]:
    """Whether the virtual environment is where it was made and has what it had: it cannot be moved or patched."""
    python = Path(image.venv) / "bin" / "python"
    words = [str(python), "-c", "import sys; print(sys.prefix)"]
    try:
        prefix = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError as error:
        yield f"{python} does not start: {error.strerror}"
        return
    here = python.parent.resolve()
    named = [path.read_text(errors="replace").partition("\n")[0][2:] for path in sorted(here.glob("pip*"))]
    if Path(prefix).resolve() != here.parent or any(Path(name).parent.resolve() != here for name in named):
        yield f"{image.venv} was moved: its Python says {prefix or 'nothing'}, its scripts name another place"
        return
    yield from _packages("process", image)


def _tags(engine: str, image: Image) -> Iterator[str]:
    """Names that were moved since: the image's own tag, and the base's."""
    facts = store.inspect(engine, image.tag)
    if facts is not None and store.content(facts) != image.reference:
        yield f"the tag {image.tag} was moved: it is {store.content(facts)}, locked is {image.reference}"
    named = image.arguments.get("BASE", "")
    if named and "@sha256:" not in named and store.inspect(engine, named):
        now = container.base([named], engine)
        if now != image.base:
            yield f"the base {named} was moved: it is {now}, locked is {image.base}"


def _packages(engine: str, image: Image) -> Iterator[str]:
    now = build.fields(inventory.take(engine, image))
    for kind in PACKAGES:
        for line in inventory.differences(getattr(image, kind), now[kind]):
            yield f"{kind.replace('_', ' ')}: {line}"


def rebuilt(config: Config, wanted: Plan) -> list[str]:
    """What differs in the packages of an image that is built again from the same inputs, without any cache.

    The new image is removed again, and the lock stays as it is.
    """
    path = plan.image_file(config, wanted)
    image = lock.read(path)
    if image.engine == "process":
        return []  # the same requirements give the same environment by construction: all versions are pinned
    made = build.recipe(config, wanted, image.commit, offline="PIP_NO_INDEX" in image.arguments)
    made = replace(made, tag=f"{image.tag}-again", cached=False)
    id = container.build(image.engine, made, path.with_name("rebuild.log"))
    try:
        now = build.fields(inventory.take(image.engine, replace(image, id=id)))
    finally:
        subprocess.run([image.engine, "image", "rm", "--force", made.tag], capture_output=True, check=False)
    return [
        f"{kind.replace('_', ' ')}: {line}"
        for kind in PACKAGES
        for line in inventory.differences(getattr(image, kind), now[kind])
    ]


def line(wanted: Plan, image: Image) -> str:
    """A locked image in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in image.versions.items())
    where = image.digest or image.tag or image.venv
    commit = f"commit {(image.commit or 'none')[:12]}" + (" with changes" if image.dirty else "")
    return (
        f"{wanted.benchmark} {image.reference[:27]}… by {image.engine}, {where}, {commit}, "
        f"{len(image.packages) + len(image.system_packages) + len(image.conda_packages)} packages"
        + (f", {versions}" if versions else "")
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    build.which(parser)
    parser.add_argument(
        "--verify", action="store_true", help="hold what this machine has to the lock; status 1 if it differs"
    )
    parser.add_argument("--rebuild", action="store_true", help="build again without cache, and compare the packages")


def main(args: argparse.Namespace) -> int:
    """`podium lock [--verify] [--rebuild] [--system S] [--benchmark B]`."""
    config = configuration.load(args.config)
    with stoppable():
        return _main(config, args)


def _main(config: Config, args: argparse.Namespace) -> int:
    wrong: dict[str, list[str]] = {}
    rows = []
    for item in build.selected(config, args):
        found = differences(config, item) if args.verify else []
        found += rebuilt(config, item) if args.rebuild else []
        image = lock.parse(plan.image_file(config, item))
        rows.append({"benchmark": item.benchmark, "image": image.as_json(), "differences": found})
        if not args.json:
            print(f"lock {line(item, image)}" + (": as locked" if (args.verify or args.rebuild) and not found else ""))
        if found:
            wrong[item.benchmark] = found
    if args.json:
        print(json.dumps(rows, indent=1))
    sys.stdout.flush()
    if wrong:
        told = [f"{benchmark}: {difference}" for benchmark, lines in wrong.items() for difference in lines]
        raise Findings(
            "images are not what was locked", "no difference", "\n    ".join(told), "podium pull, or podium build"
        )
    return 0
