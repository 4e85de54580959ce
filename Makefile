# `make` reproduces both pages, `make test` tests the project. Both set up what they need.

PYTHON ?= python3
BIN := .venv/bin
SNAKEMAKE := $(BIN)/python -m snakemake --cores all
# A lock is left where a run was killed; where one goes on, the call ends with 2 and says so.
HINT := test $$? = 2 || test -z "$$(ls -A .snakemake/locks 2> /dev/null)" || echo "If a run was killed here, it goes on with: make resume; for a target of its own, call that again afterwards" >&2

.PHONY: all setup setup-slurm resume breadth slice explain port digits diagnose sweep test test-faults test-slurm check format lock libraries bench bench-slurm docs docs-check site bundle publish-check report watch help

all: setup ## Build, train, compare, and judge every published figure
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) || { $(HINT); exit 1; }
	@cat results/*.summary

resume: setup ## Go on after a run was killed
	@$(SNAKEMAKE) --unlock
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete
	@cat results/*.summary

breadth: setup ## Every optimizer, option, clip, schedule and problem, against an exact reference
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete breadth || { $(HINT); exit 1; }
	@cat results/breadth/summary.txt

slice: setup ## A slice of that: all optimizers and options, fewer problems
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete breadth_slice || { $(HINT); exit 1; }
	@cat results/breadth-slice/summary.txt

explain: setup ## Which default or formula costs what, where a comparison asks for it
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete explain || { $(HINT); exit 1; }
	@ls results/explain/*.md 2> /dev/null || echo "no comparison says explain: true"

port: setup ## Port every configuration of PyTorch's list to burn, build it, train both sides
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete port || { $(HINT); exit 1; }
	@cat results/port/summary.txt

digits: setup ## The worked example of docs/recording.md: two recorded trainings, compared
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete digits || { $(HINT); exit 1; }
	@cat results/digits/summary.md

diagnose: slice ## Find the configurations of runs again from their numbers; some 20 minutes
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete diagnose || { $(HINT); exit 1; }
	@cat results/diagnose/summary.txt

sweep: setup ## Train and compare the runs of config/sweeps, or of one file of it with NAME=...
	@case '$(NAME)' in *[!A-Za-z0-9_-]*) echo "error: NAME is '$(NAME)', but a sweep has a name of letters, digits, - and _" >&2; exit 2;; esac
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete $(if $(NAME),results/sweeps/$(NAME)/summary.md,sweeps) || { $(HINT); exit 1; }
	@grep -h '^sweep ' results/logs/summarise_sweep_$(or $(NAME),*).log

bundle: setup ## One zip of results, sources and what ran, which others can check with pitb verify
	@PITB_SAY_SUMMARY_LATER=1 PITB_ALLOW_DIRTY=$(ALLOW_DIRTY) $(SNAKEMAKE) --rerun-incomplete bundle --forcerun make_bundle || { $(HINT); exit 1; }
	@cat results/bundles/crate.txt results/bundles/verified.txt

publish-check: setup ## Whether all is there that an archive such as Zenodo asks for; uploads nothing
	$(BIN)/python scripts/check_publish.py --root . --record results/bundles/latest.json --out results/bundles/zenodo.json

watch: setup ## Say what other versions change: those that the configuration lists under watch
	@PITB_SAY_SUMMARY_LATER=1 $(SNAKEMAKE) --rerun-incomplete watch || { $(HINT); exit 1; }
	@cat results/watch/changes.md 2> /dev/null || echo "no version is listed under watch; see docs/watching.md"

report: all ## One HTML file to look at it all: ledger, tables, plots, and what else was made
	@$(SNAKEMAKE) --report report.html || { $(HINT); exit 1; }

test: all slice port digits report ## Test everything: cargo's tests, then pytest on the package and on the whole pipeline
	cargo test --release --locked --workspace
	$(BIN)/python scripts/fill_docs.py --check
	$(BIN)/python -m pytest -n auto --dist loadfile

test-faults: all ## Kill, starve and feed garbage to everything; some ten minutes, and a part of it is in make test
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow' tests/test_faults_*.py

test-slurm: ## Run the pipeline on a real Slurm, of one node, that is started for it
	@$(PYTHON) scripts/bootstrap.py --check python && PYTHONPATH=scripts $(PYTHON) tests/slurm/cluster.py --check
	@$(MAKE) --no-print-directory all setup-slurm
	.venv-slurm/bin/python -m pytest -m slurm -s tests/slurm

bench-slurm: ## Write bench/slurm.json anew, which docs/clusters.md shows
	@$(PYTHON) scripts/bootstrap.py --check python && PYTHONPATH=scripts $(PYTHON) tests/slurm/cluster.py --check
	@$(MAKE) --no-print-directory all setup-slurm
	.venv-slurm/bin/python bench/slurm.py

check: setup ## Formatters, linters and types
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	cargo clippy --release --locked -p train-one --bin must_use --features must-use -- -D warnings -A unused_must_use
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/python scripts/check_lint.py

format: setup ## Format everything
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

lock: setup ## Pin what requirements.in asks for, with hashes
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate requirements.in -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate -c requirements.lock requirements-slurm.in -o requirements-slurm.lock

libraries: setup ## Record both libraries' calls, defaults and declarations, after a change of their versions
	@$(SNAKEMAKE) results/evidence/defaults/burn.json
	$(BIN)/python scripts/record_libraries.py --burn results/evidence/defaults/burn.json \
		--lock Cargo.lock --out scripts/pitb/libraries.json
	$(BIN)/python scripts/record_declared.py --root . --out scripts/pitb/declared.json
	$(BIN)/python scripts/record_published.py --root . --out scripts/pitb/published.json

bench: all ## Measure the pipeline against the plainest way to do the same
	$(BIN)/python bench/run.py
	$(BIN)/python scripts/fill_docs.py

docs: all slice port digits ## Write what is generated into the documents
	$(BIN)/python scripts/fill_docs.py

docs-check: all slice port digits ## Say which figures, tables and transcripts in the documents are stale
	$(BIN)/python scripts/fill_docs.py --check

site: setup ## Build the pages as a site, results/site/index.html
	$(BIN)/python scripts/build_site.py

setup:
	@command -v "$(PYTHON)" > /dev/null || { echo "error: Python 3.11 or newer is needed, and there is no $(PYTHON) on the PATH; name one with make PYTHON=..." >&2; exit 2; }
	@$(PYTHON) scripts/bootstrap.py

setup-slurm: ## Set .venv-slurm up, for a Slurm cluster: docs/clusters.md
	@$(PYTHON) scripts/bootstrap.py --slurm

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile
