#!/bin/sh
# demo.sh PRESK FOLDER: records the course GPT, emits it as C, builds it, and compares every byte.
set -eu
presk=$1 folder=$2
mkdir -p "$folder"
rm -f "$folder/presk.db"
echo "1. Record the course GPT (6 layers, 384 wide, 256 positions; weights from seed 1) natively, into SQLite."
"$presk" record fixtures/course_gpt/config.json --dim B=1 --dim T=256 --name course-gpt --db "$folder/presk.db"
echo
echo "2. Emit it as C from the database alone, and build it."
"$presk" emit course-gpt -o "$folder/course-gpt" --db "$folder/presk.db"
make -s -C "$folder/course-gpt"
echo
echo "3. Run the C program and compare its output with the native run's, byte for byte."
(
    cd "$folder/course-gpt"
    ./main -w weights.safetensors -i conformance/inputs.safetensors -o outputs.safetensors
    cmp outputs.safetensors conformance/outputs.safetensors
    echo "equal: $(wc -c <outputs.safetensors) bytes"
)
echo
echo "Database: $folder/presk.db    C program: $folder/course-gpt (read model.c and kernels.c)"
