"""Arguments that many verbs have; apart from what reads them, since `--help` and the check of a tree need no more."""

from __future__ import annotations

import argparse
from pathlib import Path

DEFAULT_CONFIG = Path("config/config.yaml")


def config(parser: argparse.ArgumentParser) -> None:
    """Add `--config FILE` to a verb."""
    about = f"the config (default {DEFAULT_CONFIG})"
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, metavar="FILE", help=about)
