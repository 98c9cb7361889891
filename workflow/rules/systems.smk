"""
Systems: the official description, collected on the node and completed from the config.

REQUIRED INPUTS: the images that run on the system (they name the framework)
OUTPUTS:
    <root>/systems/<system>.json
"""


rule describe_system:
    """Collect the description of a system."""
    input:
        lambda w: [plan.image_file(CONFIG, item) for item in PLANS if item.system.name == w.system],
    output:
        CONFIG.root / "systems" / "{system}.json",
    params:
        submission=CONFIG.submission,
        system=lambda w: CONFIG.systems[w.system],
    shell:
        r"""
        podium describe \
            --system {wildcards.system:q} \
            --config {CONFIG.path:q}
        """
