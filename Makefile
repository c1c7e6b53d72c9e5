# Two commands do all the set-up: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test style tools clean

run: $(STAMP) ## a broker on 127.0.0.1:9092, data in ./odradek-data
	$(BIN)/odradek start

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test,spark,benchmarks]'
	touch $@

tools: $(STAMP) ## the Java side: Apache Kafka (the oracle), its clients and tools, and Spark's connector, from Maven
	$(BIN)/python -m compat_tests.java.fetch
	$(BIN)/python spark_examples/jars.py

test: $(STAMP) tools ## everything: style, types, floors, unit, compatibility, Spark
	./tests/run

style: $(STAMP)
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .tools
