# The commands of this repository. A fresh Debian or Ubuntu machine needs only `make demo` and `make test`.
.DEFAULT_GOAL := help
SHELL := bash
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
export JOBS

export FUZZ_SECONDS ?= 5
SOAK_SECONDS ?= 3600

release = cmake --preset release $(quiet) && cmake --build --preset release -j $(JOBS)
quiet = >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

.PHONY: demo test build bench bench-check docs soak exhaustive format tidy clean help

demo: ## build and run the demonstration
	@scripts/setup build
	@mkdir -p build
	@$(release) --target lockstep_cli lockstep
	build/release/bin/lockstep demo

test: ## all tests: unit, sanitizers, fuzzing (see scripts/test)
	@scripts/setup build test
	@scripts/test

build: ## the release build, in build/release
	@scripts/setup build
	@mkdir -p build
	@$(release)

bench: ## build and run the benchmarks
	@scripts/setup build bench
	@mkdir -p build
	@$(release) --target benchmarks
	@shopt -s nullglob; for b in build/release/bin/bench/*; do echo "== $$b"; $$b || exit 1; done

bench-check: ## count the instructions of fixed work against bench/instructions.txt
	@scripts/setup build bench
	@mkdir -p build
	@$(release) --target fixed_work
	@scripts/bench_check

docs: ## the API reference as HTML, in build/docs
	@scripts/setup docs
	@scripts/make_docs

soak: build ## every test of devices in software, every CUDA text, training on every number of ranks, long forms of tests, SOAK_SECONDS (3600) of fuzzing for each target
	@scripts/setup build test
	@build/release/bin/lockstep_cli_tests --gtest_filter='CudaTexts.*' --gtest_also_run_disabled_tests
	@build/release/bin/lockstep_train_tests --gtest_filter='FitOnRanks.*' --gtest_also_run_disabled_tests
	@FUZZ_SECONDS=$(SOAK_SECONDS) GRAPH_FUZZ_SECONDS=$(SOAK_SECONDS) scripts/test unit_long vulkan_full metal_full sanitize_long fuzz

exhaustive: build ## the tests over every input of a function (hours of one core)
	@for t in build/release/bin/lockstep_*_tests; do \
	  "$$t" --gtest_filter='*Exhaustive*' --gtest_list_tests | grep -q '^  ' || continue; \
	  "$$t" --gtest_filter='*Exhaustive*' --gtest_also_run_disabled_tests || exit 1; \
	done

format: ## clang-format every source in place
	@scripts/setup style
	git ls-files '*.h' '*.cpp' | xargs clang-format -i

tidy: ## clang-tidy the library
	@scripts/setup style test
	@cmake --preset fuzz >/dev/null
	run-clang-tidy -quiet -j $(JOBS) -p build/fuzz '/src/.*\.cpp$$'

clean: ## remove every build
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20
