# `make demo` and `make test` need nothing but Python 3.11 or newer with its venv module, and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format wheel clean

demo: $(VENV)/installed
	@echo '$$ cli.py translate "Ein Hund rennt am Strand."'
	@$(BIN)/python cli.py translate "Ein Hund rennt am Strand."
	@echo '$$ cli.py classify "Oil prices rise as OPEC cuts production"'
	@$(BIN)/python cli.py classify "Oil prices rise as OPEC cuts production"
	@echo '$$ cli.py couplet 晚风摇树树还挺'
	@$(BIN)/python cli.py couplet 晚风摇树树还挺

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -q

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(VENV)/installed-test
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/installed: $(VENV)/made setup.cfg pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/made setup.cfg pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/installed
