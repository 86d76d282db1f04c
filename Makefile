# make setup, test, check, demo, lint, architectures, rules-audit, fidelity, estimate, kernel-facts,
# accuracy, search-simulation, gate-planted, gate-repeat, gate-speed, mutants, reported, bench,
# clean.
#
# Another torch:       make test TORCH=2.15.0 TRITON=3.9.0 VENV=.venv-2.15
# Another Python:      make setup PYTHON=python3.12
# Where pip looks is pip's own business (PIP_INDEX_URL and its other settings). A machine without
# a GPU needs no CUDA build: TORCH=2.13.0+cpu with an index that has it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV ?= .venv
# What this environment was made with, so that a plain `make test` keeps it.
-include $(VENV)/versions.mk
TORCH ?= 2.13.0
TRITON ?= 3.7.1
PYTHON ?= python3
JOBS ?= 2

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
STAMP := $(VENV)/.setup-torch-$(TORCH)-triton-$(TRITON)
# Hundreds of processes read the same files: without bytecode each parses them anew.
unexport PYTHONDONTWRITEBYTECODE
EXPORT_BIN := export PATH="$(abspath $(BIN)):$$PATH";

.PHONY: setup test check lint demo architectures rules-audit fidelity estimate kernel-facts accuracy \
  search-simulation gate-planted gate-repeat gate-speed mutants reported bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "perfcli needs Python 3.11 or newer; $(PYTHON) is older or missing: make setup PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/.setup-*
	@# Of torch's 2,000 files a process imports a part, which Python compiles by itself.
	$(PIP) install --quiet --no-compile -c constraints.txt \
	  'torch==$(TORCH)' 'triton==$(TRITON)' --editable '.[dev]'
	@printf 'TORCH ?= %s\nTRITON ?= %s\n' '$(TORCH)' '$(TRITON)' > $(VENV)/versions.mk
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Its workers have three seconds to start, which a busy machine may not give them.
	$(BIN)/mypy --num-workers $(JOBS) || $(BIN)/mypy

# Parts of the tests, of which an idle worker takes from the others: see tests/conftest.py. One more
# than there are cores, since a fifth of the time they wait for a process or a timeout.
PYTEST := pytest -n $(shell echo $$(($(JOBS) + 1))) --dist worksteal

test: lint
	$(EXPORT_BIN) $(PYTEST)

# What every change has to pass before it is shown to others: no test that compiles for real.
check: lint
	$(EXPORT_BIN) $(PYTEST) -m 'not torch'

# The GQA transformer's training step in two variants; a regression, so compare ends with 1.
demo: setup
	@$(EXPORT_BIN) \
	command=(perfcli compare gqa-transformer -p layers=3 -p batch=48 -p learned=true --target h200 -b split_reductions=false); \
	echo "\$$ $${command[*]}"; \
	code=0; "$${command[@]}" || code=$$?; \
	test $$code -le 1 || exit $$code

# 156 public architectures with and without the GPU of this machine, which has to have one; needs
# transformers 5.17.0, timm, torchvision, diffusers and torch-geometric.
architectures: setup
	$(BIN)/python bench/architectures_on_device.py run architectures.out
	$(BIN)/python bench/architectures_on_device.py report architectures.out

# Every finding of the rules over all scenarios, presets and targets; half an hour on 2 cores.
rules-audit: setup
	$(BIN)/python bench/rules_audit.py --jobs $(JOBS)

# On a machine with a GPU: the same kernels with and without it.
fidelity: setup
	$(BIN)/python bench/fidelity.py

# Registers, spills and shared memory of what the hand-written kernels launch, on four
# architectures without a GPU; fails where anything spills. Some minutes on 2 cores.
kernel-facts: setup
	$(BIN)/python bench/kernel_facts.py --jobs $(JOBS)

# How often verdicts are wrong, of perfcli and of other tools; hours, on 2 cores that nobody
# else uses. Goes on where it was stopped.
accuracy: setup
	@mkdir -p build/accuracy
	$(BIN)/python bench/accuracy.py perfcli --pairs 60 --plant 0 --out build/accuracy/perfcli-0.jsonl
	$(BIN)/python bench/accuracy.py perfcli --pairs 60 --plant 3 --out build/accuracy/perfcli-3.jsonl
	$(BIN)/python bench/accuracy.py tools --pairs 20 --plant 0 --out build/accuracy/tools-0.jsonl
	$(BIN)/python bench/accuracy.py tools --pairs 20 --plant 3 --out build/accuracy/tools-3.jsonl
	$(BIN)/python bench/accuracy.py summary build/accuracy/*.jsonl

# On a machine with a GPU: how good estimated times are on architectures and options; five minutes.
estimate: setup
	@mkdir -p build/estimate
	$(BIN)/python bench/estimate.py measure build/estimate/measured.json.xz
	$(BIN)/python bench/estimate.py report build/estimate/measured.json.xz

# How often bisect-config names exactly the planted culprits, and the best set of a catalogue, and
# bisect-commits the planted commit, simulated; two minutes.
search-simulation: setup
	$(BIN)/python bench/search_simulation.py
	$(BIN)/python bench/search_simulation_catalogue.py
	$(BIN)/python bench/commit_search.py

# What the gate has to catch and what it has to let pass: edits of a team's repository, each gated;
# twenty minutes on 2 cores.
gate-planted: setup
	$(BIN)/python bench/gate_planted.py --markdown docs/gate-planted.md

# The gate of the same code fifty times, in other folders and processes: the same bytes; twenty
# minutes on 2 cores.
gate-repeat: setup
	$(BIN)/python bench/gate_repeat.py

# A gate of three scenarios with a warm cache, on 2 cores; three minutes.
gate-speed: setup
	$(BIN)/python bench/gate_speed.py

# Mutations planted in the code that decides verdicts, and how many of them the tests catch: a
# sample (MUTANTS=400) in three quarters of an hour on 2 cores, MUTANTS=all in a day.
MUTANTS ?= 400
mutants: setup
	@$(BIN)/python -c 'import cosmic_ray' 2> /dev/null || \
	  $(PIP) install --quiet -c constraints.txt 'cosmic-ray==8.7.0'
	$(BIN)/python bench/mutants.py --sample $(MUTANTS) --jobs $(JOBS)

# Problems that people reported, and whether perfcli says what is wrong; three quarters of an hour on
# 2 cores, minutes when nothing has to be compiled again. Another torch where a case needs it:
# REPORTED="--python 2.11=.venv-2.11/bin/python".
REPORTED ?=
reported: setup
	$(BIN)/python bench/reported_problems.py --page docs/reported.md $(REPORTED)

bench: setup
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/stored_runs.py
	$(BIN)/python bench/matching.py
	$(BIN)/python bench/full_run.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
