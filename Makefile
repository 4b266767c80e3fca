# make demo    set everything up and run the main job
# make test    set everything up and run the tests
# make reproduce    set everything up and run the paper's experiments with its budgets, less than half an hour on two cores
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test reproduce lint benchmark clean

demo: .venv/installed
	$(BIN)/anyreward demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto

reproduce: .venv/installed
	$(BIN)/anyreward reproduce

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmark: .venv/installed
	$(BIN)/python benchmarks/speed.py

.venv/installed: requirements.txt requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf .venv build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
