"""
Data sets: from their source to the layout that implementations read.

REQUIRED INPUTS: data.sets of the config
OUTPUTS:
    <data>/<set>/raw/manifest.json        what was fetched, with hashes
    <data>/<set>/<layout>/manifest.json   what was prepared, from what
    <data>/<set>/<layout>.verify.json     every hash and every record looked at
"""

DATASETS = CONFIG.datasets


rule make_source:
    """Make the source of a data set that Podium generates (demo) or assembles (samples)."""
    output:
        CONFIG.root / "sources" / "{dataset}" / "manifest.json",
    params:
        source=lambda w: DATASETS[w.dataset].source,
    shell:
        r"""
        podium sources {wildcards.dataset:q} \
            --config {CONFIG.path:q}
        """


rule fetch_dataset:
    """Bring a data set's files into the work root and check their hashes."""
    input:
        lambda w: CONFIG.root / "sources" / w.dataset / "manifest.json" if sources.made(DATASETS[w.dataset]) else [],
    output:
        CONFIG.data_root / "{dataset}" / "raw" / "manifest.json",
    params:
        source=lambda w: DATASETS[w.dataset].source,
    shell:
        r"""
        podium fetch {wildcards.dataset:q} \
            --config {CONFIG.path:q}
        """


rule prepare_dataset:
    """Turn a fetched data set into the layout that implementations read; some are read as they are fetched (raw).

    A set that is read where it lies (asis) is hashed only.
    """
    input:
        lambda w: [] if DATASETS[w.dataset].as_it_is else CONFIG.data_root / w.dataset / "raw" / "manifest.json",
    output:
        CONFIG.data_root / "{dataset}" / "{layout}" / "manifest.json",
    wildcard_constraints:
        layout="(?!raw/)[^/]+",
    threads: max(1, workflow.cores // 2)  # so that a second set, or an image, is made beside it
    params:
        of=lambda w: DATASETS[w.dataset].source if DATASETS[w.dataset].as_it_is else DATASETS[w.dataset].params,
    shell:
        r"""
        podium prepare {wildcards.dataset:q} \
            --workers {threads} \
            --config {CONFIG.path:q}
        """


rule verify_dataset:
    """Look at every hash and every record of a prepared data set."""
    input:
        CONFIG.data_root / "{dataset}" / "{layout}" / "manifest.json",
    output:
        CONFIG.data_root / "{dataset}" / "{layout}.verify.json",
    shell:
        r"""
        podium verify {wildcards.dataset:q} \
            --config {CONFIG.path:q}
        """
