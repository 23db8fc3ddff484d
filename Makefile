# Everything here works from a fresh clone with Python 3.11+, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=

.DEFAULT_GOAL := help

help:            ## show this help
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(READY): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8,<1'
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $(READY)

install: $(READY)  ## prepare .venv and start nothing

serve: install  ## install, then serve on 127.0.0.1:8420 (ARGS="--port 9000" to change)
	@exec $(BIN)/memoranda serve $(ARGS)

test: lint types  ## install, then run everything CI runs
	@$(BIN)/python -m pytest -q $(ARGS)

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: install
	@$(BIN)/mypy

format: install  ## format and fix what can be fixed
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

coverage: install  ## branch coverage, reported
	@$(BIN)/coverage run -m pytest -q && $(BIN)/coverage combine -q && $(BIN)/coverage report

bench: install  ## measure; one JSON object on standard output
	@$(BIN)/python -m bench $(ARGS)

lock: ## resolve the dependencies anew (hashes, no index addresses)
	@test -x $(BIN)/uv || { $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip install --quiet 'uv>=0.8,<1'; }
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group dev -o requirements.lock pyproject.toml

clean:  ## remove the virtual environment and caches (never the data directory)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.PHONY: help install serve test lint types format coverage bench lock clean
