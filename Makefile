# Each target sets up what it needs in a virtual environment; a fresh machine needs only Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= auto

# The tests start hundreds of processes; without kept bytecode each compiles all of pyjax anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo routines wheel test test-python test-python-dispatch test-first-code test-slow fuzz fuzz-mutants stress oracle lint format bench budgets numpy-rows gpu-check docs clean

demo: $(VENV)/.ready-demo
	$(BIN)/python -m pyjax.tools.demo $(ARGS)

# Matrix products, sorts, transforms and other routines, compiled once for all processes of this checkout, as JAX's
# come with its wheel, and operations that programs call eagerly: first calls with an empty cache are quicker. Half a
# minute on two cores; edits of the sources make it void. make routines ARGS="--status"
routines: $(VENV)/.ready-demo
	$(BIN)/python -m pyjax precompile $(ARGS)

# A wheel in dist/, with the routines of machines that have AVX2, and AVX-512, for the version of llvmlite that is
# here; with another one they are compiled as they are needed. What was compiled ahead for this machine is removed.
wheel: $(VENV)/.ready-demo
	rm -rf xla_backend/installed
	$(BIN)/python -m pyjax precompile --cpu x86-64-v3 --cpu x86-64-v4 $(ARGS)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

test: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# The same with another Python, in an environment of its own: make test-python VERSION=3.13
test-python:
	$(MAKE) test VENV=.venv-$(VERSION) PYTHON=$(if $(filter command,$(origin PYTHON)),$(PYTHON),python$(VERSION))

# The same where no call is native, as on builds of Python that native code cannot work with.
test-python-dispatch: $(VENV)/.ready-test
	PYJAX_NATIVE_DISPATCH=0 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# All tests on the code that programs have before LLVM has compiled them. Tests of the optimised code itself fail.
test-first-code: $(VENV)/.ready-test
	TEST_FIRST_CODE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# Exhaustive sweeps that take too long for every change.
test-slow: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n $(JOBS) -m slow $(ARGS)

# Random programs, run with the evaluator and compiled: make fuzz N=10000 SEED=0
N    ?= 1000
SEED ?= 0
fuzz: $(VENV)/.ready-test
	$(BIN)/python -m xla_backend.tools.fuzz --count $(N) --seed $(SEED) $(if $(filter-out auto,$(JOBS)),--jobs $(JOBS)) $(ARGS)

# Known bugs are planted in the compiler; each must be found within 2,000 programs.
fuzz-mutants: $(VENV)/.ready-test
	$(BIN)/python -m xla_backend.tools.fuzz --mutants --count 2000 --seed $(SEED) $(if $(filter-out auto,$(JOBS)),--jobs $(JOBS)) $(ARGS)

# Threads, forks, signals, little memory, broken caches: make stress ARGS="--seconds 300 threads"
stress: $(VENV)/.ready-test
	$(BIN)/python -m tests.stress $(ARGS)

# The tables of tests/edge_values run by a JAX that is installed elsewhere, and by pyjax, and compared.
# make oracle PYTHON_WITH_JAX=python3 TABLES="special stats" ARGS="--mode value"; all tables take an hour
PYTHON_WITH_JAX ?= $(PYTHON)
oracle: $(VENV)/.ready-test
	PYTHONPATH=. $(PYTHON_WITH_JAX) tests/edge_values/record.py --into build/oracle $(TABLES)
	$(BIN)/python -m tests.edge_values --recorded build/oracle $(TABLES:%=--table %) $(ARGS)

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.ready-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All programs of the suite, side by side with the JAX of another Python; writes docs/benchmarks.md.
# make bench PYTHON_WITH_JAX=/path/to/python ARGS="--note 'Nothing else ran.'"
bench: $(VENV)/.ready-demo
	$(BIN)/python -m pyjax precompile --status || $(BIN)/python -m pyjax precompile
	$(BIN)/python -m benchmarks.suite --jax $(PYTHON_WITH_JAX) --output docs/benchmarks.md $(ARGS)

# The table of budgets: with NumPy and, where it can be installed, JAX.
budgets: $(VENV)/.ready-demo,bench
	$(BIN)/python -m benchmarks $(ARGS)

# Functions that NumPy has, beside NumPy, on one thread: make numpy-rows ARGS="sort --size 1e6"
numpy-rows: $(VENV)/.ready-demo
	$(BIN)/python -m benchmarks.numpy_rows $(ARGS)

# On a machine with an NVIDIA GPU: tests, corpus, compute-sanitizer and benchmarks, at most ten minutes, one report.
# make gpu-check CUDA=cuda12 ARGS="--corpus FOLDER"; without a network: python benchmarks/gpu_check.py
CUDA ?= cuda13
gpu-check: $(VENV)/.ready-test,$(CUDA)
	$(BIN)/python benchmarks/gpu_check.py $(ARGS)

# HTML in build/docs; a warning is an error. Notebooks are run on the way.
docs: $(VENV)/.ready-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs $(ARGS)

$(VENV)/.ready-%: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pyjax needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info xla_backend/installed
