# One door to the project. `make help` is made from the ## comments below.

BIN := .venv/bin
SEEDS ?= 1000
START ?= 1

# Tests that a machine decides on draw the same examples each time; `nightly` draws many new ones.
HYPOTHESIS_PROFILE ?= ci
export HYPOTHESIS_PROFILE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup fmt lint type arch test peers sim lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv: pinned requirements, the three distributions editable
	@scripts/setup.sh

fmt: setup ## format the code and repair what ruff can repair safely
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

lint: setup ## check style and format (ruff)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

type: setup ## check types (mypy, strict)
	@$(BIN)/mypy

arch: setup ## check layers and imports (import-linter) and the house rules (tests/arch)
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/pytest -q tests/arch

test: lint type peers ## everything: lint, types, layers, 200 simulator seeds, all tests with coverage
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/holdfast sim --start 1 --seeds 200
	@$(BIN)/pytest -q -n auto --cov --cov-report=term-missing:skip-covered

peers: ## get what the tests compare Holdfast with (redis-server)
	@scripts/peers.sh

sim: setup ## run simulator seeds: make sim START=1 SEEDS=1000
	@$(BIN)/holdfast sim --start $(START) --seeds $(SEEDS)

# An index of your own may serve the files (UV_DEFAULT_INDEX); no trace of it gets into them.
UV_COMPILE = env -u UV_FIND_LINKS $(BIN)/uv pip compile --quiet --no-config --generate-hashes \
	--universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: setup ## pin requirements/*.in with hashes (UPGRADE=1 moves every pin)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/lock.txt
	@for name in runtime dev lock; do \
		echo "lock: requirements/$$name.txt"; \
		$(UV_COMPILE) requirements/$$name.in -o requirements/$$name.txt || exit 1; \
	done

clean: ## remove .venv and what the tools remember
	@rm -rf .venv .coverage .coverage.* htmlcov .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
