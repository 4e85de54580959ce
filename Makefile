# `make` reproduces both pages, `make test` tests the project. Both set up what they need.

PYTHON ?= python3
VENV := .venv/bin
SNAKEMAKE := $(VENV)/python -m snakemake --cores all

.PHONY: all setup resume test check format lock bench clean help

all: setup ## Build, train, compare, and judge every published figure
	@$(SNAKEMAKE) --no-hooks && cat results/ledger.summary

setup:
	@$(PYTHON) scripts/bootstrap.py

resume: setup ## Go on after a run was killed
	@$(SNAKEMAKE) --unlock
	@$(SNAKEMAKE) --no-hooks --rerun-incomplete && cat results/ledger.summary

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile
