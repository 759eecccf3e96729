PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/installed
FULL := $(VENV)/installed-full
DEV := $(VENV)/installed-dev
DOCS := $(VENV)/installed-docs
BENCH := $(VENV)/installed-bench
# every package but PyTorch, which each platform has from another place, is checked against the hashes of constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps uv==0.13.9
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
TORCH := torch==2.13.0
# without hashes: constraints.txt has other versions of what it requires
FREQTRADE := freqtrade==2026.9
PREPARED = $(MAKE) --no-print-directory -j2 compiled-recorded compiled-simulated lint model
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --workers 6 --meanwhile "$(PREPARED)"

# tests start hundreds of processes, and each would compile all that it imports
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test test-long lint compiled-exchange compiled-recorded compiled-simulated model demo bench sim fuzz docs notebooks interop lock clean

# what the tests' processes share is made once: the exchange is compiled while the rest is installed, everything else while the tests are collected;
# threads of theirs that wait for each other would cost the others time
test:
	$(MAKE) --no-print-directory -j2 $(DEV) compiled-exchange
	$(PYTEST)

# before a release: everything, ten million generated commands among it
test-long:
	$(MAKE) --no-print-directory -j2 $(DEV) compiled-exchange
	SERL_DIFFERENTIAL_COMMANDS=10000000 SERL_STATE_MACHINE_EXAMPLES=2000 SERL_TEST_FORK=0 $(PYTEST) -m "long or not long"

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --summary=none
	$(BIN)/lint-imports

compiled-exchange: $(RUN)
	$(BIN)/serl exchange compile --with small

compiled-recorded compiled-simulated: compiled-%: $(DEV)
	$(BIN)/python -m tests.prepare $*

# the tiny language model
model: $(DEV)
	$(BIN)/serl llm fetch tiny
	$(BIN)/serl llm unpack tiny

demo: $(FULL)
	$(BIN)/serl demo $(if $(DAY),--day $(DAY))

# simulated faults, docs/trust.md; SEEDS=n of them
SEEDS ?= 200
sim: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.sim --seeds 0:$(SEEDS)

# what strangers write, docs/trust.md#fuzzing; TARGET=one of tests/fuzz/targets.py
RUNS ?= 10000
fuzz: $(DEV)
	$(INSTALL) -e '.[fuzz]'
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(TARGET) --runs $(RUNS)

bench: $(BENCH)
	$(MAKE) --no-print-directory model
	$(BIN)/python -m benchmarks all --write docs/benchmarks.md
	$(BIN)/python -m benchmarks suite --write docs/benchmarks.md

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

# runs the notebooks and stores their outputs; NOTEBOOK=name runs one
notebooks: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.notebooks $(NOTEBOOK)

# gateways with the programs of others, long tests too; NautilusTrader and freqtrade want other versions than dev, and have environments of their own
interop: $(DEV)
	$(INSTALL) -e '.[interop]'
	test -d $(VENV)/freqtrade || $(PYTHON) -m venv $(VENV)/freqtrade
	$(BIN)/uv pip install --quiet --python $(VENV)/freqtrade/bin/python $(FREQTRADE)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "long or not long" tests/gateways
	test -d $(VENV)/interop || $(PYTHON) -m venv $(VENV)/interop
	sed -E '/^(pandas|fsspec)==/,/[^\\]$$/d' constraints.txt > $(VENV)/interop/constraints.txt
	$(BIN)/uv pip install --quiet --python $(VENV)/interop/bin/python -c $(VENV)/interop/constraints.txt -e '.[binance,nautilus,history]' hypothesis playwright pytest pytest-timeout
	OMP_NUM_THREADS=1 $(VENV)/interop/bin/python -m pytest -m "long or not long" tests/gateways/nautilus tests/gateways/binance/test_nautilus.py

$(RUN): pyproject.toml constraints.txt setup.py
	$(PYTHON) -m venv $(VENV)
	$(PIP)
	$(INSTALL) -e .
	touch $(RUN)

# PyPI's torch for Linux brings gigabytes of CUDA; PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu gets the small one
$(FULL): $(RUN)
	$(PIP) $(TORCH)
	$(INSTALL) -e '.[learning,researcher]'
	touch $(FULL)

$(DEV): $(RUN)
	$(PIP) $(TORCH)
	$(INSTALL) -e '.[dev,docs,ray]'
	touch $(DEV)

# the hashes for the versions that stand in constraints.txt
lock: $(RUN)
	$(BIN)/uv pip compile --quiet --no-deps --generate-hashes --no-header --no-annotate constraints.txt -o constraints.txt

$(BENCH): $(DEV)
	$(INSTALL) -e '.[bench]'
	touch $(BENCH)

$(DOCS): $(RUN)
	$(INSTALL) -e '.[docs]'
	touch $(DOCS)

clean:
	rm -rf $(VENV) build dist *.egg-info .ruff_cache .pytest_cache .hypothesis demo-output site
