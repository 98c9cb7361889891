"""
Report: one HTML page, and its table and plots as files for `snakemake --report`.

REQUIRED INPUTS: verdicts and scores (not the archive: a report is wanted most where packing was refused)
OUTPUTS:
    <root>/reports/index.html     the page
    <root>/reports/figures/       board.html, timeline.svg, <system>-<benchmark>-{convergence,time}.svg
"""


def plots(what):
    """The plots of every result, each with a caption and the labels that the report lists it by."""
    flagged = partial(report, caption=f"../report/{what}.rst", category=what.capitalize())
    labels = [{"system": item.system.name, "benchmark": item.benchmark} for item in PLANS]
    paths = [figures.plot_file(CONFIG, item, what) for item in PLANS]
    return [flagged(path, labels=label) for path, label in zip(paths, labels, strict=True)]


rule write_report:
    """Write the report; it says what is missing where something is."""
    input:
        [plan.verdict_file(CONFIG, item) for item in PLANS],
        CONFIG.root / "reports" / "scores.json",
    output:
        report(report_file(CONFIG), caption="../report/page.rst", category="Report"),
        report(figures.board_file(CONFIG), caption="../report/board.rst", category="Results"),
        report(figures.timeline_file(CONFIG), caption="../report/timeline.rst", category="Results"),
        plots("convergence"),
        plots("time"),
    shell:
        r"""
        podium report \
            --config {CONFIG.path:q}
        """
