# Every target sets itself up: Python 3.11 or newer, pip and make are all it takes.
#   make test PYTHON=python3.13     another interpreter
#   make test ARGS="-k dedup -x"    arguments for pytest, the demo or the benchmarks

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=

export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := 1
export UV_NO_CONFIG := 1
# As pip does: or, where Python may not write what it has compiled, every process of a test compiles it again.
export UV_COMPILE_BYTECODE := 1

UV := .uv/bin/uv
BIN := .venv/bin
# Named after the interpreter's version, so that another PYTHON makes the environment anew.
VENV := .venv/python-$(shell $(PYTHON) -c "import sys; print('%d.%d.%d' % sys.version_info[:3])")
READY := .venv/ready
NEEDS_311 := $(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and \
  'wakeful needs Python 3.11 or newer, this is %d.%d: say make PYTHON=python3.13' % sys.version_info[:2])"
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
  --generate-hashes --no-header --no-annotate --no-emit-index-url
# Supported versions that are installed beside the embedded one.
OTHER_POSTGRES := $(wildcard /usr/lib/postgresql/1[5-9]/bin)
TYPED := src tests $(wildcard benchmarks examples docs/generate.py)

# A user without a home of its own keeps uv's cache beside uv.
ifeq ($(shell test -w "$$HOME" && echo yes),)
export UV_CACHE_DIR := .uv/cache
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check fmt bench bench-peers bench-check chaos soak proof-failures docs lock clean

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 19

setup: $(READY)  ## the virtual environment, from the hashed lock

demo: $(READY)  ## the whole thing at work: a server, workers, one killed, a breaker, a schedule, a dead letter
	@$(BIN)/wakeful demo $(ARGS)

test: $(READY)  ## all tests; those of the database on every other PostgreSQL of this machine too
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)
	@for bin in $(OTHER_POSTGRES); do \
	  echo "The database tests on $$("$$bin/postgres" --version)"; \
	  $(BIN)/python -m pytest -q -n $(WORKERS) --postgres-bin "$$bin" $(ARGS) \
	    tests/contract tests/races tests/upgrade tests/db/test_foreign.py tests/db/test_migrate.py || exit 1; \
	done

check: $(READY)  ## lint, format, types, import rules, tidy rules, lock, what it is made of
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q tests/tidy
	$(BIN)/python -m tests.tidy.supply

fmt: $(READY)  ## format, and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)  ## wakeful beside the bare driver and the two fastest rivals, in some minutes
	@$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(READY)  ## beside all rivals; writes docs/explanation/benchmarks.md
	@$(BIN)/python -m benchmarks --peers all $(ARGS)

bench-check: $(READY)  ## whether the ratios are still the published ones
	@$(BIN)/python -m benchmarks --check $(ARGS)

chaos: $(READY)  ## every fault that can be injected here, and what it cost; ARGS="--only kill,stop --seed 7 --minutes 2"
	@$(BIN)/python -m tests.chaos $(ARGS)

soak: $(READY)  ## mixed load with random faults for hours: memory, descriptors and tables must not grow; ARGS="--hours 8"
	@$(BIN)/python -m tests.chaos.soak $(ARGS)

proof-failures: $(READY)  ## limits, rates, breakers, fair shares and dead letters at full size; ARGS="--only outage" or --short
	@$(BIN)/python -m tests.failures $(ARGS)

docs: $(READY)  ## the generated reference
	@$(BIN)/python -m docs.generate $(ARGS)

lock: $(UV)  ## requirements.lock from pyproject.toml; ARGS=--upgrade for the newest versions
	@mkdir -p .build && cp requirements.lock .ci/uv.txt .build
	@$(COMPILE) $(ARGS) --all-extras --group dev pyproject.toml --output-file .build/requirements.lock
	@echo uv | $(COMPILE) $(ARGS) - --output-file .build/uv.txt
	@$(PYTHON) -m tests.tidy.lock | cat - .build/requirements.lock > .build/stamped.lock
	@mv .build/stamped.lock requirements.lock
	@cmp -s .build/uv.txt .ci/uv.txt || mv .build/uv.txt .ci/uv.txt

clean:  ## back to a fresh clone; .wakeful/, the embedded server's data, stays
	rm -rf .venv .uv .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV): .ci/uv.txt
	@$(NEEDS_311)
	@rm -rf .uv/bin
	PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	  --target .uv --upgrade --require-hashes -r .ci/uv.txt
	@touch $@

$(VENV): $(UV)
	@$(NEEDS_311)
	$(UV) venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	@touch $@

$(READY): $(VENV) requirements.lock pyproject.toml
	$(UV) pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@touch $@
