"""
Verdicts: the official checker on every log and every result, and the scores.

REQUIRED INPUTS: the recorded runs, the system description
OUTPUTS:
    <root>/verdicts/<system>/<benchmark>.json   per run and per result, with the choice of runs
    <root>/reports/scores.json, scores.csv      the olympic score of every result
"""


rule check_result:
    """Check a result. Status 1 is an answer too: packing is what refuses a result that is not compliant."""
    input:
        lambda w: plan.stamps(CONFIG, RESULTS[w.system, w.benchmark]),
        system=CONFIG.root / "systems" / "{system}.json",
    output:
        CONFIG.root / "verdicts" / "{system}" / "{benchmark}.json",
    params:
        submission=CONFIG.submission,
        task=lambda w: RESULTS[w.system, w.benchmark].task,
        checker=CONFIG.checker_version,
    shell:
        r"""
        podium check \
            --system {wildcards.system:q} \
            --benchmark {wildcards.benchmark:q} \
            --config {CONFIG.path:q} || [ $? -eq 1 ]
        """


rule score_results:
    """The olympic score of every result."""
    input:
        [plan.verdict_file(CONFIG, item) for item in PLANS],
    output:
        CONFIG.root / "reports" / "scores.json",
        CONFIG.root / "reports" / "scores.csv",
    shell:
        r"""
        podium score \
            --config {CONFIG.path:q}
        """
