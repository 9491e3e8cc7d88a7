# What there is to do here: `make help` tells. GNU make, and Python 3.11 or newer with venv; all else goes into .venv.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
RUNS := runs

# Lines a second that `make run` reads of the log that it makes: enough to watch for a while. Your own LOG is read as
# fast as it can be.
LOG ?=
RATE ?= 1200
# Through the environment, so that the shell takes a path with spaces or quotes for a path. After they have their values:
# for make, what is exported is defined, as nothing.
export LOG RATE

# What `make soak` runs, and from which seed on.
SEEDS ?= 10000
BASE ?= 0

# What `make chaos` reads, and by which schedule it kills; without SEED one is drawn and told.
RECORDS ?= 200000
SEED ?=

.PHONY: help run test lint docs mutants soak planted chaos clean
.DEFAULT_GOAL := help

help:
	@echo "make run [LOG=PATH]  the SSH brute-force alerts over an sshd log, on 2 workers; without LOG over one that is"
	@echo "                     made here, at RATE=$(RATE) lines a second, so that there is time to kill a worker"
	@echo "make test            the whole test suite"
	@echo "make lint            ruff, mypy --strict, pyright"
	@echo "make docs            the documentation as HTML, in build/docs"
	@echo "make mutants         each correctness rule: a patch that breaks it must turn its test red"
	@echo "make soak            many random topologies through many faults, on virtual time: SEEDS=$(SEEDS) BASE=$(BASE)"
	@echo "make planted         bugs planted in the code: the simulator has to find each"
	@echo "make chaos           real processes killed or stopped each second, and twice the whole run, over numbered records,"
	@echo "                     counted exactly in the end: RECORDS=$(RECORDS) SEED="
	@echo "make clean           removes the environment and caches; keeps runs/ and state directories"

# ARGS: further options of `kedge run`, --for 10 or --workers 4 say. KEDGE_HINT: how to kill a worker, and see it return.
run: $(VENV)/.installed $(RUNS)/.log-made
	@run="$(RUNS)/$$(date -u +%Y%m%dT%H%M%SZ)-$$$$" && mkdir -p "$$run" && \
	set -- --set "store=$$run/alerts.db" --state-dir "$$run/state" --workers 2 $(ARGS) && \
	if [ -n "$$LOG" ]; then set -- --set "path=$$LOG" "$$@"; \
	else set -- --set "path=$(RUNS)/auth.log" --set "rate=$$RATE" "$$@"; fi && \
	echo "$(BIN)/kedge run examples/ssh_alerts.py $$*" >&2 && \
	KEDGE_HINT=1 exec $(BIN)/kedge run examples/ssh_alerts.py "$$@"

# A stamp, since the log's own time is the time of its last line. Made beside and renamed: another run may be reading.
$(RUNS)/.log-made: examples/auth_log.py | $(VENV)/.installed
	@mkdir -p $(RUNS)
	@$(BIN)/python -m examples.auth_log "$(RUNS)/auth.log.new-$$$$" >/dev/null && \
	mv "$(RUNS)/auth.log.new-$$$$" $(RUNS)/auth.log
	@touch $@

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright

docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx -W --keep-going -n -q -d build/docs-trees docs build/docs
	@echo "open build/docs/index.html"

mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tests.mutants

# `python -m tests.simulation --seed N` runs one of them again, and tells all that happens.
soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --base $(BASE)

planted: $(VENV)/.installed-dev
	$(BIN)/python -m tests.simulation.plant

# Twice: all records are taken; and of a quarter as many, read by a source on both workers, one of each thousand is a
# dead letter, and replayed.
chaos: $(VENV)/.installed-dev
	$(BIN)/python tests/chaos/marathon.py --records $(RECORDS) --reject 0 $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/chaos/marathon.py --records $$(($(RECORDS) / 4)) --reject 1000 --tasks 2 $(if $(SEED),--seed $(SEED))
	CHAOS=1 $(BIN)/python -m pytest tests/chaos/test_disks.py tests/chaos/test_disks_lost.py tests/chaos/test_disks_state.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: the environment is made again when pyproject.toml has changed.
$(VENV)/.installed: pyproject.toml
	@$(call environment)
	@echo "installing Kedge and what it needs into $(VENV) (once) ..." >&2
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml
	@$(call environment)
	@echo "installing Kedge, its tests' and checkers' needs into $(VENV) (once, a minute or two) ..." >&2
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.installed

define environment
	command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "Kedge needs Python 3.11 or newer, and there is no $(PYTHON): apt install python3 python3-venv" >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Kedge needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12" >&2; \
		exit 1; }; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) has no venv: apt install python3-venv" >&2; exit 1; }; \
	if [ ! -x $(BIN)/python ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		echo "making the environment $(VENV) ..." >&2; $(PYTHON) -m venv --clear $(VENV) || exit 1; fi
endef
