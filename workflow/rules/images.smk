"""
Images: what an implementation runs in, built once and locked.

REQUIRED INPUTS: the implementation's folder
OUTPUTS:
    <root>/images/<benchmark>/<implementation>/image.json   reference, packages, files, commit
"""

IMPLEMENTATIONS = {(item.benchmark, item.implementation): item for item in PLANS}


rule build_image:
    """Build the image of an implementation and lock it."""
    input:
        lambda w: plan.implementation_files(IMPLEMENTATIONS[w.benchmark, w.implementation]),
    output:
        CONFIG.root / "images" / "{benchmark}" / "{implementation}" / "image.json",
    resources:
        # Implementations with equal requirements share one environment: a second build would only wait for the first.
        builds=lambda w: int(IMPLEMENTATIONS[w.benchmark, w.implementation].system.engine in ("auto", "process")),
    params:
        system=lambda w: IMPLEMENTATIONS[w.benchmark, w.implementation].system.name,
    shell:
        r"""
        podium build \
            --system {params.system:q} \
            --benchmark {wildcards.benchmark:q} \
            --config {CONFIG.path:q}
        """
