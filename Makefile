# Every target makes the virtual environment it needs: `make quickstart` and `make test`
# are all that a fresh clone takes.

VENV ?= .venv
PYTHON ?= python3
PY := $(VENV)/bin/python
# Newer than both files when the environment holds what they ask for.
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help quickstart test lint bench coverage clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: $(INSTALLED) ## cross-validate on real tables with 1, 3 and 5 labels a class: a table and a PNG
	$(PY) examples/quickstart.py

# One thread: these are many small problems, on which OpenMP's threads only wait for each other,
# and for as long as it takes where another program keeps a core busy.
quickstart test coverage: export OMP_NUM_THREADS ?= 1

# Two processes, a file of tests each at a time.
test: lint ## lint, then run the tests and the docstrings' examples
	$(PY) -m pytest -n 2 --dist loadfile

coverage: $(INSTALLED) ## run the tests and say which lines they miss
	$(PY) -m pytest --cov

lint: $(INSTALLED) ## check the code with ruff
	$(PY) -m ruff check .

bench: $(INSTALLED) ## run the quick forms of the benchmarks (benchmarks/README.md has the long ones)
	$(PY) benchmarks/speed.py --quick
	$(PY) benchmarks/few_shot_tables.py --quick

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@
