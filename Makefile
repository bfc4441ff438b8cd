# The project's commands; `make` alone lists them. Needs GNU make 3.81 or newer.
#
#   PYTHON=python3.12    the Python to make .venv with (3.11 or newer)
#   TORCH=cuda           torch for NVIDIA GPUs instead of the one for CPUs
#   TORCH_INDEX_URL=URL  torch from this package index
#   INSTALL=no           `gpu` and `gpu-test` run with the packages that PYTHON has
#   ARGS="-k batcher"    passed on to headlight-serve, pytest, the benchmark or the release
#
# Settings of the service are environment variables: HEADLIGHT_PORT=9000 make serve

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Without the kernels, which have a rule of their own.
EDITABLE := HEADLIGHT_KERNELS=no $(PIP) install --constraint constraints.txt --editable

# Runs a command; every few seconds a line says that it goes on, until it or this shell has ended.
EVERY := 5
patiently = ( began=$$(date +%s); \
  while sleep $(EVERY) </dev/null >/dev/null 2>&1 && kill -0 $$$$ 2>/dev/null; do \
    echo "  still at it after $$(($$(date +%s) - began)) s"; done & lines=$$!; \
  $(1); code=$$?; kill $$lines 2>/dev/null; exit $$code )
# Runs pip, which draws its own progress, but only on a terminal.
installing = if [ -t 1 ]; then $(1); else $(call patiently,$(1) --progress-bar off); fi

CPU_INDEX_URL := https://download.pytorch.org/whl/cpu
CHOICE := $(VENV)/torch-index-url
# A choice stays until another is made.
ifeq ($(TORCH),cuda)
TORCH_INDEX_URL :=
else ifeq ($(TORCH),cpu)
TORCH_INDEX_URL := $(CPU_INDEX_URL)
else ifneq ($(TORCH),)
$(error TORCH is '$(TORCH)', must be cpu or cuda)
else
TORCH_INDEX_URL ?= $(shell cat $(CHOICE) 2>/dev/null || echo $(CPU_INDEX_URL))
endif

REQUIREMENTS := pyproject.toml constraints.txt
PEERS := $(patsubst benchmarks/peers/requirements-%.txt,build/peers/%/installed,$(wildcard benchmarks/peers/requirements-*.txt))
# pyproject.toml is the one place that names torch's version.
TORCH_REQUIREMENT := $(shell sed -n 's/^ *"\(torch==[^";, ]*\)".*/\1/p' pyproject.toml)

# What a command needs, unless it is to run with what is there.
needing = $(if $(filter no,$(INSTALL)),,$(VENV)/installed-$(1))
ON_GPU = $(if $(filter no,$(INSTALL)),$(PYTHON),$(BIN)/python)

# What checks the scripts of the page; the page itself needs nothing of it.
JAVASCRIPT := build/javascript

# Without the theme's advertisement of its successor.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.DEFAULT_GOAL := help
.PHONY: help install serve test check site release benchmark gpu gpu-test containers fuzz overload soak lock hashes clean torch FORCE tables
# Two pips at once would break an environment.
.NOTPARALLEL:

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/installed-serve $(VENV)/kernels ## make .venv and install what serving needs

serve: install ## serve checkpoints/default on port 8000
	@echo "Starting the service: the address of the page is the last line, once the model is ready"
	@exec $(BIN)/python -m service $(ARGS)

test: $(VENV)/installed-dev $(VENV)/kernels ## run the whole test suite, on up to four cores
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

check: $(VENV)/installed-dev $(VENV)/installed-containers $(JAVASCRIPT)/installed ## check formatting, lint, types, import rules, the page's scripts, container files, the chart and links of the site
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	cd client && $(abspath $(BIN))/lint-imports
	$(BIN)/python -m tools.sizes
	$(JAVASCRIPT)/node_modules/.bin/tsc --project tests/javascript
	$(JAVASCRIPT)/node_modules/.bin/eslint --max-warnings 0 --config tests/javascript/eslint.config.js service/page/static
	$(MKDOCS) build --strict --quiet
	$(BIN)/hadolint Dockerfile
	$(BIN)/docker-compose --profile monitoring config --quiet
	$(BIN)/kubernetes-validate --strict --quiet deploy/kubernetes.yaml
	set -e; for values in deploy/helm/headlight/ci/*.yaml; do $(BIN)/helm lint --strict --quiet deploy/helm/headlight --set image.repository=registry.internal/headlight --values $$values; done

benchmark: $(VENV)/installed-benchmark $(VENV)/kernels $(PEERS) ## measure the speed beside other servers of the same checkpoint
	@$(BIN)/python -m benchmarks $(ARGS)

gpu: $(call needing,benchmark) ## measure the speed on a GPU, beside a server by hand (ARGS="--device cpu" tries it)
	@$(ON_GPU) -m benchmarks gpu --seconds 3 $(ARGS)

gpu-test: $(call needing,dev) ## run the tests that need a GPU
	@$(ON_GPU) -m pytest -n 0 -m cuda tests/model tests/end_to_end tests/training $(ARGS)

containers: $(VENV)/installed-dev $(VENV)/installed-containers ## build the image, run the compose file for real and test it
	@$(BIN)/python -m pytest tests/containers $(ARGS)

site: $(VENV)/installed-dev ## serve the site of docs/ on port 8001, and build it again at each change
	@$(MKDOCS) serve --strict --dev-addr 127.0.0.1:8001 $(ARGS)

tables: $(VENV)/installed-dev ## write the generated tables of the documentation
	@$(BIN)/python -m tools.tables $(ARGS)

release: $(VENV)/installed-dev ## build into dist/ everything that a release holds, with checksums and notes
	@PATH="$(abspath $(BIN)):$$PATH" PYTHON=python deploy/release.sh $(ARGS)

fuzz: $(VENV)/installed-dev $(VENV)/kernels ## send a service 110,000 requests, most of them invalid, and damaged folders (half an hour)
	@$(BIN)/python -m tests.resilience.fuzz $(ARGS)

overload: $(VENV)/installed-dev $(VENV)/kernels ## send a service more than it can answer, beside unfair clients (five minutes)
	@$(BIN)/python -m tests.resilience.overload $(ARGS)

soak: $(VENV)/installed-dev $(VENV)/kernels ## kill and restart a replica under mixed load, and watch the memory of the other (twenty minutes)
	@$(BIN)/python -m tests.resilience.soak $(ARGS)

lock: $(BIN)/python ## pin in constraints.txt and requirements/ every package that an installation brings
	@rm -rf build/lock && $(PYTHON) -m venv build/lock
	@$(MAKE) --no-print-directory torch BIN=build/lock/bin
	@build/lock/bin/python -m pip install --quiet '.[benchmark,containers,dev,lock,sbom]'
	@{ sed '/^[^#]/,$$d' constraints.txt; \
	  build/lock/bin/python -m pip freeze --all --exclude headlight --exclude pip --exclude torch | grep -Ev '^(cuda|nvidia|triton)'; \
	} >build/constraints.txt && mv build/constraints.txt constraints.txt
	@$(MAKE) --no-print-directory hashes UV=build/lock/bin/uv

# The hashes of all that the image installs, for every platform. Only torch has two kinds of builds, on
# two indexes. A lock names no index, so that any mirror will do.
UV = build/lock/bin/uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --constraint constraints.txt --default-index
PYPI := https://pypi.org/simple
NAMED = $(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")'

WITHOUT_TORCH = $(BIN)/python -c 'import tomllib; print(*(each for each in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if not each.startswith("torch==")), sep="\n")'
BUILD = $(shell sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml)

hashes:
	@$(COMPILE) $(PYPI) pyproject.toml --output-file build/lock/all.lock
	@$(WITHOUT_TORCH) | $(COMPILE) $(PYPI) - --output-file build/lock/serve.lock
	@awk 'NR == FNR {known[$$1]; next} /^[^ ]/ {kind = /^(cuda|nvidia|torch|triton)/ ? "cuda" : $$1 in known ? "" : "needs"} kind {print >"build/lock/torch-" kind ".lock"}' build/lock/serve.lock build/lock/all.lock
	@echo '$(BUILD)' | $(COMPILE) $(PYPI) - --output-file build/lock/build.lock
	@for extra in hub otel sbom signing; do $(NAMED) $$extra | $(COMPILE) $(PYPI) - --output-file build/lock/$$extra.lock || exit 1; done
	@echo '$(TORCH_REQUIREMENT)+cpu' | $(COMPILE) $(CPU_INDEX_URL) --no-deps - --output-file build/lock/torch-cpu.lock || \
	  echo "$(CPU_INDEX_URL) does not answer: requirements/torch-cpu.lock stays as it is"
	@for lock in build/lock/*.lock; do test $$lock = build/lock/all.lock || \
	  { echo "# Made by \`make lock\`: exact versions, and the SHA-256 of every file that may be installed."; cat $$lock; } \
	  >requirements/$${lock##*/}; done

