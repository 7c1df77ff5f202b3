# `make help` says what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(PATH)

# The pinned toolchain, by name: then rustup does not insist on components that cannot be had.
ifneq ($(shell command -v rustup 2>/dev/null),)
export RUSTUP_TOOLCHAIN ?= $(shell sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
endif

TARGET := $(or $(CARGO_TARGET_DIR),target)
ICECORE := $(TARGET)/release/icecore
# Seconds: of each fuzz target under `fuzz`, of all rigs together under `prove`.
TIME ?= 60
# Seeds of the simulated disk.
SEEDS ?= 100000
# Commands that `prove-crash` kills in one loop (some end before), and how many loops: the source
# grows in each, so that many short ones do more than a long one.
RUNS ?= 800
LOOPS ?= 16
# Commands under which `prove-crash` shuts the file system down.
SHUT_DOWNS ?= 1400

.PHONY: help setup build demo test fmt fmt-check lint deny unit crash-smoke rigs-smoke fuzz-smoke bench bench-wan bench-server bench-agents prove-crash fleet fuzz sim sabotage sabotage-sources damage prove price

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

setup: ## install what is missing (Debian)
	@.ci/setup

build: setup ## the binary, target/release/icecore
	cargo build --release --package icecore

demo: build ## all of it once, on real files, each command shown
	ICECORE="$(ICECORE)" demo/run

test: setup fmt-check lint deny unit sabotage crash-smoke rigs-smoke fuzz-smoke ## everything that CI runs
	@echo "== all passed"

fmt: ## format the sources
	cargo fmt --all

fmt-check:
	@.ci/optional rustfmt cargo fmt --version -- cargo fmt --all --check

lint:
	@.ci/optional clippy cargo clippy --version -- cargo clippy --workspace --all-targets --quiet -- -D warnings

deny:
	@.ci/optional cargo-deny cargo deny --version -- cargo deny --log-level error check bans licenses sources

# Floors and tidiness are among these tests: they are the package xtask.
unit:
	cargo test --workspace --no-fail-fast

# A short kill -9 loop; `prove-crash` is the long one.
crash-smoke:
	cargo build --profile fast --package icecore
	cargo proof crash --runs 300 --seconds 45 --binary $(TARGET)/fast/icecore
	cargo proof inject --seconds 20 --binary $(TARGET)/fast/icecore
	@if [ "$$(id -u)" = 0 ] && losetup --find >/dev/null 2>&1; then \
	    cargo proof crash --shut-down ext4 --runs 100 --seconds 20 --binary $(TARGET)/fast/icecore; \
	    cargo proof device --seconds 25 --binary $(TARGET)/fast/icecore; \
	    echo "== the same without syncs must fail"; \
	    ! ICECORE_BINARY=$(TARGET)/fast/icecore cargo proof device --seconds 20 --binary proof/testdata/icecore-without-sync >/dev/null 2>&1; \
	else echo "== file systems shut down, power cuts: SKIPPED, need root and loop devices"; fi

# Real file systems, full disks, frozen processes, little memory, servers cut off: a slice of each.
rigs-smoke:
	cargo build --profile fast --package icecore
	for rig in fidelity full freeze network limits cuts; do \
	    cargo proof $$rig --seconds 20 --binary $(TARGET)/fast/icecore; \
	done
	cargo proof fleet --nodes 30 --idle 200 --binary $(TARGET)/fast/icecore

fuzz-smoke:
	@.ci/fuzz 3

bench: setup ## measure against today's peers, writes bench/results
	python3 bench/run.py

# Root, iperf3 and iproute2; some twenty minutes.
bench-wan: build ## one stream over long, slow and lossy links beside iperf3
	cargo build --profile fast --package wan
	ICECORE_BIN="$(abspath $(ICECORE))" WAN_BIN="$(abspath $(TARGET))/fast/wan" python3 bench/wan.py

bench-server: build ## through a server on loopback, against the peers' servers
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/network.py

bench-agents: build ## 1, 4, 8 and 12 agents at one server; first data of 2 million files
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/agents.py

prove-crash: build ## kill -9 10,000 times, and file systems shut down 2,000 times (LOOPS=..., SHUT_DOWNS=...)
	for loop in $$(seq $(LOOPS)); do \
	    cargo proof crash --runs $(RUNS) --verify-every 25 --binary $(ICECORE); \
	done
	for kind in ext4 xfs; do \
	    if command -v mkfs.$$kind >/dev/null; then \
	        cargo proof crash --shut-down $$kind --runs $(SHUT_DOWNS) --verify-every 25 --binary $(ICECORE); \
	    else echo "== $$kind shut down: SKIPPED, needs mkfs.$$kind"; fi; \
	done

fleet: build ## a thousand nodes at once, ten thousand agents that wait, and strangers, at one server
	cargo proof fleet --binary $(ICECORE)

sim: ## the engine on a simulated disk (SEEDS=100000)
	cargo proof sim --seeds $(SEEDS)

sabotage: ## each sync and check taken out in turn: a test must fail
	cargo run --profile fast --package proof --features sabotage -- sabotage

sabotage-sources: ## the same for what has no switch: taken out of a copy of the sources
	python3 proof/sabotage/run.py

damage: ## every damage to every file, every command on it
	mkdir -p $(TARGET)
	ICECORE_DAMAGE=all cargo test --profile fast --package client --test it damage_matrix -- --nocapture >$(TARGET)/damage.log 2>&1 \
	    || { tail -n 50 $(TARGET)/damage.log; exit 1; }
	@grep "^cells" $(TARGET)/damage.log

prove: build ## every rig for its share of the time (TIME=7200), one table, fails on any loss
	cargo proof all --seconds $(TIME) --binary $(ICECORE)

price: build ## what verifying, checksums, syncs and parity cost, in bench/results
	python3 bench/price.py

fuzz: ## fuzz every decoder (TIME=60 seconds each)
	@.ci/fuzz $(TIME)
