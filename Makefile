# Two commands do all the set-up: `make run` and `make test`. Each tier of tests installs what it needs and no more.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
#: `make run PORT=9095`; without it the broker listens on 127.0.0.1:9092.
PORT ?=

comma := ,
space := $(subst ,, )
# The certificates are those of the system, as for pip: a proxy may have one of its own.
UV := UV_NATIVE_TLS=true $(BIN)/uv pip install --quiet --python $(BIN)/python
# Spark's package is a source distribution of 400 MB: its wheel is stored, not compressed.
UNPACKED_SPARK := --config-settings-package pyspark:--build-option=--compression=stored
# Tests skip where a tool is missing, and name it at the end of the run; CI must have all. The braces keep `a || b && c` from
# running c after a succeeded.
OPTIONAL := { test -z "$$CI" && echo "the tests that need this are skipped"; }
# Prints a step, runs it, and prints it with its seconds: $(call step,NAME,COMMAND).
step = @echo "$(1) ..."; began=$$(date +%s); { $(2); } && echo "$(1): $$(($$(date +%s) - began)) s"

.PHONY: run check check-broker test nightly pythons tools early-jars early-archives early-tools jars archives spark-archive kept-tools ecosystem own-suites style docs dist clean

run: $(VENV)/.broker ## a broker on 127.0.0.1:9092, data in ./odradek-data
	$(BIN)/odradek start $(if $(PORT),--port $(PORT))

