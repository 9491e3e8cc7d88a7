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
# The table of known hosts that `make run-spark` joins with: source_ip,host,owner.
HOSTS ?= examples/known_hosts.csv
# Through the environment, so that the shell takes a path with spaces or quotes for a path. After they have their values:
# for make, what is exported is defined, as nothing.
export LOG RATE HOSTS

# What `make soak` runs, and from which seed on.
SEEDS ?= 10000
BASE ?= 0

# What `make chaos` reads, and by which schedule it kills; without SEED one is drawn and told.
RECORDS ?= 200000
SEED ?=

# Budgets are measured, by tests that are alone on the machine. Those of Spark take much memory, and a core and a half
# each: SPARK_JOBS processes share them out. All others wait for conditions and share nothing, so JOBS processes share
# them out: four for two cores, as half of their time goes by in waiting.
ALONE := tests/cli/test_budgets.py
# Those that take longest begin first: one that came last would go on by itself when all others are done.
LONG := $(addprefix tests/,docs/test_snippets.py $(addprefix chaos/test_,saved.py supervisors.py) \
	runtime/supervisor/test_supervisor_deaths.py compare/test_compare_shown.py services/test_canaries.py \
	benchmarks/test_peers.py compare/test_compare_runs.py benchmarks/test_state_benchmark.py simulation/test_simulation.py \
	docs/test_website.py $(addprefix cli/test_,$(addsuffix .py,wrong_use everyday_names logs)) chaos/test_comes_back.py \
	benchmarks/test_peer_environments.py model/test_cut.py \
	$(addprefix chaos/test_,$(addsuffix .py,disks resumed poison killed stopped ends disks_state limits zombies)) \
	$(addprefix cli/test_,$(addsuffix .py,hostile_errors errors_told cli_workers)) \
	bolts/test_sink_faults.py runtime/worker/test_subtrees.py typing/test_checked_files.py)
SHARED := $(LONG) $(filter-out $(LONG) $(ALONE) tests/bridge/% tests/compare/test_jvm_modes.py,$(sort $(wildcard tests/*/test_*.py tests/*/*/test_*.py)))
JOBS ?= 4
SPARK_LONG := $(addprefix tests/bridge/test_,$(addsuffix .py,batch_joined handover_runs engine_examples joined windowed \
	query_running engine_in_spark engine_lives spark_unhappy archives))
SPARK := $(SPARK_LONG) $(filter-out $(SPARK_LONG),$(sort $(wildcard tests/bridge/test_*.py))) tests/compare/test_jvm_modes.py
SPARK_JOBS ?= 2

# What `make chaos-short` runs: of `test-all`, some cases that kill Spark's processes or fill a disk.
SHORT := tests/bridge/test_engine_timers_killed.py \
	"tests/bridge/test_engine_runs.py::test_the_output_is_exact_whoever_of_sparks_is_killed_in_the_middle[driver]" \
	tests/bridge/test_engine_cluster.py::test_the_output_of_sinks_in_the_driver_is_exact \
	"tests/chaos/test_disks.py::test_a_full_state_directory_pauses_the_run_and_nothing_is_lost_f16[0]"

