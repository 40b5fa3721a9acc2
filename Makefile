# Needs make and a Python >= 3.11 with its venv module; everything else is brought into .venv.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python that is new enough. Name another with `make PYTHON=... test`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
BIN := .venv/bin
# Processes that share the suite; `make test JOBS=0` runs it in one.
JOBS ?= 2
# More for pytest: `make test ARGS="-k undo"`.
ARGS ?=

.PHONY: help demo test lint format bench docs pages lock setup clean

help: ## what there is
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: setup ## a scripted agent against a real Postgres and a real mail server, told as a story
	@$(BIN)/takeback demo

test: setup ## the whole suite (the database: TAKEBACK_TEST_DATABASE_URL, else Docker, else embedded)
	@$(BIN)/python -m pytest --numprocesses=$(JOBS) $(ARGS)

lint: setup ## style, format, types and what may import what
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## rewrite the code as ruff wants it
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: setup ## the project's own measurements, with the floor beside them
	@$(BIN)/takeback bench

docs: setup ## what the documents say, checked against the code
	@$(BIN)/python -m pytest tests/docs $(ARGS)

pages: setup ## write the parts of the documents that are made from the code
	@TAKEBACK_TEST_WRITE_PAGES=1 $(BIN)/python -m pytest --quiet tests/docs/test_errors_page.py tests/docs/test_acceptance_page.py \
		-k "generator or say_of_themselves"

lock: setup ## resolve the dependencies of pyproject.toml anew (wants uv on the PATH)
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --extra dev \
		--custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

setup: .venv/ready ## .venv, as the lock file says

.venv/ready: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 found; name one with PYTHON=..." >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| "$(PYTHON)" -m venv --clear .venv \
		|| { echo "make: $(PYTHON) can't make a virtual environment (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "make: bringing what requirements.lock names into .venv (a minute at most, only when it changes)" >&2
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock \
		&& uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; \
	else \
		$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --requirement requirements.lock \
		&& $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
	fi
	@touch $@

clean: ## remove .venv and everything that was built
	@rm -rf .venv build dist htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
