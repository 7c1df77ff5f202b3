# `make help` lists the targets.

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
# What the rigs of `make test` use: built with the unit tests.
TESTED := $(TARGET)/debug/icecore
PROOF := $(TARGET)/debug/proof
# What the demo uses: as fast as a release, without the long link.
FAST := $(TARGET)/fast/icecore
# Tests and rigs record here what they could not test, and why.
export ICECORE_SKIPS ?= $(abspath $(TARGET))/skipped
# Seconds: of each fuzz target under `fuzz`, of all rigs together under `prove`.
TIME ?= 60
# Parts of `prove` and `nightly` that run at the same time. What compares times runs alone.
AT_ONCE ?= 2
# Seeds of the simulated disk.
SEEDS ?= 100000
# Commands that `prove-crash` kills in one loop (some end before), and how many loops: the source
# grows in each, so that many short ones do more than a long one.
RUNS ?= 800
LOOPS ?= 16
# Commands under which `prove-crash` shuts the file system down.
SHUT_DOWNS ?= 1400

# Seconds of `nightly`, besides what takes as long as it takes.
NIGHT ?= 14400

.NOTPARALLEL:
.PHONY: help setup build demo test nightly fmt fmt-check lint deny advisories unit test-bench tested second-reader guides rigs-smoke no-skips skips bench bench-wan bench-server bench-agents bench-lists bench-buckets prove-crash inject-whole fleet takeover bucket-seeds package package-test fuzz fuzz-million sim sabotage sabotage-sources damage client-on-disk models catalog-speed storages prove price

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

setup: ## install missing tools (Debian)
	@.ci/setup

build: ## build target/release/icecore
	@.ci/setup build
	cargo build --release --package icecore

demo: ## show every command once, on real files
	@.ci/setup build
	cargo build --profile fast --package icecore
	ICECORE="$(FAST)" demo/run

# Longer checks are in `nightly`. What takes seconds comes first. The last step fails when anything was skipped.
STEPS := setup no-skips fmt-check test-bench deny lint unit rigs-smoke skips
test: ## run everything that CI runs, and print how long each step took (ALLOW_SKIP=1 accepts skipped tests)
	@.ci/steps $(STEPS)

no-skips:
	@mkdir -p $(TARGET)
	@rm -f "$(ICECORE_SKIPS)"

skips:
	@.ci/skips "$(ICECORE_SKIPS)"

nightly: build ## run every rig, sabotage, damage, fuzzing and advisories, for hours; one table; resumes if stopped (NIGHT=14400)
	cargo proof all --nightly --seconds $(NIGHT) --at-once $(AT_ONCE) --binary $(ICECORE)

fmt: ## format the sources
	cargo fmt --all

fmt-check:
	@.ci/optional rustfmt cargo fmt --version -- cargo fmt --all --check

lint:
	@.ci/optional clippy cargo clippy --version -- cargo clippy --workspace --all-targets --quiet -- -D warnings

deny:
	@.ci/optional cargo-deny cargo deny --version -- cargo deny --log-level error check bans licenses sources

# The database is at GitHub; without access to it this is skipped.
advisories: ## check for known vulnerabilities in the dependencies
	@.ci/optional advisories timeout 300 cargo deny fetch db -- cargo deny --log-level error check --disable-fetch advisories

# The package xtask is among these tests: layers, tidiness, words and promises.
# The tests wait for disks, servers and clocks most of the time: more at once than there are cores.
unit:
	@.ci/unit

test-bench:
	python3 -m unittest discover --quiet --start-directory bench --pattern 'test_*.py'
	python3 -m unittest discover --quiet --start-directory proof/sabotage --pattern 'test_*.py'
	python3 proof/sabotage/run.py --check

# With fewer packages, or without the tests, features differ and much is built twice.
tested:
	cargo build --workspace --bins --tests

second-reader: tested ## restore with the reader in Python, which was written from the documents alone
	proof/reader/run $(TESTED)

guides: tested ## every command that the documents show is one that the program has; those of the guide for servers run
	demo/guides $(TESTED)
	demo/walk $(TESTED)

# What the two targets above run, and a short run of each rig: kill -9, faults, power cuts, real file systems, full disks, frozen processes, little memory,
# disconnects, many nodes. `prove` runs the long ones.
rigs-smoke: tested
	@.ci/rigs $(PROOF) $(TESTED)

package: ## build a static tarball, a .deb, their SBOM and checksums, in target/packages
	@packaging/setup
	packaging/build $(TARGET)/packages

package-test: ## build packages twice and compare; install, upgrade and remove them in a fresh Debian (root)
	@packaging/setup
	packaging/test $(TARGET)/package-test

bench: build ## measure all sets with all peers, three rounds, into bench/results; fails unless every claim holds
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/run.py

# Root, iperf3 and iproute2; some twenty minutes.
bench-wan: build ## measure one stream over long, slow and lossy links beside iperf3
	cargo build --profile fast --package wan
	ICECORE_BIN="$(abspath $(ICECORE))" WAN_BIN="$(abspath $(TARGET))/fast/wan" python3 bench/wan.py

