"""Podium: MLPerf Training from data sources to a checked, packed submission.

The way of the data, one file of rules a stage; every rule runs one `podium <verb>` that can be pasted into a shell:

    sources -> raw -> ready --+
    implementation -> image --+-> runs -> verdicts -> submission -> archive
    node -> description ------+             +-> scores, report

    snakemake --profile profiles/local                      the demo (config/config.yaml)
    snakemake --profile profiles/local --configfile FILE    your submission

Paths below the work root are built in workflow/podium/plan.py; config/README.md is the manual of the config.
"""

import sys
from functools import partial
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

if "submission" not in config:

    configfile: "config/config.yaml"


sys.path.insert(0, f"{workflow.basedir}/workflow")
from podium import config as configuration, plan
from podium.data import sources, verify
from podium.package import archive, inspect, layout
from podium.package.sources import configs
from podium.report import figures
from podium.report.report import report_file

CONFIG = configuration.load_for_snakemake(workflow.configfiles, config)
PLANS = plan.plans(CONFIG)

# The rules find `podium` beside the Python that runs Snakemake, whatever the caller's PATH is.
shell.prefix(f"set -euo pipefail; export PATH={Path(sys.executable).parent}:$PATH; ")


report: "workflow/report/workflow.rst"


wildcard_constraints:
    dataset="[a-z0-9_]+",
    system="[A-Za-z0-9_.-]+",
    benchmark="[a-z0-9_]+",
    attempt="[0-9]+",


rule all:
    """The archive and the report.

    Every data set, run and verdict is named too: Snakemake does not miss an intermediate file whose heirs are there.
    """
    input:
        [verify.verified_file(plan.layout_folder(CONFIG, item)) for item in CONFIG.datasets.values()],
        [plan.stamps(CONFIG, item) for item in PLANS],
        [plan.verdict_file(CONFIG, item) for item in PLANS],
        archive.stamp_file(CONFIG),
        report_file(CONFIG),


include: "workflow/rules/data.smk"
include: "workflow/rules/images.smk"
include: "workflow/rules/systems.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/verdicts.smk"
include: "workflow/rules/package.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/nightly.smk"
include: "workflow/rules/reproduce.smk"