clean: ## remove .venv and everything that tools left behind
	rm -rf $(VENV) model/backends/_kernels*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage htmlcov build dist *.egg-info client/build client/*.egg-info client/.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip comes with Python. A stamp file for each set of packages avoids installing twice.
$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not there: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: on Debian and Ubuntu install the package python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Changes only when another build of torch is chosen, which reinstalls torch.
$(CHOICE): FORCE | $(BIN)/python
	@echo '$(TORCH_INDEX_URL)' | cmp -s - $@ || { \
	  $(PIP) uninstall --quiet --yes torch 2>/dev/null; \
	  echo '$(TORCH_INDEX_URL)' >$@; }

$(VENV)/installed-serve: $(REQUIREMENTS) $(CHOICE) | $(BIN)/python
	@echo "Step 1 of 3: torch, about 200 MB to download (several GB with CUDA)"
	@$(MAKE) --no-print-directory torch
	@echo "Step 2 of 3: what else serving needs, about 50 MB to download"
	@$(call installing,$(EDITABLE) .)
	@touch $@

$(JAVASCRIPT)/installed: tests/javascript/package.json tests/javascript/package-lock.json
	@command -v npm >/dev/null || { echo "npm is not installed, and the page's scripts are checked by it: apt-get install nodejs npm"; exit 1; }
	@rm -rf $(JAVASCRIPT) && mkdir -p $(JAVASCRIPT) && cp $^ $(JAVASCRIPT)
	@cd $(JAVASCRIPT) && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# Compiles the kernels when their sources change. An older library goes first, so that one that is left
# was compiled.
KERNELS := model/backends/_kernels.so
COMPILE_KERNELS = $(BIN)/python model/kernels/compiler.py $(KERNELS)
$(VENV)/kernels: setup.py $(wildcard model/kernels/*) | $(VENV)/installed-serve
	@rm -f $(KERNELS) $@
	@echo "Step 3 of 3: compile the kernels, less than a minute"
	@$(call patiently,$(COMPILE_KERNELS) >/dev/null 2>&1) || { \
	  echo "There is no C++ compiler that works: pip brings one, which needs a minute"; \
	  $(call patiently,$(PIP) install --quiet "$$(sed -n 's/^COMPILER_PACKAGE = "\(.*\)"/\1/p' model/kernels/compiler.py)" 2>/dev/null && \
	  $(COMPILE_KERNELS) >/dev/null); } || true
	@test -e $(KERNELS) && touch $@ || \
	  echo "the kernels are not compiled: torch computes passes, several times more slowly; install g++ (Debian, Ubuntu: apt-get install g++), then make install"

# Only torch comes from the index of its builds, because other packages there are older. If the index
# does not answer, the next step of the installation takes the build that pip finds.
torch:
	@test -z '$(TORCH_INDEX_URL)' || \
	  { $(call installing,$(PIP) install --no-deps --retries 0 --timeout 5 --index-url '$(TORCH_INDEX_URL)' $(TORCH_REQUIREMENT) 2>/dev/null); } || \
	  echo "torch cannot be had from $(TORCH_INDEX_URL): taking the build that pip finds elsewhere"

$(VENV)/installed-dev: $(VENV)/installed-serve
	@echo "Installing what the tests need"
	@$(EDITABLE) '.[dev]' --quiet
# Without its dependencies: a cloud client and a notebook, which views of given weights do not use.
	@$(PIP) install --quiet --no-deps bertviz==1.4.1
	@touch $@

$(VENV)/installed-benchmark: $(VENV)/installed-serve
	@echo "Installing what the service is measured beside"
	@$(EDITABLE) '.[benchmark]' --quiet
	@touch $@

# Peers that need versions of their own get environments of their own. They use the service's Python
# and torch, so that ratios compare only the servers.
build/peers/%/installed: benchmarks/peers/requirements-%.txt pyproject.toml $(CHOICE)
	@echo "Installing $* in build/peers/$*"
	@rm -rf build/peers/$* && $(BIN)/python -m venv build/peers/$*
	@$(MAKE) --no-print-directory torch BIN=build/peers/$*/bin
	@build/peers/$*/bin/python -m pip install --quiet $(TORCH_REQUIREMENT) --requirement $<
	@touch $@

$(VENV)/installed-containers: $(VENV)/installed-serve
	@echo "Installing what checks the container files"
	@$(EDITABLE) '.[containers]' --quiet
	@touch $@
