# Postrider: make demo runs the main job, make test runs that and every test.
# Build caches live outside the tree, so that a second clone builds fast.

SHELL := /bin/bash
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/postrider
export CARGO_TARGET_DIR ?= $(CACHE)/target
export POSTRIDER_PEERS ?= $(CACHE)/peers
export POSTRIDER_BIN := $(CARGO_TARGET_DIR)/release/postrider
BENCH := $(CARGO_TARGET_DIR)/release/postrider-bench
WORK := $(CACHE)/work
PREFIX ?= /usr/local
PACKAGES ?= $(CACHE)/packages
# Published experiments have a Postfix beside them unless told otherwise.
PEER_FLAG = $(if $(filter none,$(PEERS)),,--peers postfix)
BENCH_PEERS = $(if $(PEER_FLAG),tools/needs.sh test && testing/e2e/peers/fetch.sh $(POSTRIDER_PEERS))
LOW_LAYERS := clock smtp-wire mime record config message spool smtp-server smtp-client queue bounce route

.PHONY: demo test low whole instructions bench bench-kumomta bench-postfix1997 bench-scaling bench-contention bench-spool bench-queue bench-backlog bench-admin bench-compare bench-policy install package package-test build lint unit sim e2e torture peers fuzz clean-cache

demo: build ## build, then send mail through generator, relay and sink, with a kill -9 in the middle
	$(BENCH) demo --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/demo

test: demo lint instructions low whole fuzz package-test ## everything

build:
	tools/needs.sh build
	cargo build --release --locked -p postrider -p bench

lint:
	tools/needs.sh test
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings

low: ## tests of the low layers, with overflow checks, and of the tree itself
	tools/needs.sh test
	tools/run_tests.py --locked $(addprefix -p ,$(LOW_LAYERS)) -p tidy

whole: build peers ## unit, sim and e2e without the low layers in one go: apart from each other each would build its own
	tools/run_tests.py --release --locked --workspace --exclude tidy $(addprefix --exclude ,$(LOW_LAYERS))

unit: low build peers
	cargo test --release --locked --workspace --exclude e2e --exclude sim --exclude tidy $(addprefix --exclude ,$(LOW_LAYERS))

sim: build
	cargo test --release --locked -p sim

peers:
	tools/needs.sh test
	testing/e2e/peers/fetch.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/dns.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/cell.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/sender_check.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/report_parsers.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/metrics_parsers.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/opendkim.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/mailauth.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/schemathesis.sh $(POSTRIDER_PEERS)
	testing/e2e/peers/chromium.sh $(POSTRIDER_PEERS)

instructions: build ## what a message costs in instructions, against bench/instructions.json
	tools/needs.sh test
	$(BENCH) instructions

e2e: build peers
	cargo test --release --locked -p e2e

torture: build ## TORTURE_KILLS=500 kills -9 under load, after a 250, during the start and while compacting; TORTURE_SEED repeats a run
	tools/needs.sh test
	TORTURE_KILLS=$(or $(TORTURE_KILLS),500) cargo test --release --locked -p e2e --test kill nothing_acknowledged -- --nocapture

fuzz: ## a short run of every fuzz target; FUZZ_SECONDS=300 for a long one
	tools/needs.sh build
	testing/fuzz/run.sh $(or $(FUZZ_SECONDS),10)

bench: build ## PEERS=postfix puts a Postfix through the same work
	$(if $(PEERS),tools/needs.sh test && testing/e2e/peers/fetch.sh $(POSTRIDER_PEERS))
	$(BENCH) run --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(if $(PEERS),--peers $(PEERS)) $(BENCH_FLAGS)

bench-kumomta: build ## the experiments KumoMTA's makers publish, beside their figures and a Postfix; PEERS=none without (it needs root)
	$(BENCH_PEERS)
	$(BENCH) kumomta --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(PEER_FLAG) $(BENCH_FLAGS)

bench-postfix1997: build ## the experiments Postfix was presented with, beside the figures of 1997 and a Postfix; PEERS=none without
	$(BENCH_PEERS)
	$(BENCH) postfix1997 --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(PEER_FLAG) $(BENCH_FLAGS)

