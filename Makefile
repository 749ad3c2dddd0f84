# One command each; `make` alone lists them. Everything that is built or measured lands in target/.

PYTHON  := /usr/bin/python3
INCANET := PYTHONPATH=mininet $(PYTHON) -m inca_net
RUFF    := target/python/bin/ruff
MATURIN := target/python/bin/maturin
export PYTHONDONTWRITEBYTECODE := 1

ifeq ($(filter auto bmv2 embedded,$(or $(SWITCH),auto)),)
$(error SWITCH=$(SWITCH): valid are bmv2, embedded and auto)
endif

.DEFAULT_GOAL := help
.PHONY: help setup setup-bench build p4 test test-unit test-property test-golden test-diff test-net test-loss test-numbers stf lint fmt demo train-formats train-ddp train-parallel perf \
        check up doctor wireshark conformance experiment python bench soak bench-codec bench-collectives bench-loss bench-recovery bench-jobs bench-controller bench-dataplane fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  SWITCH=bmv2|embedded chooses the switch for demo, perf, check and up (default: BMv2 if it is on PATH)."
	@echo "  ARGS='...' adds options, for example: make perf ARGS='--topology tree3 --workers 5,1,2 --loss 0.01'"

setup: ## install Debian's packages and the Python tools (needs root for the packages)
	@sh mininet/setup.sh

setup-bench: ## install what benchmarks compare with: Open MPI, and PyTorch for gloo (needs root)
	@sh mininet/setup.sh --bench

build: ## build the programs (release) into target/release
	cargo build --release -p inca-switch -p inca-controller -p inca-host-agent --bins

p4: ## compile p4/ into p4/compiled/ (needs p4c)
	@if command -v p4c-bm2-ss >/dev/null; then $(PYTHON) p4/build.py; \
	else echo "p4c-bm2-ss not found: p4/compiled/ is left as committed"; $(PYTHON) p4/build.py --check; fi

test: setup-if-needed ## all test tiers that can run here
	@$(PYTHON) tests/run.py

test-unit: ## tier unit
	@$(PYTHON) tests/run.py unit

test-property: ## tier property
	@$(PYTHON) tests/run.py property

test-golden: ## tier golden, and whether p4/compiled/ is fresh
	@$(PYTHON) tests/run.py golden

test-diff: ## tier differential: reference model, embedded switch and BMv2 against each other
	@$(PYTHON) tests/run.py diff

test-net: ## tier emulated network: Mininet with both switches
	@$(PYTHON) tests/run.py net

test-loss: ## a million random schedules of loss, and every single and double loss, in whole trees (long)
	cargo run -p inca-tests --bin test-loss -- $(ARGS)

FOLDER  ?= tests/programs
stf: ## packet tests in p4c's format on both switches: FOLDER=... of compiled programs and scripts (ARGS=--help says how to get p4c's)
	cargo run -p inca-tests --bin stf -- --switch both $(ARGS) $(FOLDER)

TARGET  ?= packet
SECONDS ?= 60
fuzz: ## fuzz one entrance, guided by coverage (nightly, cargo-fuzz): TARGET=packet|json|p4runtime|northbound SECONDS=60
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz not found: cargo install cargo-fuzz"; exit 1; }
	cargo run --quiet -p inca-tests --example fuzz_seeds -- $(TARGET) fuzz/corpus/$(TARGET)
	cargo +nightly fuzz run $(TARGET) -- -max_total_time=$(SECONDS) -max_len=65536 -timeout=60 $(ARGS)

test-numbers: ## number formats at length: 100,000 random blocks of each format, the cases at full size
	INCA_BLOCKS=100000 INCA_LONG=1 cargo test --release -p inca-tests --test formats --test number_cases

lint: $(RUFF) ## rustfmt, clippy, ruff, mypy: no changes
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(RUFF) check mininet bench p4 python tests/run.py tests/runner
	$(RUFF) format --check mininet bench p4 python tests/run.py tests/runner
	MYPYPATH=mininet:python $(PYTHON) -m mypy python/inca mininet/inca_net tests/run.py p4/build.py p4/fuse.py

fmt: $(RUFF) ## format Rust and Python
	cargo fmt --all
	$(RUFF) check --fix --select I mininet bench p4 python tests/run.py tests/runner
	$(RUFF) format mininet bench p4 python tests/run.py tests/runner

