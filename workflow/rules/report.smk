"""
Report: one HTML page with scores and the convergence of every run.

REQUIRED INPUTS: verdicts and scores (not the archive: a report is wanted most where packing was refused)
OUTPUTS:
    <root>/reports/index.html
"""


rule write_report:
    """Write the report; it says what is missing where something is."""
    input:
        [plan.verdict_file(CONFIG, item) for item in PLANS],
        CONFIG.root / "reports" / "scores.json",
    output:
        CONFIG.root / "reports" / "index.html",
    shell:
        r"""
        podium report \
            --config {CONFIG.path:q}
        """
