"""
Package: the submission tree, its check by the official package checker, the archive.

REQUIRED INPUTS: compliant verdicts
OUTPUTS:
    <root>/submission/<org>/                  the tree, in the official layout
    <root>/submission/<org>.manifest.json     its files and hashes
    <root>/verdicts/submission.json           what the official checkers said of it
    <root>/archive/<org>.tar.gz, receipt.json
"""


rule pack_submission:
    """Build the submission tree from the counted runs."""
    input:
        [plan.verdict_file(CONFIG, item) for item in PLANS],
        [plan.image_file(CONFIG, item) for item in PLANS],
    output:
        layout.manifest_file(CONFIG),
    shell:
        r"""
        podium pack \
            --config {CONFIG.path:q}
        """


rule check_submission:
    """The official package and repository checkers on the finished tree."""
    input:
        layout.manifest_file(CONFIG),
    output:
        archive.checked_file(CONFIG),
    shell:
        r"""
        podium check \
            --verdict {output:q} \
            --config {CONFIG.path:q}
        """


rule archive_submission:
    """Pack the checked tree into an archive with hashes and a receipt."""
    input:
        layout.manifest_file(CONFIG),
        archive.checked_file(CONFIG),
    output:
        archive.receipt_file(CONFIG),
        archive.archive_file(CONFIG),
    shell:
        r"""
        podium archive \
            --config {CONFIG.path:q}
        """
