"""`podium export`: an image as one file: `tar` (docker-archive), `sif` (apptainer) or `sqsh` (enroot, pyxis)."""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadEnvironment, BadInput
from podium.images import build, engines, lock, registry
from podium.images.engines import choose, store
from podium.images.lock import Export, Image
from podium.images.watch import Said, watch
from podium.plan import Plan
from podium.signals import stoppable

KINDS = ("tar", "sif", "sqsh")


def export(config: Config, wanted: Plan, kind: str) -> Image:
    """Write the locked image as a file beside its lock, unless it is there; returns the image with the file locked too.

    Whoever comes second waits for the first, on all machines that share the work root. Nothing is left of an export
    that failed. Raises BadInput where no store holds the locked image, BadEnvironment where a tool or space is lacking.
    """
    path = plan.image_file(config, wanted)
    with files.locked(path.with_name(".export.lock")):
        image = lock.read(path)
        if image.engine == "process":
            raise BadInput(
                f"the image of {wanted.benchmark} is no container image",
                "engine docker or podman",
                "process",
                "podium build",
            )
        target = (path.parent / f"{wanted.implementation}.{kind}").absolute()
        if kind in image.exports and lock.digest(target) == image.exports[kind].sha256:
            return image
        files.need_space(target, image.size, f"{target.name}")
        with _whole(target) as fresh:
            {"tar": _tar, "sif": _sif, "sqsh": _sqsh}[kind](image, fresh)
        made = Export(str(target), target.stat().st_size, lock.digest(target) or "")
        image = replace(image, exports={**image.exports, kind: made})
        lock.write(path, image)
        return image


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A name beside `target` that takes its place when all went well, and else is removed."""
    fresh = target.with_name(f".new.{target.name}")
    fresh.unlink(missing_ok=True)
    try:
        yield fresh
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _store(image: Image) -> tuple[str, Image]:
    """The store on this machine that holds the image, and the image as that one calls it."""
    why = []
    for name in choose.BUILDERS:
        found = engines.of(name).available()
        if found.ok and store.holds(name, image):
            return name, engines.of(name).held(image)
        why.append(f"{name}: {'does not hold it' if found.ok else found.why}")
    raise BadInput(
        "no store on this machine holds the locked image",
        image.reference,
        "; ".join(why),
        "podium export where it was built; or podium pull with engine docker or podman first",
    )


def _tar(image: Image, target: Path) -> None:
    engine, held = _store(image)
    words = [
        engine,
        "save",
        *(["--format=docker-archive"] if engine == "podman" else []),
        f"--output={target}",
        held.id,
    ]
    _done(watch(words, f"export {target.name}", "Copying blob"), target)


def _sif(image: Image, target: Path) -> None:
    """By apptainer, from a registry by digest, else from an archive that is removed again."""
    choose.answering("apptainer")
    for variable in ("APPTAINER_CACHEDIR", "APPTAINER_TMPDIR"):
        if folder := os.environ.get(variable):
            files.need_space(Path(folder), image.size, f"apptainer ({variable})")
    if image.digest:
        plain = ["--no-https"] if registry.on_loopback(image.digest) else []
        words = ["apptainer", "build", "--force", *plain, str(target), f"docker://{image.digest}"]
        _done(watch(words, f"export {target.name}", "Copying blob"), target)
        return
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as place:
        archive = Path(place) / "image.tar"
        _tar(image, archive)
        words = ["apptainer", "build", "--force", str(target), f"docker-archive:{archive}"]
        _done(watch(words, f"export {target.name}", "Copying blob"), target)


def _sqsh(image: Image, target: Path) -> None:
    """The files of a container that was never started, compressed by squashfs-tools with every core.

    They are read where the store keeps them, if this user may, else as the tar that the engine makes of them, which
    takes a core.

    The image's environment goes to /etc/environment, where enroot looks for it (its doc/image-format.md); a command is
    executed as it stands, since there is no /etc/rc.
    """
    if not shutil.which("mksquashfs"):
        raise BadEnvironment(
            f"no program to make {target.suffix} with",
            "mksquashfs of squashfs-tools 4.5 or newer",
            "no mksquashfs on the PATH",
            "Debian: apt-get install squashfs-tools",
        )
    engine, held = _store(image)
    facts = store.inspect(engine, held.id) or {}
    container = f"podium-export-{uuid.uuid4().hex[:12]}"
    try:
        _done(watch([engine, "create", "--pull=never", f"--name={container}", held.id, "true"], "", "^$"), target)
        copied = [engine, "cp", "-", f"{container}:/etc"]
        subprocess.run(copied, input=_environment(facts["Config"].get("Env") or []), check=True, capture_output=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as folder:
            seen = engines.of(engine).mounted(container, Path(folder))
            if seen and subprocess.run([*seen, "true"], capture_output=True, check=False).returncode == 0:
                _done(watch(squash([*seen, "mksquashfs", folder, str(target)]), f"export {target.name}", "^$"), target)
            else:
                squash_tar([engine, "export", container], target)
    finally:
        subprocess.run([engine, "rm", "--force", container], capture_output=True, check=False)


def _environment(lines: list[str]) -> bytes:
    """A tar of one file, `environment`, as `docker cp -` takes it."""
    content = "".join(f"{line}\n" for line in lines).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        about = tarfile.TarInfo("environment")
        about.size, about.mode = len(content), 0o644
        tar.addfile(about, io.BytesIO(content))
    return archive.getvalue()


def squash(command: list[str]) -> list[str]:
    """The command of mksquashfs with how an image is compressed: a fast level of zstd, on every core."""
    how = ["-comp", "zstd", "-Xcompression-level", "3", "-all-root", "-no-progress", "-quiet"]
    return [*command, *how]


def squash_tar(source: list[str], target: Path) -> None:
    """Pipe a tar into mksquashfs; raises BadEnvironment where either end of the pipe fails."""
    words = squash(["mksquashfs", "-", str(target), "-tar"])
    with subprocess.Popen(source, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tar:
        squashed = subprocess.run(words, stdin=tar.stdout, capture_output=True, text=True, check=False)
        tar.stdout.close()
        if squashed.returncode != 0:
            tar.terminate()
        told = tar.stderr.read().decode(errors="replace")
    _done(Said(tar.returncode or squashed.returncode, told + squashed.stderr + squashed.stdout), target)


def _done(said: Said, target: Path) -> None:
    if said.status != 0:
        raise registry.failure(f"export to {target.name.removeprefix('.new.')}", said, "podium export again")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", choices=KINDS, help="tar for another machine, sif for apptainer, sqsh for enroot and pyxis"
    )
    build.which(parser)


def main(args: argparse.Namespace) -> int:
    """`podium export KIND [--system S] [--benchmark B]`."""
    config = configuration.load(args.config)
    with stoppable():
        return _main(config, args)


def _main(config: Config, args: argparse.Namespace) -> int:
    for item in build.selected(config, args):
        made = export(config, item, args.kind).exports[args.kind]
        if args.json:
            print(json.dumps({"path": made.path, "bytes": made.bytes, "sha256": made.sha256}))
        else:
            print(f"export {item.benchmark}: {made.path}, {made.bytes / 1e9:.2f} GB")
    return 0
