# Each target sets up what it needs; the second time that takes no time.

VENV ?= .venv
PEERS := .venv-peers
PEERS312 := .venv-peers-312
LANGGRAPH := .venv-langgraph
FLOOR := .venv-langgraph-floor
BIN := $(VENV)/bin
JOBS ?= 3
KILLS ?= 1000
RUN_KILLS ?= 200
CRASHES ?= 100
LOSSES ?= 2000
FAULTS ?= 3000
INTERRUPTS ?= 600
DAMAGES ?= 3000
STEPS ?= 50000
LIVES ?= 20000

# A name on PATH may be a shim that fails, or a Python without venv: only running it tells.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import ensurepip, sqlite3, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# For a peer that asks for 3.12 or newer; empty where there is none.
PYTHON312 ?= $(shell for p in python3.13 python3.12 python3 "$$HOME"/.pyenv/versions/3.1[23].*/bin/python3; do \
	"$$p" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo "$$p" && break; done)

# pyright would ask the network whether it is the newest.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench crash chaos hostile savers floor soak mutants docs clean
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.ready ## an environment with everything development needs, in .venv

demo: $(VENV)/.ready $(if $(VS),$(PEERS)/.ready) ## an agent is killed and resumes; VS=langgraph shows both
	@$(BIN)/perdure demo $(if $(VS),--vs $(VS))

# Files of tests live in memory where there is room: nearly all of them wait for a disk otherwise. What a disk loses is
# tested by losing it on purpose.
IN_MEMORY := $(shell test -w /dev/shm && df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8000 { print "/dev/shm" }')

# Tests start hundreds of Pythons: where nothing may be cached, each of them would compile everything it imports.
test hostile savers floor: export PYTHONDONTWRITEBYTECODE :=

# Adapters are tested beside what they adapt to, each in an environment of its own.
PYTEST = $(if $(TMPDIR),,$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) ))$(1)/bin/python -m pytest -n $(JOBS) --no-loadscope-reorder
OF_LANGGRAPH := tests/adapters/langgraph tests/hostile/test_langgraph_databases.py
test: $(VENV)/.ready $(if $(ARGS),,$(LANGGRAPH)/.ready) ## the tests; ARGS=tests/core narrows them
	@scripts/servers-if-possible $(BIN)/python
	$(call PYTEST,$(VENV)) --dist loadscope $(ARGS)
	$(if $(ARGS),,$(call PYTEST,$(LANGGRAPH)) --dist worksteal $(OF_LANGGRAPH))

check: $(VENV)/.ready ## lint, format, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

BACKEND ?= $(if $(SESSIONS),postgres,sqlite)
BENCH_PEERS_sqlite := $(PEERS)/.ready
BENCH_PEERS_postgres = $(PEERS)/.ready $(if $(PYTHON312),$(PEERS312)/.ready)
# Runs, searches and savers are measured on both databases, unless one is named; searches have no peers, and savers
# live in an environment together.
BENCHED = $(if $(RUNTIME)$(SEARCH)$(PEER),$(if $(filter file,$(origin BACKEND)),sqlite postgres,$(BACKEND)),$(BACKEND))
PART = $(if $(SESSIONS),sessions,$(if $(RUNTIME),runtime,$(if $(SEARCH),search,$(PEER))))
ONLY = $(if $(PART),--only $(PART) --results benchmarks/results/$(PART) --name $(1))
bench: $(VENV)/.ready $(if $(PEER),$(LANGGRAPH)/.ready) $(if $(SEARCH)$(PEER),,$(foreach each,$(BENCHED),$(BENCH_PEERS_$(each)))) ## the benchmarks, peers beside ours; BACKEND=postgres, mysql or file, SESSIONS=1, RUNTIME=1, SEARCH=1 or PEER=langgraph (both databases), QUICK=1 for a short run
	@test "$(BENCHED)" = sqlite -o "$(BENCHED)" = file || scripts/servers-if-possible $(BIN)/python
	$(foreach each,$(BENCHED),$(BIN)/python -m benchmarks --backend $(each) $(if $(QUICK),--quick) $(call ONLY,$(each)) &&) true

crash: $(VENV)/.ready ## kill a writer KILLS=1000 times and cut the power; BACKEND=postgres|mysql: crash the server CRASHES=100 times
	@scripts/servers-if-possible $(BIN)/python
ifneq ($(filter postgres mysql,$(BACKEND)),)
	$(BIN)/python -m tests.crash.outage_campaign --backend $(BACKEND) --crashes $(CRASHES)
	$(if $(filter postgres,$(BACKEND)),$(BIN)/python -m tests.crash.run_kills --kills $(RUN_KILLS) --backend postgres)
	$(if $(filter postgres,$(BACKEND)),PERDURE_EVERY_BYTE=1 PERDURE_RACES=200 $(BIN)/pytest --timeout 3600 \
		tests/crash/test_lost_answers.py tests/storage/test_postgres_processes.py)
else
	$(BIN)/python -m tests.crash.campaign --kills $(KILLS)
	$(BIN)/python -m tests.crash.run_kills --kills $(RUN_KILLS)
	$(BIN)/python -m tests.crash.syscalls
	$(BIN)/python -m tests.crash.prune_kills --kills 50
	PERDURE_POWER_LOSSES=$(LOSSES) $(BIN)/pytest --timeout 3600 tests/storage/test_file_power_loss.py
	PERDURE_FLIPS=$(LOSSES) $(BIN)/pytest --timeout 3600 tests/faults/test_flips.py
	$(BIN)/python -m tests.faults.damage_campaign --faults $(FAULTS)
	PERDURE_DAMAGES=$(DAMAGES) $(BIN)/pytest --timeout 3600 tests/faults/test_damages.py
	PERDURE_INTERRUPT_SECONDS=$(INTERRUPTS) $(BIN)/pytest --timeout 9000 tests/faults/test_interrupts.py
endif

chaos: $(VENV)/.ready ## workers killed and frozen, PostgreSQL crashed: THREADS=60 STEPS=20 WORKERS=6 TTL=2; DSN=… for your own database
	@scripts/servers-if-possible $(BIN)/python
	$(BIN)/python -m tests.chaos.campaign --threads $(or $(THREADS),60) --steps $(if $(filter file,$(origin STEPS)),20,$(STEPS)) \
		--workers $(or $(WORKERS),6) --ttl $(or $(TTL),2) $(if $(DSN),--dsn '$(DSN)')

hostile: $(VENV)/.ready $(LANGGRAPH)/.ready ## every hostile input on every storage: no foreign row, nothing executed, no untyped error
	@scripts/servers-if-possible $(BIN)/python
	$(call PYTEST,$(VENV)) --dist worksteal tests/hostile --deselect tests/hostile/test_hostile_inputs.py::$(SAMPLED)
	$(call PYTEST,$(LANGGRAPH)) --dist worksteal tests/hostile/test_langgraph_databases.py
	$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )$(BIN)/python -m tests.hostile.campaign
SAMPLED := test_no_hostile_input_is_executed_shows_anothers_data_or_ends_untyped

savers: $(LANGGRAPH)/.ready $(VENV)/.ready ## LangGraph's own test suite on ours, every check of a saver on LangGraph's own too, and kills on every database
	@scripts/servers-if-possible $(BIN)/python
	$(foreach each,sqlite postgresql,$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY) )scripts/langgraph-suite $(LANGGRAPH)/bin/python $(each) -n $(JOBS) &&) true
	PERDURE_EXAMINE=all $(call PYTEST,$(LANGGRAPH)) --dist worksteal \
		tests/adapters/langgraph/test_extension.py tests/adapters/langgraph/test_graphs.py tests/adapters/langgraph/test_kills.py
	$(LANGGRAPH)/bin/python -m tests.adapters.langgraph
	PERDURE_EXAMINE=all $(BIN)/pytest tests/benchmarks -k savers

