# `make demo` and `make test` need nothing but Python 3.11, make and git: they build .venv themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all docs second-device mutants new-method lint bench clean

# Rebuilt when the dependencies change. The constraints file pins everything, torch included.
# The groups `dev` and `docs` are read by hand: Python 3.11 comes with a pip that has no --group yet.
GROUP = $(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")'
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Understudy needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(GROUP) dev > .venv/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[images,parquet,diffusion,flower,secure,web]' -r .venv/dev.txt
	touch $@

demo: .venv/ready
	$(BIN)/understudy demo --out demo

test: .venv/ready lint
	$(BIN)/pytest -n 3 --dist worksteal -m 'not slow'

test-all: .venv/ready .venv/docs-ready lint
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/pytest -n 3 --dist worksteal

# What builds the site and runs the notebooks.
.venv/docs-ready: .venv/ready
	$(GROUP) docs > .venv/docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r .venv/docs.txt
	touch $@

# The documentation as a site that opens without a server: site/index.html.
docs: .venv/docs-ready
	$(BIN)/python docs/make_site.py

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
	rm -rf .venv demo runs build site
