"""`podium build`: the image of an implementation, built once, locked in `image.json`."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadInput
from podium.images import container, dockerfile, environment, inventory, lock, registry, sbom
from podium.images.engines import choose, store
from podium.images.inventory import Inventory
from podium.images.lock import Image
from podium.plan import Plan
from podium.signals import stoppable


def build(config: Config, wanted: Plan, offline: bool = False) -> Image:
    """Build (or find) the image of a result's implementation and write `image.json`; returns the image.

    Nothing is built where nothing changed and the engine still holds what was built. Two builds of one image wait for
    each other. With `offline` packages come from `wheels/` in the build context alone.
    Raises BadInput for an implementation that breaks the folder contract or cannot be built, BadEnvironment when the
    machine or the network fails.
    """
    source = wanted.result.implementation
    _check_contract(source, wanted.result.config)
    engine = choose.builder(wanted.system.engine, source, wanted.result.image)
    path = plan.image_file(config, wanted)
    with files.locked(path.with_name(".build.lock")):
        if engine == "process":
            image = _environment(config, wanted, path, offline)
        elif wanted.result.image:
            image = _taken(config, wanted, path, engine, wanted.result.image)
        else:
            image = _container(config, wanted, path, engine, offline)
        _snapshot(source, Path(image.implementation), image.files)
        lock.write(path, image)
    return image


def _environment(config: Config, wanted: Plan, path: Path, offline: bool) -> Image:
    """The image of engine `process`."""
    source = wanted.result.implementation
    requirements = environment.read_requirements(source / "requirements.txt")
    wheels = container.context(source) / "wheels" if offline else None
    venv = environment.environment(config.root, requirements, wanted.system.gpus_per_node == 0, wheels)
    contents = lock.contents(source)
    image = Image(
        engine="process",
        reference="",
        implementation=str(path.parent / "implementation"),
        venv=str(venv),
        python="",
        commit=None,
        dirty=False,
        requirements=requirements,
        packages={},
        files=contents,
        base=environment.base(),
        inputs=venv.name,
    )
    known = _known(path)
    if known is not None and (known.inputs, known.venv) == (image.inputs, image.venv):
        facts = _facts_of(known)
    else:
        facts = _look("process", image, path)
    image = replace(image, **facts)
    commit, dirty = lock.commit(source)
    name = lock.reference(image.packages, image.python, contents)
    return replace(image, reference=name, commit=commit, dirty=dirty)


def _container(config: Config, wanted: Plan, path: Path, engine: str, offline: bool) -> Image:
    """The image of a Dockerfile, in the store of `engine`."""
    source = wanted.result.implementation
    contents = lock.contents(source)
    commit, dirty = lock.commit(source)
    made = recipe(config, wanted, commit, offline)
    closed = config.submission.division == "closed"
    for advice in dockerfile.check(made.dockerfile, made.arguments, by_digest=closed):
        print(f"build: {advice}")
    inputs = container.inputs(made, contents)
    known = _known(path)
    if known is not None and known.inputs == inputs and store.holds(engine, known):
        return replace(known, commit=commit, dirty=dirty, files=contents)
    choose.answering(engine)
    store.need_space(engine, known.size if known else 2_000_000_000, f"the image of {wanted.benchmark}")
    started = time.monotonic()
    id = container.build(engine, made, path.with_name("build.log"))
    print(f"build: {made.tag} built by {engine} in {time.monotonic() - started:.0f} s", flush=True)
    names = [name for _, name in dockerfile.bases(made.dockerfile.read_text(), made.arguments)]
    more = {"base": container.base(names, engine), "arguments": made.arguments, "inputs": inputs}
    image = replace(_held(engine, id, made.tag, wanted, path), commit=commit, dirty=dirty, files=contents, **more)
    return replace(image, **_look(engine, image, path))


def _taken(config: Config, wanted: Plan, path: Path, engine: str, name: str) -> Image:
    """An image that somebody else built, taken as it is; raises BadInput for a tag alone in the closed division."""
    if config.submission.division == "closed" and "@sha256:" not in name:
        raise BadInput(
            f"a tag alone names no image in the closed division: it may be moved ({wanted.benchmark})",
            "image: NAME@sha256:DIGEST",
            name,
            f"skopeo inspect docker://{name} tells the digest",
        )
    source = wanted.result.implementation
    contents = lock.contents(source)
    commit, dirty = lock.commit(source)
    known = _known(path)
    if known is not None and known.inputs == name and store.holds(engine, known):
        return replace(known, commit=commit, dirty=dirty, files=contents)
    choose.answering(engine)
    if store.inspect(engine, name) is None:
        registry.fetch(engine, name, f"podium build --config {config.path}")
    facts = store.inspect(engine, name) or {}
    digest = name if "@sha256:" in name else next(iter(facts.get("RepoDigests") or ()), "")
    image = _held(engine, facts["Id"], name, wanted, path)
    image = replace(image, commit=commit, dirty=dirty, files=contents, base=digest or name, digest=digest, inputs=name)
    return replace(image, **_look(engine, image, path))


def _held(engine: str, id: str, tag: str, wanted: Plan, path: Path) -> Image:
    """The image of that id, as far as the store knows it."""
    facts = store.inspect(engine, id) or {}
    return Image(
        engine=engine,
        reference=store.content(facts),
        implementation=str(path.parent / "implementation"),
        venv="",
        python="",
        commit=None,
        dirty=False,
        requirements=environment.read_requirements(wanted.result.implementation / "requirements.txt"),
        packages={},
        files={},
        id=facts["Id"],
        tag=tag,
        workdir=facts["Config"].get("WorkingDir") or "/",
        architecture=facts["Architecture"],
        size=facts["Size"],
    )


def recipe(config: Config, wanted: Plan, commit: str | None, offline: bool) -> container.Recipe:
    """What the config and an implementation make a build of; only arguments that its Dockerfile declares are given."""
    source = wanted.result.implementation
    path = source / "Dockerfile"
    offered = {"BASE": config.images.base, "COMMIT": commit, "PIP_NO_INDEX": "1" if offline else None}
    declared = dockerfile.declared(path.read_text(encoding="utf-8"))
    arguments = {name: value for name, value in offered.items() if value and name in declared}
    return container.Recipe(
        dockerfile=path,
        context=container.context(source),
        tag=tag(wanted),
        arguments=arguments | dict(config.images.arguments),
        secrets=config.images.secrets,
        offline=offline,
    )


def tag(wanted: Plan) -> str:
    """What the store calls the image of a result's implementation."""
    return f"localhost/podium/{wanted.benchmark}-{wanted.implementation}:latest".lower()


