# The two commands of README.md are `make demo` and `make test`; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: setup demo test test-kube bench bench-kube check format lock clean

setup: $(READY)

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

demo: setup
	$(BIN)/umiak data fetch movielens
	$(BIN)/umiak train examples/recommendation/config.py --workers 3 --passes 10 --out out/demo --overwrite

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest

test-kube: setup
	$(BIN)/python -m tests.kube build
	$(BIN)/python -m tests.kube image
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder -o timeout=600 tests/kube tests/faults

bench: setup
	$(BIN)/umiak bench all

bench-kube: setup
	$(BIN)/python -m tests.kube image
	$(BIN)/python -m tests.kube.bench

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: bootstrap.lock
	$(BIN)/uv pip compile --quiet pyproject.toml --all-extras --constraints bootstrap.lock --generate-hashes --no-header \
	  --no-emit-index-url --python-version 3.11 --output-file requirements.lock
	$(BIN)/uv pip compile --quiet pyproject.toml --extra s3 --constraints requirements.lock --universal \
	  --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --output-file umiak/image/runtime.lock

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache
