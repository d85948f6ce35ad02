# `make demo` and `make test` need nothing but Python 3.11, make and git: they build .venv themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all second-device mutants new-method lint bench clean

# Rebuilt when the dependencies change. The constraints file pins everything, torch included.
# The group `dev` is read by hand: Python 3.11 comes with a pip that has no --group yet.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Understudy needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' > .venv/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[images,parquet,diffusion,flower,secure,web]' -r .venv/dev.txt
	touch $@

demo: .venv/ready
	$(BIN)/understudy demo --out demo

test: .venv/ready lint
	$(BIN)/pytest -n 3 --dist worksteal -m 'not slow'

test-all: .venv/ready lint
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/pytest -n 3 --dist worksteal

# Bugs planted one at a time in a copy of the code, to see whether the tests find them; not part of `make test`.
mutants: .venv/ready
	$(BIN)/python tests/mutants/run_mutants.py $(ARGS)

# make new-method NAME=fednew, or NAME="fednew --term" for a term of the averaging family.
new-method: .venv/ready
	$(BIN)/python -m understudy.new method $(NAME)

# What tests/devices run on; made by the first of them otherwise.
second-device: .venv/ready
	$(BIN)/python tests/second_device/build.py

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/ready
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv demo runs
