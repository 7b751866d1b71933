# The one place for what a person or CI runs. `make help` lists it.

CARGO ?= cargo
PREFIX ?= /usr
UNITDIR ?= $(PREFIX)/lib/systemd/system
MANDIR ?= $(PREFIX)/share/man
# Which build is installed.
BINARY ?= target/release/trident-acl-agent
LOADER ?= target/release/trident-slot-loader
SLOTCTL ?= target/release/trident-slotctl
# Which program the tests and the demo put on their nodes: the one that ships.
export LAB_AGENT ?= $(CURDIR)/target/release/trident-acl-agent
export LAB_LOADER ?= $(CURDIR)/target/release/trident-slot-loader

.PHONY: help build stops check test test-kill test-real demo soak bench setup install

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

build: ## Build the program, small and fast
	$(CARGO) build --release --locked

stops: ## Build the program that the kill matrix stops; never shipped
	$(CARGO) build --package trident-acl-agent --profile stop-points --features stop-points --locked

check: ## Format and lints, nothing is changed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --test control_plane --locked -- -D warnings

setup: ## Install the packages that the tests and the demo need (root, Debian)
	@CARGO="$(CARGO)" packaging/setup

test: setup stops ## Set everything up and run all tests, the booted nodes included (root)
	$(CARGO) build --release --locked
	$(CARGO) test --workspace --locked --no-fail-fast

test-kill: setup build stops ## Stop it at every step, in both ways; ROWS= names a part of them (an hour)
	ROWS="$(ROWS)" $(CARGO) test --locked --test kill the_whole_matrix -- --ignored --nocapture

test-real: setup ## Run the agent against the real kube-apiserver, etcd and kubectl (root, Go)
	tests/control-plane/build
	$(CARGO) build --release --locked
	$(CARGO) test --test control_plane --locked -- --test-threads=2

demo: setup ## Set everything up and show an update and a rollback of a booted node (root)
	$(CARGO) build --release --locked
	$(CARGO) run --package trident-lab --bin demo --locked

soak: setup ## 500 updates of one node in one run, and what they leave behind (half an hour)
	$(CARGO) build --release --locked
	SOAK_ROUNDS=$${SOAK_ROUNDS:-500} $(CARGO) test --locked --test soak trixie -- --nocapture

bench: setup ## Measure size, memory and time
	$(CARGO) build --release --locked
	$(CARGO) run --package trident-lab --bin bench --locked

install: ## Install the built program, its units and man page below DESTDIR
	install -D -m 0755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/trident-acl-agent
	for unit in units/*.service units/*.timer units/*.slice; do \
		install -D -m 0644 -t $(DESTDIR)$(UNITDIR) $$unit || exit 1; \
	done
	for dropin in units/*.d; do \
		install -D -m 0644 -t $(DESTDIR)$(UNITDIR)/$${dropin#units/} $$dropin/*.conf || exit 1; \
	done
	install -D -m 0755 $(LOADER) $(DESTDIR)$(PREFIX)/bin/trident-slot-loader
	install -D -m 0755 $(SLOTCTL) $(DESTDIR)$(PREFIX)/bin/trident-slotctl
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/lib/dracut/modules.d/95trident-slots \
		packaging/dracut/95trident-slots/module-setup.sh
	install -D -m 0644 -t $(DESTDIR)$(MANDIR)/man8 docs/man/*.8