def _known(path: Path) -> Image | None:
    """The last lock, also where only its twin is left."""
    return next((lock.parse(place) for place in (path, lock.twin(path)) if place.exists()), None)


def _look(engine: str, image: Image, path: Path) -> dict[str, Any]:
    """What is in the image, as the fields of its lock, with its bill of materials written beside it."""
    found = inventory.take(engine, image)
    bill = path.with_name(sbom.NAME)
    sbom.write(bill, path.parent.name, image.id or image.venv, found)
    return fields(found) | {"sbom": files.hash_file(bill)}


def fields(found: Inventory) -> dict[str, Any]:
    """An inventory as the fields of a lock."""
    told = asdict(found)
    return {name: told[name] for name in _FACTS if name in told}


_FACTS = ("python", "packages", "system_packages", "conda_packages", "versions", "licences", "sbom")


def _facts_of(image: Image) -> dict[str, Any]:
    return {name: getattr(image, name) for name in _FACTS}


def _snapshot(source: Path, snapshot: Path, contents: Mapping[str, str]) -> None:
    """The implementation's files as they were built: what engine `process` runs, and what a submission publishes."""
    if snapshot.is_dir() and lock.contents(snapshot) == contents:
        return
    with files.replacing(snapshot) as fresh:
        for name in contents:
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, fresh / name)


def _check_contract(source: Path, config: str) -> None:
    """The folder contract of an implementation: run_and_time.sh, requirements.txt, configs/<config>.env."""
    for name in ("run_and_time.sh", "requirements.txt", f"configs/{config}.env"):
        if not (source / name).is_file():
            raise BadInput(
                f"{source} is not an implementation that Podium can run",
                name,
                "nothing there",
                "see the folder contract in containers/README.md",
            )


def selected(config: Config, args: argparse.Namespace) -> Sequence[Plan]:
    """The results that `--system` and `--benchmark` name; each implementation once."""
    found = {}
    for item in plan.plans(config):
        if args.system in (None, item.system.name) and args.benchmark in (None, item.benchmark):
            found.setdefault(plan.image_file(config, item), item)
    if not found:
        plan.of(config, args.system or "", args.benchmark or "")
    return list(found.values())


def arguments(parser: argparse.ArgumentParser) -> None:
    which(parser)
    parser.add_argument("--offline", action="store_true", help="take packages from wheels/ in the build context alone")
    parser.add_argument(
        "--download", action="store_true", help="bring the wheels for --offline there, and build nothing"
    )


def which(parser: argparse.ArgumentParser) -> None:
    """Add `--system`, `--benchmark` and `--config`: which images a verb is about; by default all of the config."""
    parser.add_argument("--system", help="of one system alone")
    parser.add_argument("--benchmark", help="of one benchmark alone")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium build [--system S] [--benchmark B]`."""
    config = configuration.load(args.config)
    with stoppable():
        return _main(config, args)


def _main(config: Config, args: argparse.Namespace) -> int:
    for item in selected(config, args):
        if args.download:
            source = item.result.implementation
            wheels = container.context(source) / "wheels"
            environment.download(
                environment.read_requirements(source / "requirements.txt"), wheels, item.system.gpus_per_node == 0
            )
            print(f"build {item.benchmark}: wheels in {wheels}")
            continue
        image = build(config, item, args.offline or config.images.offline)
        print(
            json.dumps(image.as_json(), indent=1)
            if args.json
            else f"build {item.benchmark}: {image.reference[:27]}… locked"
        )
    return 0