$(RUFF):
	$(PYTHON) -m venv target/python
	target/python/bin/pip install --quiet --disable-pip-version-check ruff==0.17.6

$(MATURIN): $(RUFF)
	target/python/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.8,<2'

demo: setup-if-needed build ## training, size sweep and bytes per link on 8 emulated workers (a minute or two)
	@$(INCANET) demo $(ARGS)

train-formats: setup-if-needed build ## trains the digits over every number format: accuracy, bytes, curves as PNG
	@$(INCANET) train-formats $(ARGS)

train-ddp: setup-if-needed build ## PyTorch's DDP by inca's hook, inca's backend and gloo, 4 workers at 50 Mbit/s (needs python3-torch)
	cargo build --release -p inca-python
	@$(INCANET) train-ddp $(ARGS)

train-parallel: setup-if-needed build ## sharded, and 2x2x2 data, tensor, pipeline parallel training on 8 workers (needs python3-torch)
	cargo build --release -p inca-python
	@$(INCANET) train-parallel $(ARGS)

perf: build ## a sweep of inca-agent perf over an emulated network
	@$(INCANET) perf $(ARGS)

check: build ## ping and TCP between the hosts while a job runs
	@$(INCANET) check $(ARGS)

up: build ## a network and Mininet's command line
	@$(INCANET) up $(ARGS)

doctor: ## what this machine can and can't do
	@$(INCANET) doctor

experiment: build ## one experiment: FILE=... a YAML file (schema: mininet/inca_net/experiment_file.py), ARGS=--resume goes on
	@test -n "$(FILE)" || { echo "FILE=... is missing, for example: make experiment FILE=bench/experiments/quick.yaml"; exit 2; }
	@$(INCANET) experiment $(FILE) $(ARGS)

BENCH   ?= full
bench: build setup-bench ## all that is promised, side by side, in bench/results (20 minutes; BENCH=quick: a few)
	cargo build --release -p inca-bench
	@$(INCANET) bench $(if $(filter quick,$(BENCH)),--quick) $(ARGS)

soak: build ## ten minutes at full rate and 1 % loss: no wrong element, no memory of ours that grows (SECONDS=600)
	@$(INCANET) soak --seconds $(if $(filter file,$(origin SECONDS)),600,$(SECONDS)) $(ARGS)

bench-collectives: build ## bytes on the hosts' links of each collective, beside the least there must be
	@$(INCANET) collectives $(ARGS)

bench-loss: build ## goodput at 0 and at 10 % loss on every link, on both switches, every element compared
	@$(INCANET) loss $(ARGS)

bench-recovery: build ## time to notice and to go on after failures of ranks, switches and links, on both switches
	@$(INCANET) recovery $(ARGS)

wireshark: ## install the dissector of our packets for this user's Wireshark and tshark
	@mkdir -p ~/.local/lib/wireshark/plugins && cp -v wireshark/inca.lua ~/.local/lib/wireshark/plugins/

conformance: ## holds host agent and switches to the vectors in tests/conformance (--help)
	@cargo run -q -p inca-tests --bin conformance -- $(ARGS)

# maturin comes by pip; --profile dev builds faster
python: $(MATURIN) ## build the Python package's wheel into target/wheels (pip install it)
	$(MATURIN) build --manifest-path python/Cargo.toml --out target/wheels $(or $(ARGS),--release)

bench-codec: ## speed of the codec beside memcpy (--help, --json)
	@cargo bench -q -p inca-wire --bench codec -- $(ARGS)

bench-jobs: build ## eight jobs at once over the same switches: every element right, throughput shared evenly
	@$(INCANET) jobs $(ARGS)

bench-controller: ## time to find 20 switches and 64 hosts and to install 8 jobs' trees; memory with 200 switches, 2,000 hosts (root)
	@cargo bench -q -p inca-controller --bench controller -- $(ARGS)

bench-dataplane: ## measure the P4 program's packet rates (see bench/)
	cargo run --release -p inca-bench --bin bench-dataplane -- $(ARGS)

.PHONY: setup-if-needed
setup-if-needed:
	@sh mininet/setup.sh --if-needed

clean: ## remove target/
	rm -rf target
