"""
Nightly: the runs of one night, judged against the history.

    snakemake --profile profiles/local nightly     tonight's; whatever data or image is lacking is made first

REQUIRED INPUTS: verified data sets and locked images of what `nightly.results` names
OUTPUTS:
    <root>/nightly/nights/<night>/night.json    the verdict of that morning, as `podium nightly --json` tells it

The history itself (records, marks) is no output of Snakemake, which deletes its outputs before a job.
"""

import datetime

NIGHTLY_PLANS = [plan.of(CONFIG, one.system, one.benchmark) for one in CONFIG.nightly.results]


wildcard_constraints:
    night=r"\d{4}-\d\d-\d\d(\.\d+)?",


rule nightly:
    """Tonight."""
    input:
        CONFIG.root / "nightly" / "nights" / datetime.date.today().isoformat() / "night.json",


rule spend_night:
    """Run a night and judge it. Status 1 (slower) and 3 (runs are missing) are verdicts like any other."""
    input:
        [plan.image_file(CONFIG, item) for item in NIGHTLY_PLANS],
        [verify.verified_file(plan.layout_folder(CONFIG, item.dataset)) for item in NIGHTLY_PLANS],
    output:
        CONFIG.root / "nightly" / "nights" / "{night}" / "night.json",
    threads: workflow.cores  # nothing beside it: it measures
    shell:
        r"""
        podium nightly \
            --night {wildcards.night:q} \
            --config {CONFIG.path:q} \
            --json >{output:q} || [ $? -eq 1 -o $? -eq 3 ]
        """
