PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/installed
DEV := $(VENV)/installed-dev
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: test lint demo bench clean

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p serl -p tests -p benchmarks
	$(BIN)/lint-imports

demo: $(RUN)
	$(BIN)/serl demo $(if $(DAY),--day $(DAY))

bench: $(DEV)
	$(BIN)/python -m benchmarks all --write docs/benchmarks.md

$(RUN): pyproject.toml constraints.txt setup.py
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $(RUN)

# PyPI's torch for Linux brings gigabytes of CUDA; PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu gets the small one
$(DEV): $(RUN)
	$(INSTALL) -e '.[dev]'
	touch $(DEV)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output
