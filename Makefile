# make demo    set everything up and run the main job
# make studio    set everything up, explore two examples, and open the page on which to paint rewards for them
# make test    set everything up and run the tests
# make docs    set everything up and build the site, with every tutorial executed, in docs/_build/html
# make check    set everything up, check style and types, and run the tests that take no time, in less than a minute
# make torture    set everything up, attack the library for about half an hour, and write docs/reliability.md
# make newest    set everything up with the newest versions of all dependencies and run the tests
# make pins    choose the versions of all dependencies again, with their hashes, within those that are pinned now
# make reproduce    set everything up and run the paper's experiments with its budgets, about ten minutes on two cores
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo studio test docs check reproduce torture newest pins lint benchmark clean

demo: .venv/installed
	$(BIN)/anyreward demo

studio: .venv/installed
	$(BIN)/python examples/studio.py serve $(ARGS)

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal

docs: .venv/installed-docs
	$(BIN)/python -m sphinx -j auto --builder html --fresh-env --fail-on-warning --keep-going --quiet --doctree-dir docs/_build/doctrees docs docs/_build/html

check: lint
	$(BIN)/python -m pytest -n auto -m "not slow"

reproduce: .venv/installed
	$(BIN)/anyreward reproduce

torture: .venv/installed
	$(BIN)/python -m tests.torture

newest:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade --editable '.[dask,minari,notebook,studio,umb,dev]'
	.venv-newest/bin/python -m pytest -n auto --dist worksteal

COMPILE := .venv-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links

PINNED := \# The versions of everything that is installed, with the hashes of their files. Written by: make pins

pins:
	$(PYTHON) -m venv .venv-pins
	.venv-pins/bin/python -m pip install --quiet pip-tools
	$(COMPILE) --output-file requirements.txt pyproject.toml
	$(COMPILE) --output-file requirements-dev.txt --all-extras --constraint requirements.txt pyproject.toml
	.venv-pins/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['docs'], sep='\n')" \
		| $(COMPILE) --output-file requirements-docs.txt --constraint requirements-dev.txt -
	for file in requirements.txt requirements-dev.txt requirements-docs.txt; do \
		{ echo "$(PINNED)"; cat $$file; } > .$$file && mv .$$file $$file; done

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmark: .venv/installed
	$(BIN)/python benchmarks/speed.py

.venv/installed: requirements.txt requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/installed-docs: .venv/installed requirements-docs.txt
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-docs.txt
	touch $@

clean:
	rm -rf .venv .venv-newest .venv-pins docs/_build docs/_made build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