# What a broker needs, and what makes it faster. pip compiles the kernel; without a compiler it goes on, and the broker walks
# over records in Python. isal and zstandard are optional, too, for machines that they have wheels for.
$(VENV)/.broker: pyproject.toml $(wildcard kernel/*.[ch])
	$(call step,making $(VENV),test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV))
	$(call step,installing the broker,$(PIP) install --progress-bar on --editable . | grep --line-buffered -E '^(Collecting|Installing|Successfully)' || test -x $(BIN)/odradek)
	@$(PIP) uninstall -qq --yes odradek-kernel  # of an earlier checkout, where the kernel was a package of its own
	@$(BIN)/python -c 'import odradek_kernel' || echo "without the kernel: no C compiler with the headers of Python was found"
	$(call step,installing faster compression,$(PIP) install --quiet --only-binary :all: 'isal>=1.7$(comma)<2' 'zstandard[cffi]>=0.24$(comma)<0.26' || echo "without isal and zstandard: gzip takes half as long again$(comma) zstd a fifth")
	@touch $@

# The modules of the packages below are compiled when a program imports them: most never are.
$(VENV)/.check: pyproject.toml $(VENV)/.broker
	$(call step,installing the tools of make check,$(PIP) install --quiet --no-compile --editable '.[check]')
	@touch $@

$(VENV)/.check-broker: pyproject.toml $(VENV)/.broker
	$(call step,installing the clients and the other packages of the tests,$(PIP) install --quiet --no-compile --editable '.[test]')
	@touch $@ $(VENV)/.check

# What the tests need of the system, the headers of Kerberos among it: apt works while pip and Maven do.
$(VENV)/.system: tests/system_packages
	@mkdir -p $(VENV)
	@if tests/system_packages; then touch $@; else $(OPTIONAL); fi

# All that tests need but Kerberos: Spark, and the tools of pictures and of the site, too. uv downloads side by side. It installs
# the requirements alone: the kernel of the broker is compiled already. Where uv cannot, pip says why.
ALL_EXTRAS := test spark-pipelines benchmarks docs
$(VENV)/.packages: pyproject.toml $(VENV)/.broker
	$(call step,installing uv,$(PIP) install --quiet --no-compile 'uv>=0.9$(comma)<0.14' || true)
	$(call step,installing the clients$(comma) Spark and the tools of the tests,$(UV) $(UNPACKED_SPARK) --requirement pyproject.toml $(addprefix --extra ,$(ALL_EXTRAS)) || \
	  $(PIP) install --quiet --no-compile --editable '.[$(subst $(space),$(comma),$(ALL_EXTRAS))]')
	@touch $@ $(VENV)/.check $(VENV)/.check-broker

# The package of Kerberos is compiled against the system's headers.
$(VENV)/.installed: $(VENV)/.packages $(VENV)/.system
	$(call step,installing the package of Kerberos,$(UV) --requirement pyproject.toml --extra kerberos || $(PIP) install --quiet --no-compile --editable '.[kerberos]' || $(OPTIONAL))
	@touch $@

tools: archives spark-archive kept-tools ## the Java side, from Maven: Apache Kafka (the oracle), its clients and tools, Spark's connector; and kcat, KafkaJS, FastStream

# Runs of Maven are one after another where they may share plugins that are not there yet. `make -j` makes the rest at once.
jars: $(VENV)/.installed
	$(BIN)/python -m compat_tests.java.fetch || $(OPTIONAL)
	$(BIN)/python spark_examples/jars.py || $(OPTIONAL)

archives: jars
	$(BIN)/python -m compat_tests.java.archives || $(OPTIONAL)

# It takes as long as a dozen JVMs of Spark without it. But a session of Spark that needs more than ten seconds to start, on a
# machine with much other work, may never run a task.
spark-archive: jars
	$(BIN)/python -m spark_examples.tests.quick_jvm || $(OPTIONAL)

kept-tools: $(VENV)/.installed
	$(BIN)/python -m compat_tests.ecosystem.install --kept || $(OPTIONAL)

check: $(VENV)/.check ## style, layers, types, and the tests that start nothing
	./tests/check pure

check-broker: $(VENV)/.check-broker ## the same, and the tests with a broker in their own process
	./tests/check broker

test: ## what a change must hold: style, types, layers, unit, compatibility, Spark
	@$(MAKE) --no-print-directory --jobs 3 $(VENV)/.installed early-archives early-tools
	./tests/run

nightly: ## everything: before a release, and before a large change is done (docs/development/testing.md)
	@$(MAKE) --no-print-directory --jobs 3 $(VENV)/.installed early-archives early-tools
	./tests/run --nightly

# While pip installs, Maven downloads, which needs no package of Python; then JVMs make the archives of classes, which needs the
# broker's own packages. `make tools` tries again what fails here, and reports it.
early-jars:
	@$(PYTHON) -m compat_tests.java.fetch 2>/dev/null || true

early-archives: early-jars $(VENV)/.broker
	@$(BIN)/python -m compat_tests.java.archives 2>/dev/null || true

# While JVMs make archives, and Kerberos is compiled.
early-tools: early-jars $(VENV)/.packages
	@$(BIN)/python spark_examples/jars.py 2>/dev/null || true
	@$(BIN)/python -m compat_tests.ecosystem.install --kept 2>/dev/null || true

pythons: $(VENV)/.installed ## all tests that need no Java on every other CPython of this machine, or on VERSIONS="3.12 3.14t"
	$(BIN)/python -m tests.pythons --all $(if $(VERSIONS),--versions $(VERSIONS))

ecosystem: $(VENV)/.installed tools ## the tools around Kafka (700 MB): installs all, or TOOLS="flink camel", tests them, writes their rows
	$(BIN)/python -m compat_tests.ecosystem $(TOOLS)

own-suites: $(VENV)/.installed ## test suites that come with kafka-python, faust-streaming and testcontainers, against odradek.Broker
	$(BIN)/python -m compat_tests.ecosystem.own_suites

style: $(VENV)/.check
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

# What the site needs: the commands whose help it lists, and mkdocs.
$(VENV)/.docs: pyproject.toml $(VENV)/.broker
	@echo "installing mkdocs into $(VENV) ..."
	@$(PIP) install --quiet --editable '.[console,docs]'
	@touch $@

docs: $(VENV)/.docs ## the documentation as a site, in ./site
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

dist: $(VENV)/.installed ## wheel and sdist in ./dist, checked and tried in clean environments
	$(BIN)/python tests/release.py

clean:
	rm -rf $(VENV) .tools site dist build
