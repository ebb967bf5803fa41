# The short way in: `make demo` and `make test` do all the set-up themselves, on a fresh Debian 12
# too. CMake does the work; see CMakeLists.txt for its options.

# Where things are made. From a tree that cannot be written, name others: make BUILD=<dir> DEPS=<dir> ...
BUILD  ?= build
DEPS   ?= .deps
JOBS   ?= $(shell nproc)
# The NPU that the demo and the benchmarks run on: an emulated one, or with `make demo GGML_HSA_EMULATE=`
# the one in this machine.
GGML_HSA_EMULATE ?= aie2
FUZZ_SECONDS     ?= 30
SOAK_SECONDS     ?= 300
FUZZ             ?= # which: all, or some of them by name
# The language model of `make llama-test`: one that is there, or a tiny one of random numbers that is made.
TINY_MODEL        = $(BUILD)/tiny-model.gguf
MODEL            ?= $(firstword $(wildcard ../shared/models/stories260K.gguf) $(TINY_MODEL))
CMAKE_ARGS       ?=
PAGES            ?= README.md $(sort $(wildcard docs/*.md))
PREFIX           ?= /usr/local
# Looking for leaks costs each process seconds on 64-bit Arm; `make asan LEAKS=1` does it there too.
LEAKS            ?= $(if $(filter aarch64,$(shell uname -m)),0,1)

unexport GGML_HSA_EMULATE
EMULATE   = $(if $(GGML_HSA_EMULATE),GGML_HSA_EMULATE=$(GGML_HSA_EMULATE))
# Seeds alone take seconds: less of the optimiser, which takes minutes.
fuzz_flags = $(if $(filter 0,$(FUZZ_SECONDS)),-DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1")
step      = @sh cmake/step.sh "$(1)/log/$(2).txt" "$(1): $(2)"
# A build goes on with what it was begun with.
generator = $(if $(wildcard $(1)/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))
deps_dir  = $(if $(filter-out .deps,$(DEPS)),-DGGML_HSA_DEPS_DIR:PATH="$(DEPS)")
configure = $(call step,$(1),configure) cmake -S . -B "$(1)" $(generator) $(deps_dir) $(2) $(CMAKE_ARGS)
compile   = $(call step,$(1),compile) cmake --build "$(1)" --parallel $(JOBS)
ctest     = @ASAN_OPTIONS=detect_leaks=$(LEAKS) ctest --test-dir "$(1)" --output-on-failure --timeout 900 -j $(JOBS) $(2) \
            || { code=$$?; sh tests/make/skips.sh "$(1)"; exit $$code; }
# What was not tested, and why.
skips     = @sh tests/make/skips.sh $(1)

.PHONY: help setup build shell install uninstall dist deb demo test test-ops test-rocr test-rocr-quick test-hosts test-deb test-cross asan tsan soak fuzz fuzz-lines roundtrip bench bench-llm llama llama-test llama-cluster llama-model ops-docs docs man format format-check target-lines clean distclean
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install missing packages, get and build ggml (once)
	@sh cmake/writable.sh "$(BUILD)" "$(DEPS)"
	@sh cmake/packages.sh
	@sh cmake/ggml/get.sh "$(DEPS)"

build: setup ## compile everything
	$(call configure,$(BUILD))
	$(call compile,$(BUILD))

shell: build ## a shell with the tools of BUILD in PATH, as the pages name them
	@PATH="$(abspath $(BUILD)/bin):$$PATH" $${SHELL:-/bin/sh}

install: build ## install to PREFIX (and DESTDIR)
	$(call step,$(BUILD),install) cmake --install "$(BUILD)" --prefix "$(PREFIX)"

uninstall: ## remove what `make install` put there
	@sh cmake/uninstall.sh "$(BUILD)"

dist: ## the source as a tarball, with its version
	@sh cmake/dist.sh "$(BUILD)"

deb: ## Debian packages of it, in BUILD/deb (LINTIAN=0: not checked, and lintian not installed)
	@sh cmake/writable.sh "$(BUILD)" "$(DEPS)"
	@LINTIAN=$(LINTIAN) sh cmake/packages.sh deb
	@LINTIAN=$(LINTIAN) sh cmake/deb.sh "$(BUILD)/deb" "$(DEPS)"

demo: ## read 10,000 handwritten digits on the NPU and compare with the CPU
	@sh cmake/writable.sh "$(BUILD)" "$(DEPS)"
	@sh cmake/packages.sh
	@sh cmake/ggml/get.sh --libs "$(DEPS)"
	$(call configure,$(BUILD))
	$(call compile,$(BUILD)) --target mnist-eval
	@sh cmake/mnist.sh "$(DEPS)" test
	@$(EMULATE) GGML_BACKEND_PATH= "$(BUILD)/bin/mnist-eval" --html "$(BUILD)/mnist.html"

test: build ## all tests; the unit tests under ASan and UBSan as well
	@sh cmake/packages.sh gpu
	@sh cmake/mnist.sh "$(DEPS)" test || echo "-- tests that read digits are skipped"
	$(call configure,$(BUILD)-asan,-DGGML_HSA_SANITIZE=ON)
	$(call compile,$(BUILD)-asan)
	$(call ctest,$(BUILD)-asan,-LE 'ops|whole|scripts|again')
	$(call ctest,$(BUILD),-LE 'whole|hosts|rocr|deb|once')
	$(call skips,$(BUILD)-asan $(BUILD))

test-ops: build ## ggml's own comparison with the CPU, every case of every op
	$(call ctest,$(BUILD),-L whole -V)
	$(call skips,$(BUILD))

test-rocr: build ## AMD's own ROCr, from Debian, on a played NPU driver and emulated GPUs
	@sh cmake/packages.sh gpu
	@sh cmake/debian/get.sh "$(DEPS)" rocr || [ $$? = 77 ]
	$(call ctest,$(BUILD),-L rocr)
	$(call skips,$(BUILD))

test-rocr-quick: build ## the part of it that takes a minute
	@sh cmake/debian/get.sh "$(DEPS)" rocr || [ $$? = 77 ]
	$(call ctest,$(BUILD),-L rocr -LE long)
	$(call skips,$(BUILD))

test-hosts: build ## HIP, rocBLAS, rocminfo, AMD's tests, ggml, llama.cpp and whisper.cpp of newer Debian releases with what was built here (11 GB, once)
	@sh cmake/packages.sh hosts
	@sh cmake/debian/get.sh "$(DEPS)" rocr hip5 hip6 hip7 ggml whisper blas5 blas7 rand5 prim5 cub5 thrust5 fft6 || [ $$? = 77 ]
	@GGML_RELEASE=0.23.0 sh cmake/ggml/get.sh "$(DEPS)/ggml-0.23" || echo "-- the test with an older ggml is skipped"
	@MODEL="$(abspath $(MODEL))" ctest --test-dir "$(BUILD)" --output-on-failure -L hosts

test-deb: deb ## Debian's own llama.cpp, in a bare tree with the packages of `make deb`
	@sh cmake/debian/get.sh "$(DEPS)" ggml || [ $$? = 77 ]
	@sh tests/hosts/deb.sh "$(BUILD)/deb" "$(DEPS)/debian/ggml" "$(MODEL)" || [ $$? = 77 ]

asan: setup ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call configure,$(BUILD)-asan,-DGGML_HSA_SANITIZE=ON)
	$(call compile,$(BUILD)-asan)
	$(call ctest,$(BUILD)-asan,-LE 'ops|whole|scripts|again')
	$(call skips,$(BUILD)-asan)

test-cross: ## the quick unit tests as programs of the other one of amd64 and arm64, under qemu
	@sh cmake/packages.sh
	@JOBS=$(JOBS) sh tests/cross.sh "$(DEPS)" "$(BUILD)" $(CMAKE_ARGS) || [ $$? = 77 ]

tsan: setup ## the unit tests that have threads under ThreadSanitizer
	$(call configure,$(BUILD)-tsan,-DGGML_HSA_TSAN=ON)
	$(call compile,$(BUILD)-tsan)
	$(call ctest,$(BUILD)-tsan,-LE 'ops|whole|scripts|alone')
	$(call skips,$(BUILD)-tsan)

fuzz: setup ## each fuzzer for FUZZ_SECONDS, from seeds of its own; 0: the seeds alone
	@sh cmake/packages.sh fuzz
	$(call configure,$(BUILD)-fuzz,-DGGML_HSA_FUZZ=ON -DGGML_HSA_SANITIZE=ON -DCMAKE_C_COMPILER=clang $(fuzz_flags))
	$(call compile,$(BUILD)-fuzz) --target fuzzers
	@JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) sh tests/fuzz/run.sh "$(BUILD)-fuzz" $(FUZZ)

fuzz-lines: setup ## lines of our sources that the corpora of `make fuzz` reach
	$(call configure,$(BUILD)-lines,-DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=--coverage)
	$(call compile,$(BUILD)-lines) --target fuzzers
	@sh tests/fuzz/lines.sh "$(BUILD)-lines" "$(BUILD)-fuzz" $(FUZZ)

soak: build ## memory that runs out at every call; random graphs for SOAK_SECONDS while files are damaged, disks full, processes killed, forked and starved, packs hostile
	@sh cmake/packages.sh gpu
	@"$(BUILD)/bin/no-memory" list | xargs -P $(JOBS) -n 1 "$(BUILD)/bin/no-memory"
	@"$(BUILD)/bin/soak" $(SOAK_SECONDS)

roundtrip: build ## record a run, make its kernels ahead of time, run again without a compiler
	$(call ctest,$(BUILD),-R '^(build-packs-only|roundtrip)$$' -V)

bench: build ## the benchmarks
	@set -e; for b in "$(BUILD)"/bin/bench-*; do \
	    [ -x "$$b" ] || { echo "no benchmarks in $(BUILD)/bin"; exit 1; }; \
	    echo "-- $$b"; $(EMULATE) "$$b"; done

bench-llm: build ## what language models would take: three of them, four types of files, decode and prefill (hours; bench-llm MODEL TYPE CASE for one)
	@$(EMULATE) "$(BUILD)/bin/bench-llm" all

llama: setup ## build llama-completion and llama-quantize of stock llama.cpp (once, minutes)
	@JOBS=$(JOBS) sh cmake/llama/get.sh "$(DEPS)"

llama-test: llama-model llama ## stock llama.cpp writes with MODEL the same text on the NPU as on the CPU
	@GGML_HSA_EMULATE=$(GGML_HSA_EMULATE) sh tests/llama/compare.sh "$(DEPS)/llama/bin" "$(BUILD)/bin/libggml-hsa.so" "$(MODEL)"

llama-cluster: llama-model llama ## the same over two servers of ggml on this machine, each with an NPU of its own
	@GGML_HSA_EMULATE=$(GGML_HSA_EMULATE) sh tests/llama/cluster.sh "$(DEPS)/prefix/bin" "$(DEPS)/llama/bin" \
	    "$(BUILD)/bin/libggml-hsa.so" "$(BUILD)/bin/wire" "$(MODEL)" "$(BUILD)/bin/tiny-model"

llama-model: build
	@[ "$(MODEL)" != "$(TINY_MODEL)" ] || { echo "-- no model is at hand: a tiny one of random numbers does; MODEL=<file.gguf> names another"; \
	    "$(BUILD)/bin/tiny-model" "$(TINY_MODEL)"; }
	@[ -r "$(MODEL)" ] || { echo "no model '$(MODEL)': name a GGUF file of a language model, make llama-test MODEL=<file>," \
	    "or leave MODEL out to have a tiny one made"; exit 1; }

ops-docs: build ## write docs/ops.md and docs/ops.csv: which ops run where
	@sh cmake/ops-docs.sh "$(BUILD)" docs

docs: build ## run the commands of PAGES and write what they print, their tables and pictures (QUICK=1: those of seconds)
	@DOCS_DEPS="$(DEPS)" sh cmake/docs.sh $(if $(QUICK),short) "$(BUILD)" $(PAGES)

man: build ## write the manual pages, from the tools' own --help
	@sh cmake/man.sh "$(BUILD)/bin" man

format: ## clang-format over the sources
	@sh cmake/packages.sh format
	@sh cmake/format.sh

target-lines: ## lines that all NPU targets share, and those of each
	@sh cmake/target-lines.sh .

format-check: ## does it leave them as they are?
	@sh cmake/packages.sh format
	@sh cmake/format.sh check

clean: ## remove what was built here; ggml stays
	rm -rf "$(BUILD)" "$(BUILD)-asan" "$(BUILD)-tsan" "$(BUILD)-fuzz" "$(BUILD)-lines" "$(BUILD)-amd64" "$(BUILD)-arm64"

distclean: clean ## remove ggml as well
	rm -rf "$(DEPS)"
