# The front door. Two commands do everything on a fresh Debian machine with Node 20, g++, make and pip:
#   make run     builds, fetches the default model and serves it on 127.0.0.1:8080
#   make test    builds and runs every test; ends with "N passed, N failed, N skipped"
# A second run of either takes seconds: each step is skipped when what it makes is newer than what it is made from.

MODEL ?= smollm2
PORT ?= 8080
BUILD ?= build
MINUTES ?= 30
# Of make install and make uninstall; packagers set DESTDIR.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=

PACKAGES = cmake ninja-build protobuf-compiler libprotobuf-dev libcli11-dev nlohmann-json3-dev libxxhash-dev doctest-dev
TEST_PACKAGES = clang-format systemd
RUNNEL = node gateway/runnel.js

# NVIDIA's compiler, for tests: the system's, or one that is fetched.
CUDA_TOOLKIT = $(BUILD)/cuda-toolkit
CUDA_WHEELS = nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
CUDA_TOOLKIT_NVCC = $(CUDA_TOOLKIT)/nvidia/cu13/bin/nvcc
SYSTEM_NVCC := $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
NVCC ?= $(or $(SYSTEM_NVCC),$(CUDA_TOOLKIT_NVCC))

.PHONY: run test check soak bench build binaries install uninstall model format clean cuda-runner cuda-toolkit
.DEFAULT_GOAL := build
# A step that was interrupted leaves nothing that looks finished.
.DELETE_ON_ERROR:

run: build model
	@$(RUNNEL) serve --model $(MODEL) --port $(PORT) --log-level warn

build: binaries node_modules/.stamp gateway/runner/proto/runner.js

binaries: $(BUILD)/build.ninja
	@ninja -C $(BUILD) cpu-runner sd-notify

# For machines with a GPU, and by hand: nothing else needs it.
cuda-runner: $(BUILD)/build.ninja $(NVCC)
	@cmake -S . -B $(BUILD) -DRUNNEL_NVCC=$(abspath $(NVCC)) >$(BUILD)/cmake.log || { cat $(BUILD)/cmake.log; exit 1; }
	@ninja -C $(BUILD) cuda-runner

install: build
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' BUILD='$(BUILD)' deploy/install.sh install

uninstall:
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' deploy/install.sh uninstall

test: build model $(BUILD)/.test-packages $(NVCC)
	@cmake -S . -B $(BUILD) -DRUNNEL_NVCC=$(abspath $(NVCC)) >$(BUILD)/cmake.log || { cat $(BUILD)/cmake.log; exit 1; }
	@ninja -C $(BUILD)
	@node --import tsx test/run.ts --build $(BUILD)

# The gates of test/gates.ts at full length, and the C++ tests under the sanitizers: half an hour on two cores.
check: build model $(BUILD)/.test-packages
	@cmake -S . -B $(BUILD)/sanitize -G Ninja -DRUNNEL_SANITIZE=ON >/dev/null
	@cmake -S . -B $(BUILD)/threads -G Ninja -DRUNNEL_SANITIZE=thread >/dev/null
	@ninja -C $(BUILD)/sanitize runner-tests cpu-runner-tests cuda-runner-tests exactness fuzz-gguf fuzz-commands fuzz-events
	@ninja -C $(BUILD)/threads thread-tests
	@ninja -C $(BUILD) exactness fuzz-events cpu-runner-faulty
	@node --import tsx test/run.ts --build $(BUILD) --check

# By hand: half an hour of clients, cancels and kills, and whether anything grows; then two million hostile model files.
# MINUTES=120 make soak
soak: build model
	@node --import tsx test/soak/soak.ts --minutes $(MINUTES) --out $(BUILD)
	@cmake -S . -B $(BUILD)/sanitize -G Ninja -DRUNNEL_SANITIZE=ON >/dev/null
	@ninja -C $(BUILD)/sanitize fuzz-gguf
	@$(BUILD)/sanitize/fuzz-gguf --units 2000000

bench: build model
	@model="$$($(RUNNEL) pull $(MODEL))" && \
	$(BUILD)/cpu-runner bench --model "$$model" --prompt 512 --generate 128 --batch 1,2,4,8,16,32 && \
	$(BUILD)/cpu-runner bench --model "$$model" --long-prompt 4000 --streams 8 && \
	$(BUILD)/cpu-runner bench --model "$$model" --workload --fraction 0.1 --warmup 0 --iters 2

model: node_modules/.stamp
	@case "$(MODEL)" in *.gguf|*/*) ;; *) $(RUNNEL) pull $(MODEL) >/dev/null ;; esac

format: node_modules/.stamp
	@npx biome check --write
	@git ls-files '*.cc' '*.cu' '*.h' | xargs clang-format -i

clean:
	rm -rf $(BUILD) node_modules gateway/runner/proto

cuda-toolkit: $(CUDA_TOOLKIT_NVCC)

# The folder gets its name when it is whole. nvcc looks for libraries in lib64, linkers for one without a version.
$(CUDA_TOOLKIT_NVCC):
	@echo "Fetching NVIDIA's CUDA compiler 13.0 from PyPI (104 MB, under NVIDIA's licence) into $(CUDA_TOOLKIT)"
	@rm -rf $(CUDA_TOOLKIT) $(CUDA_TOOLKIT).part
	@python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target $(CUDA_TOOLKIT).part $(CUDA_WHEELS)
	@ln -s lib $(CUDA_TOOLKIT).part/nvidia/cu13/lib64
	@ln -s libcudart.so.13 $(CUDA_TOOLKIT).part/nvidia/cu13/lib/libcudart.so
	@mv $(CUDA_TOOLKIT).part $(CUDA_TOOLKIT)
	@touch $@

$(BUILD)/build.ninja: $(BUILD)/.packages CMakeLists.txt
	@cmake -S . -B $(BUILD) -G Ninja >$(BUILD)/cmake.log || { cat $(BUILD)/cmake.log; exit 1; }

node_modules/.stamp: package-lock.json
	@echo "Installing the gateway's packages"
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $@

gateway/runner/proto/runner.js: proto/runner.proto node_modules/.stamp
	@npm run --silent proto

# $(1): packages. Installs those that are missing when it may, else says how.
define require_packages
	@mkdir -p $(BUILD)
	@missing=$$(for p in $(1); do dpkg-query -W -f='$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || echo $$p; done | xargs); \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then \
	    echo "Installing $$missing"; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; } >$(BUILD)/apt.log 2>&1 \
	      || { cat $(BUILD)/apt.log; exit 1; }; \
	  else \
	    echo "These packages are missing; paste this line and run make again:"; \
	    echo "  sudo apt-get install -y --no-install-recommends $$missing"; exit 1; \
	  fi; \
	fi
	@touch $@
endef

$(BUILD)/.packages: Makefile
	$(call require_packages,$(PACKAGES))

$(BUILD)/.test-packages: Makefile
	$(call require_packages,$(TEST_PACKAGES))
