"""
Runs: each wanted run of each result, launched, watched and recorded; one job of Snakemake each, wherever it trains.

REQUIRED INPUTS: a locked image, a verified data set
OUTPUTS:
    <root>/runs/<system>/<benchmark>/<attempt>/stamp.json   which attempt of the ledger stands for this run

The record itself (run.json, result.txt, ledger.jsonl) is no output of Snakemake, which deletes its outputs before a job
and after one that failed. `podium run` decides whether anything is to be launched, so a job that is run again is safe.
"""

RESULTS = {(item.system.name, item.benchmark): item for item in PLANS}


def cores_here(system):
    """The cores of this machine that a run takes: those that it trains on, or the little that waiting takes."""
    return system.threads if system.launcher == "local" else 1


rule run_attempt:
    """Make sure that one run is recorded. Status 1 is a run that missed its target: a record like any other."""
    input:
        image=lambda w: plan.image_file(CONFIG, RESULTS[w.system, w.benchmark]),
        data=lambda w: verify.verified_file(plan.layout_folder(CONFIG, RESULTS[w.system, w.benchmark].dataset)),
    output:
        CONFIG.root / "runs" / "{system}" / "{benchmark}" / "{attempt}" / "stamp.json",
    priority: lambda w: -int(w.attempt)  # launched in the order of their numbers
    localrule: True  # it waits: on Slurm the run is a job of its own, which `podium run` submits
    threads: lambda w: cores_here(RESULTS[w.system, w.benchmark].system)
    params:
        submission=CONFIG.submission,
        config=lambda w: RESULTS[w.system, w.benchmark].result.config,
    shell:
        r"""
        podium run \
            --system {wildcards.system:q} \
            --benchmark {wildcards.benchmark:q} \
            --attempt {wildcards.attempt} \
            --config {CONFIG.path:q} || [ $? -eq 1 ]
        """