bench-scaling: build ## by cores, connections, queues, domains, sizes; latency by load
	$(BENCH) scaling --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(BENCH_FLAGS)

bench-contention: build ## one worker thread, one a core, many more: what sharing costs, and what bounds the rate
	$(BENCH) contention --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(BENCH_FLAGS)

bench-spool: build ## the spool by itself, then what syncing costs a relay
	$(BENCH) spool --work $(WORK)/bench $(BENCH_FLAGS)
	$(BENCH) sync-cost --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench

bench-queue: build ## the queues by themselves: a million messages in fifty thousand; then what fifty thousand destinations cost the program
	$(BENCH) queue --work $(WORK)/bench $(BENCH_FLAGS)
	$(BENCH) destinations --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench

bench-backlog: build ## a million queued messages: memory, restarts, limits; then disk use. BENCH_FLAGS="--messages 3000000" for more
	$(BENCH) backlog --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(BENCH_FLAGS)
	$(BENCH) reclaim --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench

bench-admin: build ## a million queued messages, in four queues and in as many: searches, timelines, metrics, the console's sums
	$(BENCH) admin --bin $(CARGO_TARGET_DIR)/release --work $(WORK)/bench $(BENCH_FLAGS)

bench-compare: build ## REV=revision: CPU per message of that revision against this tree. BENCH_FLAGS="--size 100 --signing rsa" for other work
	@test -n "$(REV)" || { echo "usage: make bench-compare REV=<git revision>"; exit 2; }
	rm -rf $(WORK)/rev && mkdir -p $(WORK) && git worktree prune && git worktree add --force --detach $(WORK)/rev $(REV)
	cd $(WORK)/rev && CARGO_TARGET_DIR=$(CACHE)/target-rev cargo build --release --locked -p postrider
	$(BENCH) compare --a $(CACHE)/target-rev/release/postrider --b $(POSTRIDER_BIN) --work $(WORK)/compare $(BENCH_FLAGS)

bench-policy: build ## what a policy costs in which everything goes through helpers, over a plain one
	$(BENCH) compare --a $(POSTRIDER_BIN) --b $(POSTRIDER_BIN) --production --work $(WORK)/compare $(BENCH_FLAGS)

install: build ## PREFIX=/usr/local, or /opt/kumomta where KumoMTA has its own; names are hard links to one program
	install -d $(DESTDIR)$(PREFIX)/sbin
	install -m 755 $(POSTRIDER_BIN) $(DESTDIR)$(PREFIX)/sbin/postrider
	install -d $(DESTDIR)$(PREFIX)/share/bounce_classifier $(DESTDIR)$(PREFIX)/share/community
	install -m 644 share/bounce_classifier/iana.toml $(DESTDIR)$(PREFIX)/share/bounce_classifier
	install -m 644 share/community/bounces.toml $(DESTDIR)$(PREFIX)/share/community
	install -d $(DESTDIR)$(PREFIX)/share/doc/postrider/policy-extras
	install -m 644 share/policy-extras/*.lua $(DESTDIR)$(PREFIX)/share/doc/postrider/policy-extras
	install -m 644 share/grafana/postrider.json $(DESTDIR)$(PREFIX)/share/doc/postrider/grafana.json
	for name in kumod tsa-daemon kcli tailer traffic-gen smtp-sink validate-bounces; do ln -f $(DESTDIR)$(PREFIX)/sbin/postrider $(DESTDIR)$(PREFIX)/sbin/$$name; done

package: build ## a Debian package and a container file, in PACKAGES
	POSTRIDER_BIN=$(POSTRIDER_BIN) tools/package.sh $(PACKAGES)

package-test: build ## the package in clean roots: its life, its units under a real systemd, its container (as root; what the host is left with: docs/install.md)
	POSTRIDER_BIN=$(POSTRIDER_BIN) tools/package_test.sh $(CACHE)/package-test

clean-cache:
	rm -rf $(CACHE)
