# Every target prepares what it needs: a bare clone, Python 3.11 or later and make are enough.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# `make test PYTHON=/path/to/python` chooses the interpreter; otherwise the first of these that is new enough.
PYTHON ?=
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint format wheel bench docs clean

# Further options of pytest, such as `make test PYTEST="--cov=fsgmcmc"`.
PYTEST ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## run the demonstration, results in out/demo
	$(BIN)/fsgmcmc demo --out out/demo

test: $(STAMP) ## run the tests, without the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(PYTEST)

test-all: $(STAMP) ## run all tests, the slow ones too
	$(BIN)/python -m pytest -n 2 $(PYTEST)

lint: $(STAMP) ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## sort imports, apply safe fixes and format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

wheel: $(STAMP) ## build the wheel, install it into an empty environment and run the README's example there
	rm -rf dist build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt dist/*.whl
	awk '/^```python/ { code = 1; next } /^```/ { if (code) exit } code' README.md > build/readme.py
	cd build && wheel/bin/python -W error readme.py && wheel/bin/fsgmcmc --version

bench: $(STAMP) ## measure the time of an iteration, results in out/bench.json
	$(BIN)/fsgmcmc bench --out out/bench.json

docs: $(STAMP) ## build the site, in site/
	$(BIN)/python -m pip install --quiet -c constraints.txt -c constraints-docs.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

clean: ## remove the environment, caches and build products; results in out/ stay
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .mypy_cache
	find . -type d \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +

# The stamp holds the name of the interpreter. Naming another one makes the environment again.
ifneq ($(PYTHON),)
ifneq ($(PYTHON),$(shell cat $(STAMP) 2>/dev/null))
.PHONY: $(STAMP)
endif
endif

# The environment is made from nothing, so that a dropped dependency is really gone; the stamp comes last,
# so that an interrupted or failed installation is tried again.
$(STAMP): pyproject.toml constraints.txt
	@set -e; \
	chosen=; \
	for candidate in $(CANDIDATES); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    chosen=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	  echo 'fsgmcmc needs Python 3.11 or later, and none of these is one: $(subst ",,$(CANDIDATES)); name one with make PYTHON=/path/to/python.' >&2; \
	  exit 1; \
	fi; \
	echo "Preparing $(VENV) with $$chosen (once, a minute or two)."; \
	"$$chosen" -m venv --clear $(VENV); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'; \
	echo "$$chosen" > $(STAMP)
