# Two commands: `make demo` and `make test`. Every target prints the lines it runs; snakemake and podium work without it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
CONFIG ?= config/config.yaml
PROFILE ?= profiles/local
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input

BENCHES := bench-demo bench-data bench-train bench-images bench-runs bench-verdicts bench-package bench-nightly
.PHONY: demo env test check test-unit test-golden test-workflow test-implementations test-services $(BENCHES) clean

demo: env
	$(BIN)/podium doctor
	$(BIN)/snakemake --profile $(PROFILE) --configfile $(CONFIG)
	$(BIN)/podium status --config $(CONFIG)

env: .venv/pins

.venv/pins: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python is too old\n  expected: 3.11 or newer\n  found:    {v[0]}.{v[1]} ($(PYTHON))\n  next:     make PYTHON=python3.11 demo   (on a cluster: module load python)")'
	@echo "making .venv: about 0.15 GB to download"
	$(PYTHON) -m venv .venv
	$(PIP) --requirement requirements.txt
	$(PIP) --no-deps --editable .
	cp requirements.txt $@

.venv/pins-test: .venv/pins .venv/pins-tokens .venv/pins-parquet requirements-test.txt requirements-pytest.txt
	$(PIP) --requirement requirements-test.txt
	cp requirements-test.txt $@

# What two preparations need: C4 to tokens, GovReport from parquet. Neither needs what its package asks for in turn.
.venv/pins-tokens .venv/pins-parquet: .venv/pins-%: .venv/pins requirements-%.txt
	$(PIP) --no-deps --requirement requirements-$*.txt
	cp requirements-$*.txt $@

# Preparation steps as jobs of Slurm; runs need nothing of it.
.venv/pins-slurm: .venv/pins requirements-slurm.txt
	$(PIP) --requirement requirements-slurm.txt
	cp requirements-slurm.txt $@

ifeq ($(PROFILE),profiles/slurm)
demo: .venv/pins-slurm
endif

test: check test-unit test-golden test-workflow test-implementations

check: .venv/pins-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH=$(CURDIR)/$(BIN):$$PATH snakefmt --check Snakefile workflow/rules

test-unit test-golden: .venv/pins-test
	$(BIN)/python -m pytest --numprocesses auto tests/$(@:test-%=%)

test-workflow: .venv/pins-test
	$(BIN)/python -m pytest tests/workflow

DEMO_IMAGE_PYTHON = "$$($(BIN)/python -c 'import json; print(json.load(open("work/images/resnet/resnet/image.json"))["venv"])')/bin/python"

# The implementations' tests need torch, which the pipeline's environment never has: they run in the demo's image, with
# pytest beside it and without the conftest that is the pipeline's.
test-implementations: .venv/pins-test
	$(BIN)/podium build --system demo-host --benchmark resnet
	$(PIP) --upgrade --target .venv/pytest --requirement requirements-pytest.txt
	OMP_NUM_THREADS=1 PYTHONPATH=.venv/pytest $(DEMO_IMAGE_PYTHON) \
		-m pytest --confcutdir=tests/implementations tests/implementations

# Real services (Docker, Slurm, a local AWS …): skipped with a reason where there is none, failed with CI=true.
test-services: .venv/pins-test
	$(BIN)/python -m pytest tests/services

bench-demo: env
	$(BIN)/python tests/bench/demo.py

bench-data: env
	$(BIN)/python tests/bench/data

bench-verdicts: env
	$(BIN)/python tests/bench/verdicts.py

bench-runs: .venv/pins-test
	$(BIN)/python tests/bench/runs.py

# As the implementations' tests, in the demo's image.
bench-train: env
	$(BIN)/podium build --system demo-host --benchmark resnet
	OMP_NUM_THREADS=1 $(DEMO_IMAGE_PYTHON) tests/bench/train

bench-images: .venv/pins-test
	$(BIN)/python tests/bench/images.py

bench-package: env
	$(BIN)/python tests/bench/package.py

bench-nightly: env
	$(BIN)/python tests/bench/nightly.py

clean:
	rm -rf work .snakemake
