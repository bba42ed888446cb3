# `make demo` shows the tool, `make check` checks a change in a minute, `make test` proves it all.
# They need python3 >= 3.11 with venv, and nothing else: what `make test` needs of a browser it installs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
DEMO := .venv-demo/installed
INSPECT := .venv-inspect/installed
AGENTS := .agents/installed
PROMPTFOO_ITSELF := .promptfoo/installed
AGENTV_ITSELF := .agentv-itself/installed
RELEASE := .venv-release/installed
RECIPES := .venv-recipes/installed
WEB := .web/installed
# Tests wait for servers and processes as well as they compute: two for each core.
WORKERS := $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))' 2>/dev/null || echo 2)

# Some machines forbid Python to keep what it has compiled; each test would then compile the tool anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo check package test test-long test-agents test-imports test-pythons smoke release-check compiled pytest lint types imports docs screens bench clean

demo: $(DEMO)
	@.venv-demo/bin/python scripts/demo.py

# Lint, types and the quick tests: those not marked slow, of parametrised ones the first case, of properties twenty
# examples. Lint and types are checked beside the tests: together they take less than a minute on two cores.
check: compiled $(WEB)
	@($(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python scripts/lint_words.py --check && \
	  $(BIN)/lint-imports && $(BIN)/pyright) >$(VENV)/check.log 2>&1 & rest=$$!; \
	  MOST_EXAMPLES=20 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --first 1 -m "not slow and not long and not agents and not imports"; tests=$$?; \
	  wait $$rest || { cat $(VENV)/check.log; tests=1; }; \
	  [ $$tests = 0 ] || exit $$tests
	@echo "Left to make test: further cases of parametrised tests, and what is marked slow in:"
	@grep -rlE "mark\.slow" tests --include="test_*.py" | sort | paste -sd " " | fold -s -w 118

# Lint and types of one package or module of src/rejoinder, and its quick tests as in `make check`: `make package
# NAME=report`. If it has no folder of tests, these are the test modules that import it.
package: compiled
	@source=src/rejoinder/$(NAME); [ -d $$source ] || source=$$source.py; tests=tests/$(NAME); \
	  [ -n "$(NAME)" ] && [ -e $$source ] || { echo "make package NAME=report: NAME is a package of src/rejoinder"; exit 1; }; \
	  [ -d $$tests ] || tests=$$(grep -rlE "(from|import) rejoinder\.$(NAME)\>|from rejoinder import .*\<$(NAME)\>" tests --include="test_*.py"); \
	  [ -n "$$tests" ] || { echo "No test imports $(NAME) itself: make check runs those that use it."; exit 1; }; \
	  ($(BIN)/ruff check $$source $$tests && $(BIN)/ruff format --check $$source $$tests && $(BIN)/pyright $$source) >$(VENV)/package.log 2>&1 & rest=$$!; \
	  MOST_EXAMPLES=20 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --first 1 -m "not slow and not long and not agents and not imports" $$tests; tests=$$?; \
	  [ $$tests != 5 ] || { echo "All tests of $(NAME) are marked slow: make test runs them."; tests=0; }; \
	  wait $$rest || { cat $(VENV)/package.log; tests=1; }; \
	  exit $$tests

# Lint and types are checked beside the tests.
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint types imports pytest

# So that no test that starts the tool has to.
compiled: $(STAMP)
	@$(BIN)/python -m compileall -q src

# Of properties at most 25 examples, and of tests marked `every` some cases; `make test-long` runs all of them.
pytest: compiled $(RECIPES) $(WEB)
	MOST_EXAMPLES=25 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not long and not agents and not imports"

test-long: compiled $(INSPECT) $(WEB)
	$(BIN)/python -m pytest -q -n auto -m "long or hypothesis"

# The real agents, at pinned versions, against a model on loopback. It needs npm and, once, the network; 1 GB on the disk.
test-agents: compiled $(AGENTS)
	$(BIN)/python -m pytest -q -m agents tests/agents

$(AGENTS): scripts/agents/package.json
	@mkdir -p .agents
	@cp scripts/agents/package.json .agents/
	npm install --prefix .agents --no-audit --no-fund --loglevel=error
	@touch $@

# promptfoo and AgentV at pinned versions, beside the import of the examples of a checkout of promptfoo and of a clone of
# AgentV: `make test-imports PROMPTFOO=PATH AGENTV=PATH`, or one of the two. It
# needs npm, Node 20 and, once, the network; about half an hour on two cores.
test-imports: compiled $(if $(PROMPTFOO),$(PROMPTFOO_ITSELF)) $(if $(AGENTV),$(AGENTV_ITSELF))
	@[ -d "$(PROMPTFOO)/examples" ] || [ -n "$(AGENTV)" ] || { echo "make test-imports PROMPTFOO=PATH AGENTV=PATH: a checkout of promptfoo, a clone of AgentV, or both"; exit 1; }
	PROMPTFOO="$(if $(PROMPTFOO),$(abspath $(PROMPTFOO)))" AGENTV="$(if $(AGENTV),$(abspath $(AGENTV)))" $(BIN)/python -m pytest -q -m imports tests/imports

$(AGENTV_ITSELF): scripts/agentv/package.json
	@mkdir -p .agentv-itself
	@cp scripts/agentv/package.json .agentv-itself/
	npm install --prefix .agentv-itself --no-audit --no-fund --loglevel=error
	@touch $@

$(PROMPTFOO_ITSELF): scripts/promptfoo/package.json
	@mkdir -p .promptfoo
	@cp scripts/promptfoo/package.json .promptfoo/
	npm install --prefix .promptfoo --no-audit --no-fund --loglevel=error
	@touch $@

# A real browser, and the two packages that look at our pages and scripts: for tests alone.
$(WEB): scripts/web/package.json scripts/web/install.py | $(STAMP)
	$(BIN)/python scripts/web/install.py $(@D)

# The tests with every Python from 3.11 on that is found, each in an environment of its own.
test-pythons:
	@$(PYTHON) scripts/test_pythons.py

# Installs this checkout into a new environment and runs a first suite there: on every system, also without bash.
smoke:
	$(PYTHON) scripts/smoke.py

# Builds the package and checks what can be checked before it is published; it needs the network. Writes dist/.
release-check: $(STAMP) $(RELEASE)
	@.venv-release/bin/python scripts/release_check.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/lint_words.py --check

types: $(STAMP)
	$(BIN)/pyright

imports: $(STAMP)
	$(BIN)/lint-imports

# Writes checks and settings into the schema of suites, install commands into the pages, and the real output of every command into the documentation.
docs: $(STAMP)
	$(BIN)/python scripts/write_schema.py
	$(BIN)/python scripts/install_words.py
	$(BIN)/python scripts/write_authoring.py
	$(BIN)/python scripts/refresh_docs.py

# Pictures of the terminal and of the pages, from real runs.
screens: $(STAMP) $(WEB)
	$(BIN)/python scripts/screens.py
	SCREENS_FOLDER=docs/screens/pages $(BIN)/python -m pytest -q tests/pages/test_report_pages.py tests/pages/test_viewer.py

bench: $(STAMP) $(WEB)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/pytest_plugin.py
	$(BIN)/python benchmarks/history.py
	$(BIN)/python benchmarks/validate.py
	$(BIN)/python benchmarks/conversations.py
	$(BIN)/python benchmarks/thousand.py
	$(BIN)/python benchmarks/plans.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/compare.py --export json --export csv --export inspect --export eval --export yaml
	$(BIN)/python benchmarks/journal.py
	$(BIN)/python benchmarks/masking.py
	$(BIN)/python benchmarks/http_client.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/viewer.py --runs 3
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python benchmarks/first_row.py --runs 3

clean:
	rm -rf $(VENV) .venv-* .web .promptfoo dist build .pytest_cache .ruff_cache .hypothesis

define need_python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "rejoinder needs Python 3.11 or newer as '$(PYTHON)'."; \
  echo "Install it, for example with: apt-get install python3 python3-venv"; \
  echo "or name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
  echo "Python has no venv module here."; \
  echo "Install it, for example with: apt-get install python3-venv"; exit 1; }
endef

# Environments are made anew when what they are made from changes.
$(STAMP): pyproject.toml constraints.txt
	$(need_python)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

# What a newcomer needs and no more, which takes seconds instead of minutes. Where there is no build of llama.cpp for
# this machine, the tool is installed without it.
$(DEMO): pyproject.toml constraints.txt
	$(need_python)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local]' || \
	  $(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# Bots of three frameworks are tested as the page about sessions has them. The frameworks have an environment of their own,
# because they bring seventy packages and 200 MB, and their versions need not fit ours.
$(RECIPES): pyproject.toml Makefile
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e . \
	  langgraph==1.2.20 langchain-openai==1.7.3 openai-agents==0.24.0 'pydantic-ai-slim[openai]==2.66.0'
	@touch $@

# What builds and checks the package. hatchling has the version that pyproject.toml builds with.
$(RELEASE): Makefile
	$(need_python)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check build==1.6.1 check-wheel-contents==0.6.3 \
	  hatchling==1.33.0 pipx==1.18.4 twine==7.0.0
	@touch $@

# Inspect reads our exports in the long tests. It has an environment of its own, because it brings eighty packages and
# 300 MB, and its versions need not fit ours.
$(INSPECT): Makefile
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
	@touch $@
