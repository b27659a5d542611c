# `make demo` and `make test` need nothing but Python 3.11 or newer with its venv module, and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Python keeps its bytecode, even if the environment forbids it. Without it, every process of the
# tests compiles all modules, and every worker rewrites the assertions of all tests.
export PYTHONDONTWRITEBYTECODE :=

# Tests run in one process per core. Each keeps a row of neighboring tests, which share fixtures.
WORKERS := --numprocesses auto --maxprocesses 8 --dist worksteal
# The laws of the model and of the searches, the walls between packages, and the command line.
QUICK := tests/test_imports.py tests/core/model tests/core/decoding \
  tests/commands/test_main.py tests/commands/test_texts.py

.PHONY: demo test quick figures fuzz docs notebooks lint types format wheel clean

demo: $(VENV)/installed
	@echo '$$ cli.py translate "Ein Hund rennt am Strand."'
	@$(BIN)/python cli.py translate "Ein Hund rennt am Strand."
	@echo '$$ cli.py classify "Oil prices rise as OPEC cuts production"'
	@$(BIN)/python cli.py classify "Oil prices rise as OPEC cuts production"
	@echo '$$ cli.py couplet 晚风摇树树还挺'
	@$(BIN)/python cli.py couplet 晚风摇树树还挺

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -q $(WORKERS)

quick: $(VENV)/installed-test
	$(BIN)/python -m pytest -q $(WORKERS) $(QUICK)

# `make test` tries the shipped models on a part of their test data; this, on all of it.
figures: $(VENV)/installed-test
	$(BIN)/python -m pytest -q $(WORKERS) -m figures

fuzz: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes 1 --seed 1

# The guide, in site/. MkDocs' advertisement for a successor is turned off.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo site/index.html

# The guide as notebooks, in notebooks/: open them with Jupyter.
notebooks: $(VENV)/installed-docs
	$(BIN)/python -m docs.generator.notebooks notebooks
	@echo notebooks/en/index.ipynb

lint: $(VENV)/installed-test types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/installed-test
	$(BIN)/mypy

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# build/lib would keep modules that have been deleted since.
wheel: $(VENV)/installed-test
	rm -rf build/lib
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist site notebooks *.egg-info

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/installed: $(VENV)/made setup.cfg setup.py pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/made setup.cfg setup.py pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: $(VENV)/made setup.cfg setup.py pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@ $(VENV)/installed
