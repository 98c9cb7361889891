"""
Reproduce: others' published results, run again on this site and compared.

    snakemake --profile profiles/local reproduce       all of `reproduce.results` in the config

REQUIRED INPUTS: the sources that `reproduce.results` names; data sets that their plans ask for; `reproduce.agreed: true`
once the warning pages were read
OUTPUTS:
    <root>/reproduce/<submitter>/<system>/<benchmark>/comparison.json     the verdict, and all that it rests on
    <root>/reproduce/<submitter>/<system>/<benchmark>/comparison.html     the page
"""

REPRODUCED = {(item["submitter"], item["system"], item["benchmark"]): item for item in CONFIG.reproduce.results}


def published(wildcards):
    """The entry of the config that a comparison is of."""
    return REPRODUCED[wildcards.submitter, wildcards.published, wildcards.benchmark]


rule reproduce:
    """A verdict on every result that the config lists."""
    input:
        [CONFIG.root.joinpath("reproduce", *key, "comparison.json") for key in REPRODUCED],


rule reproduce_result:
    """Run one published result again and compare; that it is slower is an answer, and no failure of the step."""
    output:
        CONFIG.root / "reproduce" / "{submitter}" / "{published}" / "{benchmark}" / "comparison.json",
        CONFIG.root / "reproduce" / "{submitter}" / "{published}" / "{benchmark}" / "comparison.html",
    wildcard_constraints:
        submitter="[^/]+",
        published="[^/]+",
    params:
        source=lambda wildcards: published(wildcards)["source"],
        round=lambda wildcards: published(wildcards)["round"],
        yes="--yes" if CONFIG.reproduce.agreed else "",
    shell:
        r"""
        podium reproduce {params.source:q} \
            --submitter {wildcards.submitter:q} \
            --system {wildcards.published:q} \
            --benchmark {wildcards.benchmark:q} \
            --round {params.round:q} \
            --config {CONFIG.path:q} \
            {params.yes} || test $? -eq 1
        """
