"""`podium <verb>`: the table of verbs. Each verb lives in the room of its stage and is imported only when called."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys

import podium
from podium.errors import GOOD, PodiumError

# verb: (module, what it does). The order is the way of the data. A module has `arguments(parser)` and `main(args)`,
# where main returns the exit status.
VERBS: dict[str, tuple[str, str]] = {
    "doctor": ("podium.doctor", "what this machine has and lacks, and what each lack costs"),
    "plan": ("podium.plan", "what the config asks for: results, runs, data, images"),
    "sources": ("podium.data.sources", "make the demo's sources, or assemble sources from sample files"),
    "fetch": ("podium.data.fetch", "bring a dataset's files into the work root and check their hashes"),
    "prepare": ("podium.data.prepare", "turn a fetched dataset into the layout that an implementation reads"),
    "verify": ("podium.data.verify", "compare a dataset in the work root with its manifest and its invariants"),
    "stage": ("podium.data.stage", "copy a dataset to node-local disks or to S3, and check it there"),
    "build": ("podium.images.build", "build and lock the image of an implementation"),
    "lock": ("podium.images.verify", "what is locked; whether this machine's images still are what was locked"),
    "push": ("podium.images.push", "an image into a registry, locked by its digest there"),
    "pull": ("podium.images.pull", "the locked image onto this machine, by digest or from a file"),
    "export": ("podium.images.export", "an image as one file: tar, sif or sqsh"),
    "shell": ("podium.images.shell", "a shell, or a command, in an image as a run would find it"),
    "describe": ("podium.package.system", "collect the system description from the nodes and the config"),
    "run": ("podium.runs.run", "launch one attempt and record it; --watch shows all"),
    "preflight": ("podium.runs.preflight", "whether this node is fit for a run; --list: what is known of all"),
    "cancel": ("podium.runs.cancel", "end runs that go on, and record that they were ended"),
    "check": ("podium.verdict.check", "the official verdict on a submission, a round, a result, or a log"),
    "explain": ("podium.verdict.explain", "a rule that a finding names: what it asks, where it stands, how to mend it"),
    "lint": ("podium.verdict.lint.lint", "what the official tools do not look at: identities, clocks, schedules, code"),
    "score": ("podium.verdict.score.score", "the olympic score of every result"),
    "forecast": ("podium.verdict.forecast.forecast", "what a result will be, from its first runs"),
    "reproduce": ("podium.reproduce.command", "another submitter's result: list, plan, run again, compare"),
    "pack": ("podium.package.layout", "build the submission tree from the counted runs"),
    "inspect": ("podium.package.inspect", "the official checkers, unmodified, on a copy of the packed tree, and lint"),
    "archive": ("podium.package.archive", "pack the submission tree into an archive with hashes and a receipt"),
    "unpack": ("podium.package.unpack", "an archive, encrypted or not, back to a tree"),
    "upload": ("podium.package.upload", "bring the archive to S3 and check it there"),
    "nightly": ("podium.nightly.command", "run tonight's benchmarks, judge them against the history"),
    "status": ("podium.report.status", "where every result stands, what was made, what to do next"),
    "report": ("podium.report.report", "write the report: scores, convergence of every run, what is missing"),
}


def parser(verb: str | None) -> argparse.ArgumentParser:
    """The parser; only the module of `verb` is imported, so that `podium --help` starts fast."""
    top = argparse.ArgumentParser(prog="podium", description=podium.__doc__)
    top.add_argument("--version", action="version", version=podium.__version__)
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (module, summary) in VERBS.items():
        one = verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False, conflict_handler="resolve")
        if name == verb:
            importlib.import_module(module).arguments(one)
            one.add_argument("--json", action="store_true", help="errors and answers as JSON on standard output")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one verb; errors that a person can act on are printed, everything else is a fault and keeps its traceback."""
    argv = sys.argv[1:] if argv is None else argv
    verb = next((word for word in argv if not word.startswith("-")), None)
    try:
        try:
            args = parser(verb if verb in VERBS else None).parse_args(argv)
            return _called(args)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"podium {verb}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone: nothing more can be said, also not when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _called(args: argparse.Namespace) -> int:
    try:
        return importlib.import_module(VERBS[args.verb][0]).main(args) or GOOD
    except PodiumError as error:
        print(f"podium {args.verb}: {error}", file=sys.stderr)
        if args.json:
            print(json.dumps(error.as_json()))
        return error.code


if __name__ == "__main__":
    sys.exit(main())
