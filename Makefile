VENV := .venv
BIN := $(VENV)/bin
# Python keeps what it has compiled: each worker of the tests, and each process that a test starts, would do it anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long campaign storm test-kafka test-cluster test-s3 test-spark bench docs experiments format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with the package and its tools; see that Java is there
	@bash scripts/setup.sh

storm: setup ## Kill a job on Spark 300 times, or KILLS=…: the driver, Java or both, over all kinds of plans
	$(BIN)/python -m tests.storm.run --kills $(or $(KILLS),300)

demo: setup ## Run the demonstration
	@$(BIN)/slackwater demo

test: setup ## Check style, types and import rules, then run the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.kit.java_archive & $(BIN)/mypy && $(BIN)/lint-imports; code=$$?; wait; exit $$code
	$(BIN)/pytest -n 2

test-long: setup ## Run further seeds and variants of the longest tests
	$(BIN)/pytest -n 2 -m long

campaign: setup ## Simulate 10,000 schedules of faults, or SCHEDULES=…; a failing one is shrunk to a script
	$(BIN)/python -W ignore -m tests.campaign.run --schedules $(or $(SCHEDULES),10000) --shrink

test-kafka: setup ## Run the tests that read Kafka, from a broker of their own
	@$(BIN)/python scripts/fetch_kafka.py
	$(BIN)/pytest -m kafka tests/kafka

test-cluster: setup ## Run the tests on a cluster: a master and two workers that see only a shared folder (as root)
	$(BIN)/pytest -m cluster tests/cluster

test-postgres: setup ## Run the tests that write to PostgreSQL, to a server of their own
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || apt-get install -y postgresql
	$(BIN)/pytest -m postgres tests/postgres

test-s3: setup ## Run the tests of a journal on S3, on a server of their own
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'moto[server]'
	$(BIN)/pytest -m s3 tests/s3

test-spark: ## Run the tests with another version of Spark, as in make test-spark VERSION=4.1.4
	@bash scripts/test_spark.sh "$(VERSION)"

bench: setup ## Measure the throughput
	$(BIN)/python benchmarks/throughput.py

docs: setup ## Build the documentation site, and check every link in it
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "The site is $(CURDIR)/build/site/index.html"

experiments: setup ## Run the papers' experiments in quick mode, into one report; FULL=1 runs all of them
	@$(BIN)/python experiments/report.py $(if $(FULL),--full)

format: setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean: ## Remove caches and build output (.venv stays)
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
