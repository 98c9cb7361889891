"""`podium pull`: a locked image onto this machine, by its digest in a registry or from a file; held to its lock."""

from __future__ import annotations

import argparse
import json
import platform
import socket
import subprocess
from pathlib import Path

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadInput
from podium.images import build, engines, export, lock, registry
from podium.images.engines import choose, store
from podium.images.lock import Image
from podium.plan import Plan
from podium.signals import stoppable

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # of the kernel, as images call them


def pull(config: Config, wanted: Plan, file: Path | None = None) -> Image:
    """Bring the locked image to the system's engine, unless it is there; from `file` (`podium export tar`) if given.

    A machine pulls one at a time; a file for apptainer or enroot is made once for a work root.
    Raises BadInput where what comes is not the locked image, BadEnvironment where the registry or the network fails.
    """
    path = plan.image_file(config, wanted)
    image = lock.read(path)
    engine = choose.puller(wanted.system.engine, image)
    if engine in choose.FILES:
        return export.export(config, wanted, choose.FILES[engine])
    if image.engine == "process":
        return image
    with files.locked(path.with_name(f".pull-{socket.gethostname()}.lock")):
        if store.holds(engine, image):
            return engines.of(engine).held(image)
        _check_architecture(image)
        store.need_space(engine, image.size, f"the image of {wanted.benchmark}")
        again = f"podium pull --config {config.path}"
        if file is None and not image.digest:
            raise BadInput(
                f"the image of {wanted.benchmark} was never pushed",
                "a digest in its lock",
                str(path),
                "podium push where it was built; or podium export tar there, and podium pull --from FILE",
            )
        source = str(file or image.digest)
        registry.fetch(engine, source, again, from_file=file is not None)
        held = engines.of(engine).held(image)
        subprocess.run([engine, "tag", held.id, image.tag], check=True)  # a name, so that no prune takes it
    return held


def _check_architecture(image: Image) -> None:
    here = ARCHITECTURES.get(platform.machine(), platform.machine())
    if image.architecture != here:
        raise BadInput(
            "the image is of another architecture",
            f"{here}, this machine's",
            image.architecture,
            "podium build on such a machine; the lock of each needs a work root of its own",
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    build.which(parser)
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE", help="a file of podium export tar")


def main(args: argparse.Namespace) -> int:
    """`podium pull [--system S] [--benchmark B] [--from FILE]`."""
    config = configuration.load(args.config)
    with stoppable():
        return _main(config, args)


def _main(config: Config, args: argparse.Namespace) -> int:
    for item in build.selected(config, args):
        image = pull(config, item, args.file)
        print(json.dumps(image.as_json()) if args.json else f"pull {item.benchmark}: {image.reference[:27]}… is here")
    return 0