# Files with tests that take long by their nature, which `make test-all` runs. Those that measure are alone, SPARK_JOBS
# processes share out those of Spark, and JOBS processes the others; both begin with the longest.
SLOW := $(sort $(shell grep -rlE --include='test_*.py' 'pytest\.mark\.slow' $(filter-out tests/unit,$(wildcard tests/*))))
ON_SPARK := $(addprefix tests/,examples/test_examples_on_spark.py examples/test_fraud_spark.py compare/test_jvm_modes.py)
SLOW_ALONE := $(filter-out $(ON_SPARK),\
	$(filter tests/benchmarks/% tests/compare/% tests/examples/% tests/docs/test_snippets.py,$(SLOW)))
SLOW_SPARK_LONG := $(addprefix tests/bridge/test_,$(addsuffix .py,killed_in_the_middle spark_runs engine_lives))
SLOW_SPARK := $(SLOW_SPARK_LONG) $(filter-out $(SLOW_SPARK_LONG),$(filter tests/bridge/% $(ON_SPARK),$(SLOW)))
SLOW_LONG := $(addprefix tests/,$(addsuffix .py,simulation/test_simulation install/test_core install/test_newcomer \
	install/test_wheel docs/test_website simulation/test_between_runs model/test_cut chaos/test_poison chaos/test_saved \
	services/test_canaries chaos/test_alerts))
SLOW_SHARED := $(SLOW_LONG) $(filter-out $(SLOW_LONG) $(SLOW_ALONE) $(SLOW_SPARK),$(SLOW))

# What the compiled core is made of, or has to agree with, as topology/core/choice.py has it.
CORE := setup.py acker/identity.py $(wildcard topology/core/*.p* topology/runtime/hot/*.p* acker/hash64.p* \
  $(patsubst %,topology/runtime/state/%.p*,known_input lookups state_value keyed_work))
CAN_COMPILE := import os, shutil, sys, sysconfig as s; \
	cc = (os.environ.get("CC") or s.get_config_var("CC") or "cc").split()[0]; \
	sys.exit(not (shutil.which(cc) and os.path.exists(s.get_paths()["include"] + "/Python.h")))
# What `make test-all` runs again, on the Python core, as `make test` runs all on the compiled one.
PLAIN := $(filter tests/acker/% tests/unit/runtime/% tests/property/% tests/model/% tests/simulation/% \
  tests/conformance/% tests/runtime/tasks/% tests/runtime/state/%,$(SHARED))

.PHONY: help run run-spark core wheel test test-all lint docs mutants soak planted chaos chaos-short peers figures clean
.DEFAULT_GOAL := help

help:
	@echo "make run [LOG=PATH]  the SSH brute-force alerts over an sshd log, on 2 workers; without LOG over one that is"
	@echo "                     made here, at RATE=$(RATE) lines a second, so that there is time to kill a worker"
	@echo "make run-spark       the same with Spark beside it: failures by address and hour, and those of known hosts (HOSTS=PATH)"
	@echo "make test            the test suite: about 12 minutes on 2 cores"
	@echo "make test-all        the tests that are slow by nature, about 40 minutes: installs, kills by the hundred, Spark, figures"
	@echo "make lint            ruff, mypy --strict, pyright"
	@echo "make core            compiles the hot path, in place; kedge --version tells which core runs"
	@echo "make wheel           a source distribution and a wheel for this platform, with the compiled core, in dist/"
	@echo "make docs            the documentation as HTML, in docs/_build/html; needs no Spark"
	@echo "make mutants         each correctness rule: a patch that breaks it must turn its test red"
	@echo "make soak            many random topologies through many faults, on virtual time: SEEDS=$(SEEDS) BASE=$(BASE)"
	@echo "make planted         bugs planted in the code: the simulator has to find each"
	@echo "make chaos           real processes killed or stopped each second, and twice the whole run, over numbered records,"
	@echo "                     counted exactly in the end, with state and without; and the power fails at each operation"
	@echo "                     on a simulated disk: RECORDS=$(RECORDS) SEED="
	@echo "make chaos-short     some cases of test-all, in about five minutes"
	@echo "make peers           the same work on Kedge, Bytewax, asyncio queues and plain pyzmq, side by side: some minutes"
	@echo "make figures         all figures of docs/benchmarks.md, and the page: an hour and a half, with nothing else to do"
	@echo "make clean           removes the environment and caches; keeps runs/ and state directories"

# ARGS: further options of `kedge run`, --for 10 or --workers 4 say. KEDGE_HINT: how to kill a worker, and see it return.
# KEDGE_NEXT: what the summary names besides.
run: export KEDGE_NEXT = make run-spark   \# the same, with failures by hour and a table of known hosts, on Spark
run: $(VENV)/.installed $(RUNS)/.log-made
	@set --; $(call running,ssh_alerts,alerts)

run-spark: $(VENV)/.installed-spark $(RUNS)/.log-made
	@set -- --set "hosts=$$HOSTS"; $(call running,ssh_spark,ssh)

# $(1): the example, $(2): its store. The positional parameters are settings of its own.
define running
run="$(RUNS)/$$(date -u +%Y%m%dT%H%M%SZ)-$$$$" && mkdir -p "$$run" && \
	set -- "$$@" --set "store=$$run/$(2).db" --state-dir "$$run/state" --workers 2 $(ARGS) && \
	if [ -n "$$LOG" ]; then set -- --set "path=$$LOG" "$$@"; \
	else set -- --set "path=$(RUNS)/auth.log" --set "rate=$$RATE" "$$@"; fi && \
	echo "$(BIN)/kedge run examples/$(1).py $$*" >&2 && \
	KEDGE_HINT=1 exec $(BIN)/kedge run examples/$(1).py "$$@"
endef

# A stamp, since the log's own time is the time of its last line. Made beside and renamed: another run may be reading.
$(RUNS)/.log-made: examples/auth_log.py | $(VENV)/.installed
	@mkdir -p $(RUNS)
	@$(BIN)/python -m examples.auth_log "$(RUNS)/auth.log.new-$$$$" >/dev/null && \
	mv "$(RUNS)/auth.log.new-$$$$" $(RUNS)/auth.log
	@touch $@

# All parts run, whatever becomes of the first ones. A file of tests stays in one process, so that what its tests share is
# made once.
test: $(VENV)/.core
	status=0; $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(SHARED) || status=$$?; \
	$(BIN)/python -m pytest -n $(SPARK_JOBS) --dist loadfile --no-loadscope-reorder $(SPARK) || status=$$?; \
	$(BIN)/python -m pytest $(ALONE) && exit $$status

# All parts run, as in `test`.
test-all: $(VENV)/.core
	status=0; \
	KEDGE_CORE=python $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PLAIN) || status=$$?; \
	$(BIN)/python -m pytest -m slow -n $(JOBS) --dist loadfile --no-loadscope-reorder $(SLOW_SHARED) || status=$$?; \
	$(BIN)/python -m pytest -m slow -n $(SPARK_JOBS) --dist loadfile --no-loadscope-reorder $(SLOW_SPARK) || status=$$?; \
	$(BIN)/python -m pytest -m slow $(SLOW_ALONE) && exit $$status

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python docs/prose.py

# Beside the sources. Once one of these changes, the Python core runs until this is called again; `make test` calls it.
core: $(VENV)/.installed-dev
	KEDGE_CORE=compiled $(BIN)/python setup.py -q build_ext --inplace --force
	@KEDGE_CORE=compiled $(BIN)/python -c 'import topology'
	@touch $(VENV)/.core

# The wheel is built out of the source distribution, in environments of their own.
wheel: $(VENV)/.installed-dev
	@KEDGE_CORE=compiled $(BIN)/python -m build --outdir dist . >/dev/null && ls -l dist

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -n -q -d docs/_build/trees docs docs/_build/html
	@echo "open docs/_build/html/index.html"

mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tests.mutants

# `python -m tests.simulation --seed N` runs one of them again, and tells all that happens.
soak: $(VENV)/.core
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --base $(BASE)

planted: $(VENV)/.core
	$(BIN)/python -m tests.simulation.plant

# Four times: all records are taken; of a quarter as many, read by a source on both workers, one of each thousand is a
# dead letter, and replayed; and of half as many words are counted, with state on the disk, and in processes' keeping.
# Then the power fails, on a simulated disk, at each operation of a run and of those that recover from it; disks are full;
# and each process on the way through Spark is killed.
chaos: $(VENV)/.core
	$(BIN)/python tests/chaos/marathon.py --records $(RECORDS) --reject 0 $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/chaos/marathon.py --records $$(($(RECORDS) / 4)) --reject 1000 --tasks 2 $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/chaos/marathon.py --records $$(($(RECORDS) / 2)) --states disk $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/chaos/marathon.py --records $$(($(RECORDS) / 2)) --states process --tasks 2 $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.simulation.power_cuts
	KEDGE_TEST_RECORDS=$(RECORDS) $(MAKE) test-all

chaos-short: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow $(SHORT)

# Each peer has an environment of its own, in build/peers. ARGS: --rounds 5, or --json --out FILE.
peers: $(VENV)/.installed
	@$(BIN)/python -m benchmarks.peers $(ARGS)

figures: $(VENV)/.core
	@$(BIN)/python -m benchmarks.figures $(ARGS)

clean:
	rm -rf $(VENV) build docs/_build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find topology -name '*.so' -delete

# Stamps: the environment is made again when pyproject.toml has changed.
$(VENV)/.installed: pyproject.toml
	@$(call environment)
	@echo "installing Kedge and what it needs into $(VENV) (once) ..." >&2
	@$(PIP) install --editable .
	@$(BIN)/kedge --version >&2
	@touch $@

# If there is no compiler, or Python has no headers, the tests are of the Python core. Otherwise it has to be built.
$(VENV)/.core: $(CORE) | $(VENV)/.installed-dev
	@if $(BIN)/python -c '$(CAN_COMPILE)'; then \
		KEDGE_CORE=compiled $(BIN)/python setup.py -q build_ext --inplace --force && \
		KEDGE_CORE=compiled $(BIN)/python -c 'import topology'; \
	else echo "there is no C compiler, or no Python.h: the tests are of the Python core" >&2; fi
	@touch $@

# Spark and a Java; and Spark's classes in an archive, without which it starts all the same, and takes longer.
$(VENV)/.installed-spark: pyproject.toml | $(VENV)/.installed
	@echo "installing Spark and a Java for it into $(VENV) (once, 900 MB, a minute or two) ..." >&2
	@$(PIP) install --editable '.[spark,spark-jre]'
	@$(call archive)
	@touch $@

# What builds the pages, and no Spark: of an extra that is not here signatures and docstrings are all that is needed.
$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.installed
	@echo "installing what builds the documentation into $(VENV) (once) ..." >&2
	@$(PIP) install --editable '.[docs]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml
	@$(call environment)
	@echo "installing Kedge, its tests' and checkers' needs into $(VENV) (once, a minute or two) ..." >&2
	@$(PIP) install --editable '.[dev]'
	@$(call archive)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-spark $(VENV)/.installed-docs

define archive
	echo "archiving Spark's classes, so that it starts faster (once, about a minute) ..." >&2; \
	$(BIN)/python -m bridge.driver.make_class_archive >/dev/null 2>&1 || true
endef

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