floor: $(FLOOR)/.ready $(VENV)/.ready ## the tests of the LangGraph adapter on the oldest releases that its extra admits
	@scripts/servers-if-possible $(BIN)/python
	$(call PYTEST,$(FLOOR)) --dist worksteal $(OF_LANGGRAPH)

soak: $(VENV)/.ready ## STEPS=50000 random operations, every backend against memory; LIVES=20000 of threads that are pruned
	@scripts/servers-if-possible $(BIN)/python
	$(BIN)/python -m tests.contract.soak --steps $(STEPS)
	$(BIN)/python -m tests.checkpoints.soak --lives $(LIVES)
	PERDURE_EVERY_PAIR=1 $(BIN)/pytest -n $(JOBS) tests/storage/test_hot_contract.py tests/storage/test_background_contract.py
	PERDURE_LIVES=10 $(BIN)/pytest -n $(JOBS) --timeout 3600 tests/checkpoints/test_survivors.py tests/sessions/test_projecting.py

mutants: $(VENV)/.ready ## break the code on purpose; the tests have to notice
	$(BIN)/python -m tests.mutants

docs: $(VENV)/.ready ## run the code in the README and the docs
	$(BIN)/pytest tests/docs

clean: ## remove environments, caches and what the demo left
	rm -rf .venv .venv-* .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist checkpoints perdure-demo*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.ready: pyproject.toml constraints/dev.txt
	$(call new_venv,$(VENV))
	@$(BIN)/python -m pip install -qq -c constraints/dev.txt pip hatchling editables
	@$(BIN)/python -m pip install -qq -c constraints/dev.txt --no-build-isolation -e '.[cli]' --group dev
	@touch $@

$(PEERS)/.ready: constraints/peers.txt
	$(call new_venv,$(PEERS))
	@$(PEERS)/bin/python -m pip install -qq -c constraints/peers.txt \
		langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres 'psycopg[binary,pool]' dbos
	@touch $@

TESTS_OF_LANGGRAPH := langgraph-checkpoint-conformance langgraph-checkpoint-sqlite langgraph-checkpoint-postgres \
	numpy pandas pytest pytest-asyncio pytest-mock pytest-timeout pytest-xdist hypothesis syrupy
$(LANGGRAPH)/.ready: pyproject.toml constraints/langgraph.txt
	$(call new_venv,$(LANGGRAPH))
	@$(LANGGRAPH)/bin/python -m pip install -qq -c constraints/langgraph.txt pip hatchling editables
	@$(LANGGRAPH)/bin/python -m pip install -qq -c constraints/langgraph.txt --no-build-isolation \
		-e '.[cli,postgres,mysql,redis,forms,langgraph]' $(TESTS_OF_LANGGRAPH)
	@touch $@

$(FLOOR)/.ready: pyproject.toml constraints/langgraph-floor.txt
	$(call new_venv,$(FLOOR))
	@$(FLOOR)/bin/python -m pip install -qq -c constraints/langgraph-floor.txt pip hatchling editables
	@$(FLOOR)/bin/python -m pip install -qq -c constraints/langgraph-floor.txt --no-build-isolation \
		-e '.[cli,postgres,mysql,redis,forms,langgraph]' $(TESTS_OF_LANGGRAPH)
	@touch $@

$(PEERS312)/.ready: constraints/peers.txt
	@echo "setting up $(PEERS312) with $(PYTHON312) …"
	@"$(PYTHON312)" -m venv $(PEERS312)
	@$(PEERS312)/bin/python -m pip install -qq -c constraints/peers.txt '10xscale-agentflow[pg-checkpoint]'
	@touch $@

define new_venv
@test -n "$(PYTHON)" || { echo "Perdure needs Python 3.11 or newer, with venv: make PYTHON=/path/to/python" >&2; exit 1; }
@echo "setting up $(1) with $(PYTHON) …"
@$(PYTHON) -m venv $(1)
endef
