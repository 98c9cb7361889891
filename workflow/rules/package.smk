"""
Package: the submission tree, what every checker says of it, the archive.

REQUIRED INPUTS: compliant verdicts
OUTPUTS:
    <root>/submission/<org>.manifest.json     the files and hashes of the tree <root>/submission/<org>/
    <root>/verdicts/submission.json           what the official checkers, podium check and lint said of it
    <root>/submission/<org>.archived.json     the receipt of <root>/archive/<org>.tar.gz

Tree and archive themselves are no outputs of Snakemake, which deletes its outputs before a job: the last good ones stay
until new ones are complete.
"""

ALL_CONFIGS = configs(CONFIG)  # those of other clusters too: their work roots are read, never made


rule pack_submission:
    """Build the submission tree from the counted runs, scrubbed."""
    input:
        [plan.verdict_file(each, item) for each in ALL_CONFIGS for item in plan.plans(each)],
        [plan.image_file(each, item) for each in ALL_CONFIGS for item in plan.plans(each)],
    output:
        layout.manifest_file(CONFIG),
    params:
        scrub=CONFIG.package.scrub,
    shell:
        r"""
        podium pack \
            --config {CONFIG.path:q}
        """


rule inspect_submission:
    """Every checker on the finished tree. Status 1 is an answer too: archiving is what refuses a tree with findings."""
    input:
        layout.manifest_file(CONFIG),
    output:
        inspect.inspection_file(CONFIG),
    shell:
        r"""
        podium inspect \
            --config {CONFIG.path:q} || [ $? -eq 1 ]
        """


rule archive_submission:
    """Pack the inspected tree into an archive with hashes and a receipt."""
    input:
        layout.manifest_file(CONFIG),
        inspect.inspection_file(CONFIG),
    output:
        archive.stamp_file(CONFIG),
    shell:
        r"""
        podium archive \
            --config {CONFIG.path:q}
        """
