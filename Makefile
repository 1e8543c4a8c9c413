# Everything from a clean clone, with CPython ≥ 3.11 and pip alone.
#   make demo   build, install into .venv, show what it does
#   make test   build, run every test, Zig's and Python's
#   make lint   ruff, mypy, zig fmt
#   make parity compare every format and family with its library, and print the table
#   make bench  compare with the peers on PyPI and render the README's table
#   make ladder measure the training ladder and render docs/ladder.md
#   make ladder-encoding  climb the ladder of encoders and render its tables in docs/
#   make scaling  measure how cost grows, and render the tables of docs/scaling.md
#   make peers  the peers' own tests with our drop-ins in their place
#   make docs   the documentation as a site in build/site
#   make build  only compile the core into src/tokenmill
#   make wheel  a wheel in dist/

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench
TRANSFORMERS_VENV := .venv-transformers
READERS_VENV := .venv-readers
ENGINES_VENV := .venv-engines
STORES_VENV := .venv-stores
DOCS_VENV := .venv-docs
CORE_SOURCES := $(shell find core -name '*.zig')

.PHONY: demo test environments test-core test-safe test-python test-transformers test-readers test-engines test-stores parity lint docs bench ladder ladder-encoding scaling peers build wheel clean

demo: build
	$(BIN)/tokenmill demo

# The core's tests use one processor for minutes, and so does the compiler: both go beside others.
test: $(VENV)/installed
	$(MAKE) -j2 test-core environments test-safe
	$(MAKE) test-python test-transformers test-readers test-engines test-stores

environments: $(TRANSFORMERS_VENV)/installed $(READERS_VENV)/installed $(ENGINES_VENV)/installed $(STORES_VENV)/installed

test-core: $(VENV)/installed
	$(BIN)/python core/build.py test

# Most tests use one processor; PARALLEL= runs them one after the other.
PARALLEL := -n auto --dist worksteal

# The merging, cutting and remembering tests on a core whose overflows and bounds are checked.
SAFE_TESTS := tests/parity/test_merges.py tests/test_truncate.py tests/test_encode.py tests/test_batch.py tests/test_memory.py tests/test_session.py tests/test_counts.py tests/test_counts_files.py tests/test_core_documents.py tests/test_core_json_lines.py tests/test_compiled.py
test-safe: $(VENV)/installed
	rm -rf build/safe && mkdir -p build/safe && cp -r src/tokenmill build/safe/
	$(BIN)/python core/build.py --mode ReleaseSafe --out build/safe/tokenmill
	PYTHONPATH=build/safe $(BIN)/python -m pytest $(PARALLEL) $(SAFE_TESTS)

test-python: $(VENV)/installed build
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

# The package as it lies in src, since an install would compile the core again.
TRANSFORMERS_TESTS := tests/with_transformers
test-transformers: $(TRANSFORMERS_VENV)/installed build
	PYTHONPATH=src $(TRANSFORMERS_VENV)/bin/python -m pytest -c $(TRANSFORMERS_TESTS)/pytest.ini $(TRANSFORMERS_TESTS)

$(TRANSFORMERS_VENV)/installed: $(TRANSFORMERS_TESTS)/requirements.txt
	$(PYTHON) -m venv $(TRANSFORMERS_VENV)
	$(TRANSFORMERS_VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Shards read by what they are written for: Megatron, datatrove, OLMo-core, streaming, PyTorch.
READERS_TESTS := tests/with_readers
test-readers: $(READERS_VENV)/installed build
	PYTHONPATH=src $(READERS_VENV)/bin/python -m pytest -c $(READERS_TESTS)/pytest.ini $(READERS_TESTS)

$(READERS_VENV)/installed: $(READERS_TESTS)/requirements.txt $(READERS_TESTS)/readers.txt
	$(PYTHON) -m venv $(READERS_VENV)
	$(READERS_VENV)/bin/pip install --quiet --disable-pip-version-check -r $(READERS_TESTS)/requirements.txt
	$(READERS_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps -r $(READERS_TESTS)/readers.txt
	@touch $@

# Ray Data, Spark and Daft run the Arrow callables. Spark needs Java 17 or later.
ENGINES_TESTS := tests/with_engines
test-engines: $(ENGINES_VENV)/installed build
	PYTHONPATH=src $(ENGINES_VENV)/bin/python -m pytest -c $(ENGINES_TESTS)/pytest.ini $(ENGINES_TESTS)

$(ENGINES_VENV)/installed: $(ENGINES_TESTS)/requirements.txt
	$(PYTHON) -m venv $(ENGINES_VENV)
	$(ENGINES_VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Inputs and outputs in an object store: moto's server on loopback, through s3fs.
STORES_TESTS := tests/with_stores
test-stores: $(STORES_VENV)/installed build
	PYTHONPATH=src $(STORES_VENV)/bin/python -m pytest -c $(STORES_TESTS)/pytest.ini $(STORES_TESTS)

$(STORES_VENV)/installed: $(STORES_TESTS)/requirements.txt
	$(PYTHON) -m venv $(STORES_VENV)
	$(STORES_VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

parity: $(VENV)/installed build
	$(BIN)/python tests/parity/matrix.py $(PARITY_ARGS)

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m ziglang fmt --check core

# The API is read from the sources, so nothing of the package is installed. The variable keeps the
# theme from advertising what follows it.
docs: $(DOCS_VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo 'build/site/index.html is there; its search needs: python3 -m http.server -d build/site'

$(DOCS_VENV)/installed: docs/requirements.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build: src/tokenmill/_native.abi3.so

src/tokenmill/_native.abi3.so: $(CORE_SOURCES) core/build.py | $(VENV)/installed
	$(BIN)/python core/build.py
	@touch $@

wheel: $(VENV)/installed
	$(BIN)/python -m build --wheel --outdir dist .

bench:
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt .
	$(BENCH_VENV)/bin/python bench/sweep.py $(BENCH_ARGS)
	$(BENCH_VENV)/bin/python bench/render.py
	$(BENCH_VENV)/bin/python bench/training_memory.py
	$(BENCH_VENV)/bin/python bench/training.py $(TRAINING_ARGS)
	$(BENCH_VENV)/bin/python bench/render_training.py
	$(BENCH_VENV)/bin/python bench/corpus.py $(CORPUS_ARGS)
	$(BENCH_VENV)/bin/python bench/corpus_memory.py

ladder-encoding: $(VENV)/installed build
	$(BIN)/tokenmill ladder encoding --markdown docs/ladder-encoding.md --plot docs/ladder-encoding.svg $(LADDER_ARGS)

# What a run costs as it grows, with Ray beside this machine.
scaling: $(ENGINES_VENV)/installed build
	PYTHONPATH=src $(ENGINES_VENV)/bin/python bench/scaling.py $(SCALING_ARGS)

ladder: $(VENV)/installed build
	$(BIN)/python bench/ladder.py $(LADDER_TRAINING_ARGS)

# tiktoken's come by pip; for tokenizers', TOKENIZERS is its unpacked source distribution.
peers: $(VENV)/installed build
	$(BIN)/python tests/peers/run.py tiktoken
	$(if $(TOKENIZERS),$(BIN)/python tests/peers/run.py tokenizers $(TOKENIZERS))

# The stamp is new when the packaging is; the core has a rule of its own.
$(VENV)/installed: pyproject.toml hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit("tokenmill needs CPython 3.11 or later, and this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo 'Setting up $(VENV) and compiling the core: about a minute.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(TRANSFORMERS_VENV) $(READERS_VENV) $(ENGINES_VENV) $(STORES_VENV) $(DOCS_VENV) build dist src/tokenmill/_native.*
