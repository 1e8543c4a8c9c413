# Everything runs from a clean clone with CPython 3.11 or later and pip. `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
NATIVE := src/tokenmill/_native.abi3.so
# A folder changes when a file in it is removed.
CORE_SOURCES := $(shell find core -name __pycache__ -prune -o \( -type d -o -name '*.zig' -o -name '*.bin' \) -print)
COMPILER := $(shell sed -n 's/.*"\(ziglang==[0-9.]*\)".*/\1/p' pyproject.toml)
PACKAGES := $(shell sed -n 's/^dependencies = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')

# These rules made an environment if it contains this file, which has the path of the clone.
MARK := made-by-make
ENVIRONMENTS := transformers servers readers engines

# Environments contain absolute paths. In a clone that was moved, their stamps are deleted, and also
# those of an environment whose interpreter is gone.
$(shell for venv in $(VENV) .venv-docs .venv-bench $(ENVIRONMENTS:%=.venv-%); do \
  if [ -e $$venv/$(MARK) ] && { [ "$$(cat $$venv/$(MARK))" != "$$(pwd -P)" ] || [ ! -x $$venv/bin/python ]; }; then \
    rm -f $$venv/created $$venv/compiler $$venv/package $$venv/tests $$venv/linters $$venv/builder $$venv/installed; \
  fi; done)

.DELETE_ON_ERROR:
.PHONY: help

# $(call step,TEXT,COMMAND) prints the text, runs the command, and prints the time it took.
define step
@echo '$(1) …'; start=$$(date +%s); { $(2); } && echo '$(1):' $$(($$(date +%s) - start)) s
endef

define check_python
@command -v $(PYTHON) > /dev/null || { echo '$(PYTHON) is not found; install CPython 3.11 or later, or add PYTHON=/path/to/python to the command'; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit("tokenmill needs CPython 3.11 or later; this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
endef

# $(call environment,NAME,PACKAGES,COMMANDS) makes .venv-NAME with these packages, then runs commands.
define environment
$(check_python)
$(call step,Setting up .venv-$(1),$(PYTHON) -m venv --clear .venv-$(1) && pwd -P > .venv-$(1)/$(MARK) && .venv-$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(2) $(3))
@touch .venv-$(1)/installed
endef

help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "%s%s\n", n++ ? "\n" : "", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use
.PHONY: demo build wheel

demo: ## Set up .venv, compile the core, and show what the package does
	@$(MAKE) --no-print-directory -j2 $(VENV)/package build
	$(call step,Running the tour,$(BIN)/python examples/tour.py)

build: $(NATIVE) ## Compile the core into src/tokenmill

wheel: $(VENV)/builder ## Build a wheel in dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

##@ Develop
.PHONY: test test-all test-core fuzz test-safe test-python environments test-environments
.PHONY: test-transformers test-servers test-readers test-engines test-stores trial parity peers lint docs clean

# The tests of the core use one CPU core, so the checked build and the environments are made meanwhile.
test: ## Test the core and the package, in one environment
	@$(MAKE) --no-print-directory -j2 $(VENV)/tests build
	@$(MAKE) --no-print-directory -j2 test-core test-safe
	@$(MAKE) --no-print-directory test-python

test-all: export TOKENMILL_FUZZ := 100
test-all: ## Run all tests: all random examples, transformers, shard readers, Ray, Spark (Java 17), Daft, S3
	@command -v java > /dev/null || { echo 'make test-all needs Java 17 for Spark; make test does not'; exit 1; }
	@$(MAKE) --no-print-directory -j2 $(VENV)/tests build
	@$(MAKE) --no-print-directory -j2 test-core test-safe environments
	@$(MAKE) --no-print-directory test-environments
	@$(MAKE) --no-print-directory test-python

test-core: $(VENV)/compiler ## Test the core alone, in Debug mode
	$(BIN)/python core/build.py test
	$(BIN)/python core/build.py portable

SECONDS ?= 600
fuzz: $(VENV)/compiler ## Run the random tests of the core with new seeds, with runtime checks. SECONDS=600
	$(BIN)/python core/build.py fuzz --seconds $(SECONDS)

# Most tests use one CPU core. PARALLEL= runs them one after the other.
PARALLEL := -n auto --dist worksteal

test-python: $(VENV)/tests build ## Test the package. PYTEST_ARGS="-k name" selects tests
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

# Merging, cutting, caching, counting and reading on a core that checks overflows and bounds.
SAFE_TESTS := tests/parity/test_merges.py tests/tokenizer/test_tokenizer_truncate.py \
  tests/tokenizer/test_tokenizer_encode.py tests/tokenizer/test_tokenizer_batch.py \
  tests/core/test_memory.py tests/tokenizer/test_session.py \
  tests/core/test_counts.py tests/core/test_counts_files.py \
  tests/core/test_core_documents.py tests/core/test_core_json_lines.py \
  tests/core/test_binding.py
test-safe: $(VENV)/tests ## Test a core that checks overflows and bounds
	@rm -rf build/safe && mkdir -p build/safe && cp -r src/tokenmill build/safe/ && rm -f build/safe/tokenmill/_native.*so
	$(BIN)/python core/build.py --mode ReleaseSafe --out build/safe/tokenmill
	@PYTHONPATH=build/safe $(BIN)/python -c 'from tokenmill import _native; assert _native.build_mode == "ReleaseSafe", _native.build_mode'
	PYTHONPATH=build/safe $(BIN)/python -m pytest $(PARALLEL) $(SAFE_TESTS)

# Environments of their own, with the package from src.
environments: $(ENVIRONMENTS:%=.venv-%/installed) ## Set up the environments of make test-environments
test-environments: test-transformers test-servers test-readers test-engines test-stores ## Run the tests of these environments: test-transformers to test-stores

# $(call test,NAME,ENVIRONMENT) runs tests/with_NAME in .venv-ENVIRONMENT.
define test
PYTHONPATH=src .venv-$(2)/bin/python -m pytest -c tests/with_$(1)/pytest.ini tests/with_$(1)
endef

test-transformers: .venv-transformers/installed build ## Test with transformers
	$(call test,transformers,transformers)

test-servers: .venv-servers/installed build ## Test with vLLM, torchtitan, litellm, LangChain, LlamaIndex, without a GPU (2.1 GB)
	$(call test,servers,servers)

test-readers: .venv-readers/installed build ## Test shards with Megatron, datatrove, OLMo-core, streaming, PyTorch (1.3 GB)
	$(call test,readers,readers)

test-engines: .venv-engines/installed build ## Test with Ray, Spark (needs Java 17) and Daft (1.5 GB)
	$(call test,engines,engines)

test-stores: .venv-engines/installed build ## Test with an object store on this machine
	$(call test,stores,engines)

MB := 200
trial: $(VENV)/tests build ## Tokenize a dirty corpus, and disturb the runs in every way. MB=2000 is a larger one
	TOKENMILL_TRIAL_MB=$(MB) $(BIN)/python -m pytest tests/tokenizing/test_trial.py

parity: $(VENV)/tests build ## Compare every format and family with its library, and print a table
	$(BIN)/python tests/parity/matrix.py $(PARITY_ARGS)

peers: $(VENV)/tests build ## Run tiktoken's tests on our drop-ins; TOKENIZERS=DIR adds those of tokenizers
	$(BIN)/python tests/peers/run.py tiktoken
	$(if $(TOKENIZERS),$(BIN)/python tests/peers/run.py tokenizers $(TOKENIZERS))

lint: $(VENV)/linters ## Run ruff, mypy and zig fmt
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m ziglang fmt --check core ladder

# The API pages are made from the sources, so the package is not installed. The variable turns off
# an advertisement of the theme.
docs: .venv-docs/installed ## Build the documentation in build/site
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo 'Open build/site/index.html. For its search, run: python3 -m http.server -d build/site'

clean: ## Delete the environments and everything that was built
	@if [ -e $(VENV)/$(MARK) ]; then rm -rf $(VENV); fi
	rm -rf $(ENVIRONMENTS:%=.venv-%) .venv-docs .venv-bench build dist src/tokenmill/_native.*so* src/tokenmill/_native.*pyd*

##@ Measure
.PHONY: bench bench-corpus comparison ladder ladder-full ladder-encoding scaling

bench: .venv-bench/installed build ## Compare with the other libraries, and render the tables (an hour)
	$(BENCH)/sweep.py $(BENCH_ARGS)
	$(BENCH)/sweep.py --headline
	$(BENCH)/render.py
	$(BENCH)/training_memory.py
	$(BENCH)/training.py $(TRAINING_ARGS)
	$(BENCH)/render_training.py
	$(BENCH)/corpus.py $(CORPUS_ARGS)
	$(BENCH)/corpus_memory.py
	$(BENCH)/serving.py --write $(SERVING_ARGS)

bench-corpus: .venv-bench/installed build ## Compare corpus runs: CPU time, memory and ids of each library
	$(BENCH)/corpus.py $(CORPUS_ARGS)

comparison: .venv-bench/installed build ## Try each feature of README's comparison in every library, and write the table (1 minute)
	$(BENCH)/comparison.py --write

ladder: $(VENV)/tests build ## Measure all ladders at short sizes, and print their tables (20 minutes)
	@echo 'Expected time on two CPU cores: training 15 minutes, encoding 2 minutes, corpus 2 minutes'
	$(call step,Measuring the training ladder,$(BIN)/python bench/ladder_pages.py $(LADDER_TRAINING_ARGS))
	@$(MAKE) --no-print-directory ladder-encoding
	$(call step,Measuring the corpus ladder,$(BIN)/python -m ladder corpus --max-mb 20 && $(BIN)/python -m ladder corpus --max-mb 2 --encoder tokenizers)
	$(call step,Measuring batches,$(BIN)/python -m ladder batches && $(BIN)/python -m ladder batches --encoder tokenizers)

ladder-full: $(VENV)/tests build ## Measure all ladders at the sizes of their sources (8 hours; 1 hour on 16 cores with FULL_ARGS="--jobs 10")
	@echo 'Expected time on two CPU cores: training 3 hours, corpus 5 hours, encoding 2 minutes. On 16 CPU cores with FULL_ARGS="--jobs 10": 1 hour'
	$(call step,Measuring the training ladder,$(BIN)/python bench/ladder_full.py $(FULL_ARGS))
	$(call step,Measuring the corpus ladder,$(BIN)/python bench/ladder_corpus.py $(FULL_ARGS))
	@$(MAKE) --no-print-directory ladder-encoding

ladder-encoding: $(VENV)/tests build ## Measure the encoding ladder, and render docs/ladder-encoding.md (2 minutes)
	$(BIN)/python -m ladder encoding --runs 10 --warmup 3 --markdown docs/ladder-encoding.md --plot docs/ladder-encoding.svg $(LADDER_ARGS)

scaling: .venv-engines/installed build ## Measure how cost grows, and render docs/scaling.md (30 minutes)
	PYTHONPATH=src .venv-engines/bin/python bench/scaling.py $(SCALING_ARGS)

# ── Environments. A stamp is written when its step is complete, so an interrupted run can be repeated.

# A $(VENV) without $(MARK) is left alone.
$(VENV)/created:
	$(check_python)
	@if [ -n "$$(ls -A $(VENV) 2> /dev/null)" ] && [ ! -e $(VENV)/$(MARK) ]; then echo '$(VENV) exists, and make did not create it; move it away, or add VENV=.venv-make to the command'; exit 1; fi
	@rm -rf $(VENV) && mkdir -p $(VENV) && pwd -P > $(VENV)/$(MARK)
	$(call step,Creating $(VENV),$(PYTHON) -m venv $(VENV))
	@touch $@

$(VENV)/compiler: pyproject.toml | $(VENV)/created
	$(call step,Installing the compiler $(COMPILER),$(PIP) $(COMPILER) || { echo 'pip could not download $(COMPILER); check the network and the settings of pip'; exit 1; })
	@touch $@

# One pip at a time writes to an environment.
$(VENV)/package: pyproject.toml tools/link_source.py | $(VENV)/compiler
	$(call step,Installing $(PACKAGES),$(PIP) $(PACKAGES:%='%') && $(BIN)/python tools/link_source.py)
	@touch $@

$(VENV)/tests: tests/requirements.txt $(VENV)/package
	$(call step,Installing the packages of the tests,$(PIP) -r $<)
	@touch $@

$(VENV)/builder: | $(VENV)/package
	$(call step,Installing the packages that build a wheel,$(PIP) 'build>=1.2' 'hatchling>=1.27')
	@touch $@

$(VENV)/linters: $(VENV)/tests
	$(call step,Installing the linters,$(PIP) 'mypy>=1.11' 'ruff>=0.6')
	@touch $@

$(NATIVE): $(CORE_SOURCES) core/build.py $(VENV)/compiler
	$(call step,Compiling the core,$(BIN)/python core/build.py)
	@touch $@

BENCH := PYTHONPATH=src .venv-bench/bin/python bench
.venv-bench/installed: bench/requirements.txt
	$(call environment,bench,-r $<)

.venv-docs/installed: docs/requirements.txt
	$(call environment,docs,-r $<)

.venv-%/installed: tests/with_%/requirements.txt
	$(call environment,$*,-r $<)

# These are installed without their dependencies, which would be gigabytes more.
.venv-readers/installed .venv-servers/installed: .venv-%/installed: tests/with_%/requirements.txt tests/with_%/no_deps.txt
	$(call environment,$*,-r $<,&& .venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/with_$*/no_deps.txt)
