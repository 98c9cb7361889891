"""`make bench-images`: building with nothing to do, the overhead of a run in a container, export to squashfs.

`bench images <step> value=<x> bar=<y> ok|short`; exit status 1 where any is short. Times are medians; what is compared
is measured in turn, within one run. It takes root, Docker, Podman and squashfs-tools.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow")]

from podium import config as configuration  # noqa: E402
from podium import files, plan  # noqa: E402
from podium.images import engines, export, lock  # noqa: E402
from podium.images.engines import choose, docker  # noqa: E402
from services import base_image, docker_service, podman_service  # noqa: E402
from support import SCRIPTED, config_text, first_plan  # noqa: E402

REPEATS = 7
BUILD_BAR, RUN_BAR = 1.0, 1.5  # seconds
EXPORT_BAR = 1.5  # times what mksquashfs takes for the same files, with every core
LARGE = 1_000_000_000  # bytes of libraries of this machine in the image that is exported


def seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def config_on(
    engine: str, place: Path, name: str, implementation: Path, base: str = base_image.BASE
) -> configuration.Config:
    value = config_text(place / f"work-{name}", systems={"host": {"nodes": 1, "gpus_per_node": 0, "engine": engine}})
    value["results"][0]["implementation"] = str(implementation)
    value["images"] = {"base": f"localhost/{base}", "offline": True}
    path = place / f"{name}.yaml"
    path.write_text(yaml.safe_dump(value))
    return configuration.load(path)


def podium(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "podium.cli", *words], check=True, stdout=subprocess.DEVNULL)


def of_engine(engine: str, place: Path) -> list[tuple[str, float, float]]:
    """Building again, and a run that does nothing, against the same words without an engine."""
    config = config_on(engine, place, engine, SCRIPTED)
    podium("build", "--config", str(config.path))
    again = statistics.median(seconds(lambda: podium("build", "--config", str(config.path))) for _ in range(REPEATS))
    _, image = choose.runner(engine, lock.read(plan.image_file(config, first_plan(config))))
    run = engines.Run(image, None, {}, name="podium-bench", words=("true",))

    def inside() -> None:
        subprocess.run(engines.of(engine).command(run), check=True)
        engines.end(engine, run.name, 1)

    def bare() -> None:
        subprocess.run(engines.start(run), check=True)

    over = statistics.median(seconds(inside) - seconds(bare) for _ in range(REPEATS))
    return [(f"build-again-{engine}", again, BUILD_BAR), (f"run-overhead-{engine}", over, RUN_BAR)]


def of_export(engine: str, place: Path) -> list[tuple[str, float, float]]:
    """Export to squashfs against the compression of the same files, from a tar, by the same program."""
    config = config_on(engine, place, f"{engine}-large", SCRIPTED, "podium-tests/large")
    podium("build", "--config", str(config.path))
    image = lock.read(plan.image_file(config, first_plan(config)))
    words = [engine, "create", image.id, "true"]
    container = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    archive = place / "large-again.tar"
    subprocess.run([engine, "export", f"--output={archive}", container], check=True)
    subprocess.run([engine, "rm", container], check=True, capture_output=True)
    target = place / "alone.sqsh"

    def compress() -> None:
        target.unlink(missing_ok=True)
        export.squash_tar(["cat", str(archive)], target)

    def whole() -> None:
        files.write_json(plan.image_file(config, first_plan(config)), image.as_json())  # nothing is exported yet
        export.export(config, first_plan(config), "sqsh")

    ratios = [seconds(whole) / seconds(compress) for _ in range(5)]
    return [(f"export-sqsh-over-compression-{engine}", statistics.median(ratios), EXPORT_BAR)]


def add_libraries(archive: Path) -> None:
    """This machine's own libraries, LARGE bytes of them, as one more folder of a base."""
    taken = 0
    with tarfile.open(archive, "a") as tar:
        for path in sorted(Path("/usr/lib").rglob("*.so*")):
            if taken < LARGE and path.is_file() and not path.is_symlink():
                tar.add(path, f"opt/libraries{path}")
                taken += path.stat().st_size


def main() -> int:
    print(f"bench machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with (
        tempfile.TemporaryDirectory(prefix="podium-bench-") as name,
        docker_service.daemon(docker.builder()) as address,
        podman_service.own_store() as environment,
    ):
        place = Path(name)
        os.environ |= {"DOCKER_HOST": address, "PYTHONPATH": str(TESTS.parent / "workflow"), **environment}
        base_image.write_base(place / "base.tar")
        shutil.copy(place / "base.tar", place / "large.tar")
        add_libraries(place / "large.tar")
        for engine in choose.BUILDERS:
            for file, name in (("base", base_image.BASE), ("large", "podium-tests/large")):
                words = [engine, "import", str(place / f"{file}.tar"), f"localhost/{name}"]
                subprocess.run(words, check=True, capture_output=True)
        steps = [step for engine in choose.BUILDERS for step in of_engine(engine, place)]
        steps += [step for engine in choose.BUILDERS for step in of_export(engine, place)]
    for step, value, bar in steps:
        print(f"bench images {step} value={value:.2f} bar={bar:.1f} {'ok' if value <= bar else 'short'}")
    return int(any(value > bar for _, value, bar in steps))


if __name__ == "__main__":
    sys.exit(main())
