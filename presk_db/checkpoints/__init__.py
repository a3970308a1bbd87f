"""From files on disk (config.json, safetensors, GGUF) to the exact values of a model's parameters."""
