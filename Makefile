# One command for each thing a person wants to do here. CI runs `make test` and nothing else.

.DEFAULT_GOAL := help
.PHONY: help run console test check release bench faults fuzz setup

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and start the gateway with a few real servers (configs/demo.toml); with DATABASE_URL, PostgreSQL functions too
	@tests/setup --demo || echo "The demo starts without what is missing."
	@mkdir -p .build/demo/files
	@test -e .build/demo/files/welcome.txt || echo "This folder is yours to read and write through the gateway." > .build/demo/files/welcome.txt
	cargo build -p sentinel
	@exec tests/demo

console: ## build the web console (console/dist), which every later build of the binary contains; needs npm
	@tests/setup --console

test: ## check, then every test in short, bounded form
	@tests/run

check: ## formatting, lints as errors, licences and sources of what we link
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@tests/setup
	@tests/deny

release: ## the binary to install, built by a profile of real calls; prints where it is
	@tests/setup --console >&2 || echo "The binary is built without the console." >&2
	@bench/release.sh

bench: ## throughput, latency and CPU of that binary beside nginx and no proxy at all, of PostgreSQL functions beside pgbench
	@tests/setup
	bench/run.sh

faults: ## outages and overload at full length: the store away for 30 s, a million records verified, reviews through every fault
	@tests/setup
	SENTINEL_OUTAGE_S=30 SENTINEL_KILLS=50 SENTINEL_CALLS=200000 \
		cargo nextest run -p sentinel --test it --no-capture -E 'test(/^audit::faults|^limits::load|p_r13_under|p_r15|p_s05_many/)'
	SENTINEL_VERIFY_RECORDS=1000000 cargo test --release -p sentinel-stores --lib -- p_a05_many --nocapture
	cargo test --release -p sentinel-review --test cost -- --nocapture
	SENTINEL_RACES=100 cargo test --release -p sentinel-review --test service -- on_sqlite::p_b05 --nocapture
	cargo build -p sentinel
	.build/venv/bin/python -m pytest -c tests/pytest.ini tests/suites/review --long --timeout 3600

fuzz: ## every reader of foreign bytes on inputs that a fuzzer makes, a minute each (FUZZ_SECONDS)
	fuzz/run --seconds $(or $(FUZZ_SECONDS),60)

setup: ## install the programs that the tests talk to, under .build/
	@tests/setup
