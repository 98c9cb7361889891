#!/usr/bin/env python3
"""A stand-in for `apptainer` and `enroot`, called by their names: it takes the options that these have and no others,
and runs the command in a chroot with the mounts that it was asked for, as root. What it is told goes to $FAKE_LOG.

Options after apptainer's user guide (1.3, `apptainer exec`) and enroot's doc/cmd/start.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def apptainer(words: list[str]) -> int:
    if words == ["version"]:
        print("1.3.4")
        return 0
    top = argparse.ArgumentParser(allow_abbrev=False)
    verbs = top.add_subparsers(required=True)
    run = verbs.add_parser("exec", allow_abbrev=False)
    for flag in ("--cleanenv", "--no-eval", "--pid", "--net", "--writable-tmpfs", "--nv", "--rocm"):
        run.add_argument(flag, action="store_true")
    for option in ("--no-mount", "--pwd", "--network"):
        run.add_argument(option, default="")
    for option in ("--bind", "--env"):
        run.add_argument(option, action="append", default=[])
    run.add_argument("image", type=Path)
    run.add_argument("words", nargs=argparse.REMAINDER)
    build = verbs.add_parser("build", allow_abbrev=False)
    build.add_argument("--force", action="store_true")
    build.add_argument("--no-https", action="store_true")
    build.add_argument("target", type=Path)
    build.add_argument("source")
    args = top.parse_args(words)
    if "target" in args:
        kind, _, source = args.source.partition(":")
        if kind == "docker-archive":
            Path(source).stat()
        args.target.write_text(f"sif of {kind}\n")
        return 0
    return _run(args.image, [mount.split(":") for mount in args.bind], args.pwd, not args.writable_tmpfs, args.words)


def enroot(words: list[str]) -> int:
    if words == ["version"]:
        print("3.5.0")
        return 0
    top = argparse.ArgumentParser(allow_abbrev=False)
    start = top.add_subparsers(required=True).add_parser("start", allow_abbrev=False)
    start.add_argument("--rw", action="store_true")
    start.add_argument("--env", action="append", default=[])
    start.add_argument("--mount", action="append", default=[])
    start.add_argument("image", type=Path)
    start.add_argument("words", nargs=argparse.REMAINDER)
    args = top.parse_args(words)
    mounts = []
    for line in args.mount:
        source, target, kind, options = line.split(":")
        assert kind == "none" and {"bind", "x-create=auto"} <= set(options.split(","))
        mounts.append([source, target, "ro" if "ro" in options.split(",") else "rw"])
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["unsquashfs", "-q", "-n", "-d", f"{place}/root", args.image], check=True, capture_output=True)
        return _run(Path(place) / "root", mounts, "/", not args.rw, args.words)


def _run(root: Path, mounts: list[list[str]], folder: str, read_only: bool, words: list[str]) -> int:
    """In a mount namespace of its own: the root bound on itself, the mounts, then a chroot."""
    script = ["mount --make-rprivate /", f"mount --bind {root} {root}"]
    for source, target, mode in mounts:
        place = root / target.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        script += [f"mount --bind {source} {place}"] + ([f"mount -o remount,bind,ro {place}"] if mode == "ro" else [])
    script += [f"mount -o remount,bind,ro {root}"] if read_only else []
    script.append(f'exec chroot {root} /usr/bin/env -i --chdir={folder} PATH=/usr/bin:/bin "$@"')
    return subprocess.run(
        ["unshare", "--mount", "bash", "-euc", "; ".join(script), "run", *words], check=False
    ).returncode


if __name__ == "__main__":
    name = Path(sys.argv[0]).name
    if log := os.environ.get("FAKE_LOG"):
        with Path(log).open("a") as file:
            file.write(json.dumps([name, *sys.argv[1:]]) + "\n")
    sys.exit({"apptainer": apptainer, "enroot": enroot}[name](sys.argv[1:]))
