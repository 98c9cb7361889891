"""`podium report`: reports/index.html, and the plots as files into reports/figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from podium import config as configuration
from podium import files
from podium.config import Config
from podium.report import figures, html


def report_file(config: Config) -> Path:
    """Where the page lies."""
    return config.root / "reports" / "index.html"


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium report`."""
    config = configuration.load(args.config)
    path = report_file(config)
    figures.write(config)
    files.write_text(path, html.page(config))
    print(json.dumps({"report": str(path)}) if args.json else f"report: {path}")
    return 0
