"""`make bench-runs`: what a run costs beside its training, and what waiting for many costs the machine that waits.

`bench runs <step> value=<x> bar=<y> ok|short`, seconds or percent of one core; exit status 1 where any is short.
Overheads are medians of five runs that train for a second. Slurm is a real one where its programs are here and this is
root.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "workflow")]

import yaml  # noqa: E402

from podium import config as configuration  # noqa: E402
from podium import manifest, plan  # noqa: E402
from podium.images import build  # noqa: E402
from services import slurm_cluster  # noqa: E402
from support import SCRIPTED, config_text  # noqa: E402

TRAINING = 1.0  # seconds of configs/second.env
MANY = 200
SHARES = (60.0, 5.0)  # seconds over which the waiting is measured, percent of one core that it may take

# Slurm's commands as a large site answers them: at once, and nothing ever ends.
SBATCH = """#!/bin/sh
echo "$$|PENDING|Priority|$(sed -n 's/^#SBATCH --job-name=//p' "$2")" >>"$JOBS"
echo $$
"""
SQUEUE = '#!/bin/sh\necho x >>"$CALLS"\ncat "$JOBS"\n'


def site(folder: Path, launcher: str, **slurm: object) -> configuration.Config:
    """A config with five runs of the scripted implementation, prepared and built, in a work root of its own."""
    system = {"nodes": 1, "gpus_per_node": 0, "launcher": launcher, "slurm": slurm}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config_text(folder / "work", "second", systems={"host": system})))
    config = configuration.load(path)
    data = plan.layout_folder(config, config.dataset("imagenet"))
    data.mkdir(parents=True)
    (data / "train.rec").write_bytes(b"records")
    manifest.write(data, manifest.of_folder(data))
    build.build(config, plan.plans(config)[0])
    return config


def command(config: configuration.Config, number: int) -> list[str]:
    place = ["--system", "host", "--benchmark", "resnet", "--config", str(config.path)]
    return [sys.executable, "-m", "podium", "run", *place, "--attempt", str(number)]


def overhead(config: configuration.Config, environment: dict[str, str]) -> float:
    """Seconds of a run beside its training, from the start of the command to its end."""
    times = []
    for number in range(5):
        begun = time.monotonic()
        subprocess.run(command(config, number), env=environment, check=True, capture_output=True)
        times.append(time.monotonic() - begun - TRAINING)
    return statistics.median(times)


def waiting(folder: Path) -> tuple[float, float]:
    """Percent of one core that MANY processes take that wait for a job each, and status calls for each interval."""
    config = site(folder, "slurm", poll_seconds=15)
    tools = folder / "bin"
    tools.mkdir()
    jobs, calls = folder / "jobs", folder / "calls"
    jobs.write_text("")
    calls.write_text("")
    for name, text in (
        ("sbatch", SBATCH),
        ("squeue", SQUEUE),
        ("sacct", "#!/bin/sh\nexit 1\n"),
        ("srun", "#!/bin/sh\n"),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "JOBS": str(jobs), "CALLS": str(calls)}
    text = yaml.safe_load(config.path.read_text())
    text["results"][0]["attempts"] = MANY
    config.path.write_text(yaml.safe_dump(text))
    heads = []
    try:
        for number in range(MANY):
            words = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            heads.append(subprocess.Popen(command(config, number), **words))
            if number % 8 == 7:  # as many at a time as a workflow starts, not all at once
                submitted(config, number - 8)
        submitted(config, MANY - 1)
        time.sleep(20)
        before, counted, begun = cpu(heads), len(calls.read_text().split()), time.monotonic()
        time.sleep(SHARES[0])
        passed = time.monotonic() - begun
        share = (cpu(heads) - before) / passed * 100
        asked = (len(calls.read_text().split()) - counted) / (passed / 15)
        assert all(head.poll() is None for head in heads), "a process that waits has ended"
        return share, asked
    finally:
        for head in heads:
            head.kill()
        for head in heads:
            head.wait()


def submitted(config: configuration.Config, number: int) -> None:
    """Wait until run `number` is submitted."""
    path = plan.result_folder(config, plan.plans(config)[0]) / str(number) / "job.json"
    deadline = time.monotonic() + 300
    while number >= 0 and not (path.exists() and '"id": null' not in path.read_text()):
        assert time.monotonic() < deadline, f"run {number} was not submitted"
        time.sleep(0.2)


def cpu(heads: list[subprocess.Popen]) -> float:
    """Seconds of processor time that processes and their ended children took (proc(5), fields 14 to 17)."""
    ticks = 0
    for head in heads:
        fields = Path(f"/proc/{head.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def planning(folder: Path) -> float:
    """Processor seconds of a dry run that plans a round of 1,000 attempts: 25 systems with 40 runs each."""
    systems = {f"system{number}": {"nodes": 1, "gpus_per_node": 0, "launcher": "slurm"} for number in range(25)}
    result = {"benchmark": "unet3d", "implementation": str(SCRIPTED), "config": "second", "attempts": 40}
    text = config_text(folder / "work", systems=systems, results=[{**result, "system": name} for name in systems])
    text["data"]["sets"] = {"kits19": {"source": "demo", "layout": "npy"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(text))
    words = [str(Path(sys.executable).parent / "snakemake"), "--dry-run", "--quiet", "all", "--cores", "8"]
    words += ["--configfile", str(folder / "config.yaml")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    print(f"bench machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    steps: list[tuple[str, float, float]] = []
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        folders = {name: Path(place) / name for name in ("local", "slurm", "many", "plan", "c")}
        for folder in folders.values():
            folder.mkdir()
        steps.append(("local-overhead", overhead(site(folders["local"], "local"), dict(os.environ)), 1.0))
        if os.geteuid() == 0 and not slurm_cluster.missing(accounting=False):
            with slurm_cluster.cluster(folders["c"], accounting=False) as cluster:
                config = site(folders["slurm"], "slurm", exclusive=False)
                steps.append(("slurm-overhead", overhead(config, cluster.environment()), 3.0))
        else:
            print("bench runs slurm-overhead: no Slurm here, or not root")
        steps.append(("plan-1000", planning(folders["plan"]), 5.0))
        share, asked = waiting(folders["many"])
        steps += [("waiting-200-percent", share, SHARES[1]), ("status-calls-per-interval", asked, 1.3)]
    for name, value, bar in steps:
        print(f"bench runs {name} value={value:.2f} bar={bar:.1f} {'ok' if value <= bar else 'short'}")
    return int(any(value > bar for _, value, bar in steps))


if __name__ == "__main__":
    sys.exit(main())
