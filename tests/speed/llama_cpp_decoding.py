"""llama.cpp's decoding of a GGUF file: `python llama_cpp_decoding.py THREADS TOKENS GGUF` prints tokens a second.

Without arguments it only imports llama_cpp. The likeliest token after each, after a prompt of one token, which is not
timed; this file imports nothing of presk.
"""

import sys
import time

from llama_cpp import Llama


def main() -> None:
    """Prints the rate."""
    if len(sys.argv) == 1:
        return
    threads, tokens = int(sys.argv[1]), int(sys.argv[2])
    model = Llama(sys.argv[3], n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    model.eval([1])
    start = time.perf_counter()
    for _ in range(tokens):
        model.eval([model.sample(temp=0.0, top_k=1, repeat_penalty=1.0)])
    print(f"{tokens / (time.perf_counter() - start):.2f}")


if __name__ == "__main__":
    main()