bench-server: build ## measure a server on loopback beside the peers' servers
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/network.py

bench-agents: build ## measure 1, 4, 8 and 12 agents at one server; first data of 2 million files
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/agents.py

prove-crash: build ## kill -9 10,000 times, and shut file systems down 2,000 times (LOOPS=..., SHUT_DOWNS=...)
	for loop in $$(seq $(LOOPS)); do \
	    cargo proof crash --runs $(RUNS) --verify-every 25 --binary $(ICECORE); \
	done
	for kind in ext4 xfs; do \
	    if command -v mkfs.$$kind >/dev/null; then \
	        cargo proof crash --shut-down $$kind --runs $(SHUT_DOWNS) --verify-every 25 --binary $(ICECORE); \
	    else .ci/skip "$$kind shut down" "needs mkfs.$$kind"; fi; \
	done

# In `nightly`: a run and what is looked at behind it for each call and each of seven faults.
inject-whole: build ## inject a fault at every system call of backup and restore
	cargo proof inject --only backup --binary $(ICECORE)
	cargo proof inject --only restore --binary $(ICECORE)

takeover: build ## take over pools of storage servers that are frozen, killed or cut off (10 minutes; root)
	cargo proof takeover --binary $(ICECORE)

fleet: build ## load one server with 1,000 nodes, 10,000 idle agents and hostile clients
	cargo proof fleet --binary $(ICECORE)

sim: ## run the engine on a simulated disk (SEEDS=100000)
	cargo proof sim --seeds $(SEEDS)

bucket-seeds: ## run the engine on a bucket in memory whose requests fail (10,000 seeds)
	ICECORE_BUCKET_SEEDS=10000 cargo test --quiet --package object-storage --test it -- any_fault

sabotage: ## switch off each sync and guard in turn: a test must fail
	cargo run --profile fast --package proof --features sabotage -- sabotage

sabotage-sources: ## remove each protection that has no switch from a copy of the sources: a test must fail
	python3 proof/sabotage/run.py

damage: ## run every command on a repository with every kind of damage to every file
	mkdir -p $(TARGET)
	ICECORE_DAMAGE=all cargo test --profile fast --package pipeline --test it damage_matrix -- --nocapture >$(TARGET)/damage.log 2>&1 \
	    || { tail -n 50 $(TARGET)/damage.log; exit 1; }
	@grep "^cells" $(TARGET)/damage.log

client-on-disk: ## interrupt every command at every operation of the simulated disk
	ICECORE_SIMULATED=all cargo test --profile fast --package pipeline --test it -- simulated:: power:: copies:: epochs::

catalog-speed: ## measure every list of a million jobs, in SQLite and PostgreSQL: 200 ms at most
	ICECORE_CATALOG=all cargo test --profile fast --package catalog -- speed --nocapture --test-threads 1

# Some ten minutes and 4 GiB of disk.
bench-buckets: build ## measure a repository in a bucket beside restic and a directory: time and requests
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/buckets.py

bench-lists: build ## measure every list and report of 1,000 nodes, a million jobs and 100,000 snapshots over HTTP
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/site_lists.py

MODEL_RUNS ?= 100000
YEARS ?= 10000

models: ## compare retention and schedules with their models (MODEL_RUNS=100000), and live through five years (YEARS=10000)
	ICECORE_MODEL_RUNS=$(MODEL_RUNS) cargo test --profile fast --package retention --package schedule --test model
	ICECORE_MODEL_RUNS=$(YEARS) cargo test --profile fast --package site --test years

# In `nightly`: installs what is missing; Garage builds for a quarter of an hour.
STORAGES ?= minio ceph garage
storages: ## run the tests of buckets on MinIO and Ceph, too, and see that Garage is refused (STORAGES=ceph)
	.ci/storages $(STORAGES)

# In `nightly`: installs both from Debian's packages. A quarter of an hour.
SHARED ?= 300
shared: build ## run two machines on GlusterFS and on MooseFS, whose servers freeze and die (SHARED=300 seconds each)
	.ci/shared $(SHARED) $(ICECORE)

prove: build ## run every rig for a part of the time (TIME=7200), and the longer checks; one table, fails on any loss; resumes if stopped (ONLY=limits,power)
	cargo proof all --seconds $(TIME) --at-once $(AT_ONCE) --binary $(ICECORE) $(if $(ONLY),--only "$(ONLY)")

price: build ## measure what verifying, checksums, syncs and parity cost, into bench/results
	ICECORE_BIN="$(abspath $(ICECORE))" python3 bench/price.py

# Eight processes for each: some targets mostly wait.
fuzz-million:
	RUNS=1000000 JOBS=8 .ci/fuzz 7200

fuzz: ## fuzz every decoder (TIME=60 seconds each)
	@.ci/fuzz $(TIME)
