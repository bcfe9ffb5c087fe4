# Every target builds what it needs: Python 3.11 or later is all that a bare machine must have.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := $(VENV)/core.stamp
FULL := $(VENV)/full.stamp

# One BLAS and one Eigen thread for each of the two test workers, and the emitters, the level and the
# undivided modules that compile in half the time: most of the tests' time goes into compiling.
TEST_ENV := JAX_PLATFORMS=cpu MPLBACKEND=Agg OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	XLA_FLAGS="--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=1 \
	--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 $(XLA_FLAGS)"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test soak lint bench docs dist clean browser

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

run: $(CORE) ## Train the staircase, predict it, write out/index.html and print the table
	$(BIN)/saddlescope train --spectrum .4,.3,.2,.1 --context-length 31 --heads 5 --rank 1 \
		--init-scale .01 --seeds 6 --until 60000 --out out

test: $(FULL) browser ## Run all tests
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

soak: $(FULL) ## Try faults in full counts, with a fixed and with a random seed
	SADDLESCOPE_SOAK=fixed $(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal tests/faults $(PYTEST_ARGS)
	SADDLESCOPE_SOAK=random $(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal tests/faults $(PYTEST_ARGS)

lint: $(FULL) ## Check style, format, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	# Undefined names where mypy does not look; in src the shapes of arrays look like some.
	$(BIN)/ruff check --select F821 benchmarks docs examples tests
	$(BIN)/lint-imports

bench: $(FULL) ## Measure speed, and print it as a table
	$(BIN)/python -m benchmarks

docs: $(FULL) ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

dist: $(FULL) ## Build the source archive and the wheel into dist
	$(BIN)/python -m hatchling build

clean: ## Remove the environment and all that was built
	rm -rf $(VENV) out build dist docs/_build
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --quiet -c constraints.txt --editable .
	@touch $@

# torch first and by itself: pip then takes a CPU wheel that the machine already has.
$(FULL): $(CORE)
	$(PIP) install --quiet torch==2.13.0
	$(PIP) install --quiet -c constraints.txt --editable '.[all]'
	@touch $@

# The browser tests drive the system's chromium.
browser:
	@if command -v chromium >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq -y --no-install-recommends chromium; } >/dev/null 2>&1 || \
		echo "chromium could not be installed: the browser tests will be skipped"; \
	else echo "chromium is not on PATH: the browser tests will be skipped"; fi
