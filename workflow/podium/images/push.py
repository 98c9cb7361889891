"""`podium push`: an image into a registry, locked by the digest that the registry gives it."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from podium import config as configuration
from podium import plan
from podium.config import Config
from podium.errors import BadEnvironment, BadInput
from podium.images import build, engines, lock, registry
from podium.images.lock import Image
from podium.images.watch import watch
from podium.plan import Plan
from podium.signals import stoppable


def push(config: Config, wanted: Plan) -> Image:
    """Push the locked image from the store where it was built; returns it with its digest, which is locked too.

    Raises BadInput for an image without layers (engine process) or one that is not the locked one, BadEnvironment where
    the registry or the network fails.
    """
    path = plan.image_file(config, wanted)
    image = lock.read(path)
    if image.engine == "process":
        raise BadInput(
            f"the image of {wanted.benchmark} is no container image",
            "engine docker or podman",
            "engine process: a virtual environment cannot be pushed",
            "podium build with another engine; or podium build --download, and --offline elsewhere",
        )
    image = engines.of(image.engine).held(image)
    name = registry.name(config, wanted, image)
    again = f"podium push --config {config.path}"
    with tempfile.TemporaryDirectory(prefix="podium-push-") as place:
        told = Path(place) / "digest"
        if image.engine == "docker":
            subprocess.run(["docker", "tag", image.id, name], check=True)
            said = watch(["docker", "push", name], f"push {name}", ".*: Pushed")
        else:
            plain = ["--tls-verify=false"] if registry.on_loopback(name) else []
            words = ["podman", "push", *plain, f"--digestfile={told}", image.id, f"docker://{name}"]
            said = watch(words, f"push {name}", "Copying blob")
        if said.status != 0:
            raise registry.failure(f"push of {name}", said, again)
        found = re.search(r"sha256:[0-9a-f]{64}", told.read_text() if told.exists() else said.last(1)[0])
    if found is None:
        raise BadEnvironment(f"the registry gave {name} no digest", "sha256:…", said.last(1)[0], again)
    pushed = replace(image, digest=f"{name.rpartition(':')[0]}@{found[0]}")
    lock.write(path, pushed)
    return pushed


def arguments(parser: argparse.ArgumentParser) -> None:
    build.which(parser)


def main(args: argparse.Namespace) -> int:
    """`podium push [--system S] [--benchmark B]`."""
    config = configuration.load(args.config)
    with stoppable():
        return _main(config, args)


def _main(config: Config, args: argparse.Namespace) -> int:
    for item in build.selected(config, args):
        image = push(config, item)
        print(json.dumps({"digest": image.digest}) if args.json else f"push {item.benchmark}: {image.digest}")
    return 0
