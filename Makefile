# One door to the project. `make help` is made from the ## comments below.

BIN := .venv/bin
SEEDS ?= 1000
START ?= 1
MEMBERS ?= 3
ROUNDS ?= 20
ROWS ?= 1000000
LITE ?= 1

# Tests that a machine decides on draw the same examples each time; `nightly` draws many new ones.
HYPOTHESIS_PROFILE ?= ci
export HYPOTHESIS_PROFILE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup fmt lint type arch test soak crds peers compiled dev kube kube-down e2e bench spark sim lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

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
	@$(BIN)/coverage report --fail-under=100 --skip-covered \
		--include='*/holdfast/core/*,*/holdfast/wire/*'
	@scripts/compiled.sh
	@if scripts/compiled.sh check; then PYTHONPATH=$(CURDIR)/build/compiled:$(CURDIR) \
		$(BIN)/pytest -q -n auto tests/compiled tests/core tests/wire tests/client; fi

crds: setup ## generate the CustomResourceDefinitions from the operator's models
	@$(BIN)/python -m holdfast_operator.crds charts/holdfast/crds

dev: setup ## run a cluster on this machine: make dev MEMBERS=3 LITE=1 ARGS="--kill-every 30s"
	@$(BIN)/holdfast dev --members $(MEMBERS) --lite $(LITE) $(ARGS)

soak: setup ## the same cruelties to files and processes for longer: make soak ROUNDS=20 SEEDS=5000
	@$(BIN)/holdfast sim --start 100000 --seeds $(SEEDS)
	@HOLDFAST_SOAK=$(ROUNDS) $(BIN)/pytest -q -x tests/shell/test_soak.py tests/pipeline/test_survival.py \
		tests/pipeline/test_stream_survival.py tests/pipeline/test_convert.py tests/pipeline/test_audit.py

spark: setup ## the Spark connector from nothing: a cluster, 1 M rows, a stream, convert: make spark ROWS=1000000
	@$(BIN)/python examples/spark_tour.py --rows $(ROWS)

peers: ## get what the tests need beside Python (redis-server, Java 17)
	@scripts/peers.sh

kube: ## a Kubernetes to play with: images, chart, an example (KUBECONFIG, kind, or throwaway nodes)
	@scripts/kube.sh play

kube-down: ## remove what `make kube` made
	@scripts/kube.sh down

# What only a real API server decides is tested here too: its binaries are there now. `exec`: who ends make ends it.
e2e: setup ## the end-to-end tests on the same choice of a Kubernetes: make e2e ONLY=scale
	@scripts/kube.sh prepare
	@HOLDFAST_E2E=1 exec $(BIN)/pytest -v --no-header --maxfail=6 --durations=0 --durations-min=5 \
		tests/e2e tests/controller/test_real_api.py $(if $(ONLY),-k "$(ONLY)") $(ARGS)

compiled: setup ## compile the path of a command into build/compiled, as the image has it
	@scripts/compiled.sh

bench: peers compiled ## compare with peers on this machine: make bench ONLY=one-member QUICK=1
	@$(BIN)/python -m bench $(addprefix --only ,$(ONLY)) $(if $(QUICK),--quick) $(BENCH)

sim: setup ## run simulator seeds: make sim START=1 SEEDS=1000
	@$(BIN)/holdfast sim --start $(START) --seeds $(SEEDS)

# An index of your own may serve the files (UV_DEFAULT_INDEX); no trace of it gets into them.
UV_COMPILE = env -u UV_FIND_LINKS $(BIN)/uv pip compile --quiet --no-config --generate-hashes \
	--universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: setup ## pin requirements/*.in with hashes (UPGRADE=1 moves every pin)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/lock.txt
	@for name in runtime node operator dev spark build lock; do \
		echo "lock: requirements/$$name.txt"; \
		$(UV_COMPILE) requirements/$$name.in -o requirements/$$name.txt || exit 1; \
	done

clean: ## remove .venv and what the tools remember
	@rm -rf .venv .coverage .coverage.* htmlcov .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
