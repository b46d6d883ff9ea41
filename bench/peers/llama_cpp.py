#!/usr/bin/env python3
"""llama.cpp beside Lockstep: decoding and reading prompts with a model of Llama-3.2-1B's shape and random weights.

    llama_cpp.py make FOLDER           random-Q4_0.gguf, random-Q8_0.gguf, random-Q4_K_M.gguf (2.8 GB), random-BF16.gguf (2.5 GB)
    llama_cpp.py run FILE.gguf [N]     llama.cpp's tokens a second, CPU, two threads: a prompt of 128 tokens, then N
    llama_cpp.py compare LOCKSTEP FOLDER [ROUNDS]
                                       both, by turns (default: 3 rounds), two threads: medians as a Markdown table

Lockstep's rates of decoding are of `lockstep logits`: 66 tokens less 2 (exact: 18 less 2); of a prompt those of
`generate`, 384 tokens less 128, with the head of the last position alone, as llama.cpp has it. Needs: gguf, numpy; to run:
llama-cpp-python, built from source with GGML_NATIVE=ON (all of the processor's instructions, AMX among them), or else
xllamacpp, whose wheels have AVX2.
"""
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED, WORDS = 2048, 16, 32, 8, 8192, 128256


def blocks(kind, rows, columns, random):
    """Random codes, with scales that give elements of about 0.02; or such elements."""
    if kind.name == "BF16":
        made = random.integers(0, 1 << 16, (rows, columns), np.uint16) & 0x80ff | 0x3c00
        return made.view(np.uint8)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    made = random.integers(0, 256, (rows * columns // elements, size), np.uint8)
    name = kind.name
    size_of = {"Q8_0": 0.02 / 73, "Q4_0": 0.02 / 4.6, "Q4_K": 0.02 / 300, "Q6_K": 0.02 / 1500}[name]
    places = {"Q8_0": [0], "Q4_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}[name]
    for place in places:
        scale = np.float16(size_of if place != 2 else size_of * 7)
        made[:, place:place + 2] = np.frombuffer(scale.tobytes(), np.uint8)
    return made.reshape(rows, columns // elements * size)


def make(folder):
    q = gguf.GGMLQuantizationType
    for name in ("Q4_0", "Q8_0", "Q4_K_M", "BF16"):
        random = np.random.default_rng(1)
        writer = gguf.GGUFWriter(folder / f"random-{name}.gguf", "llama")
        writer.add_context_length(4096)
        writer.add_embedding_length(HIDDEN)
        writer.add_block_count(LAYERS)
        writer.add_feed_forward_length(FEED)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KV_HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(500000.0)
        writer.add_rope_dimension_count(HIDDEN // HEADS)
        writer.add_vocab_size(WORDS)
        writer.add_tokenizer_model("llama")
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
        kinds = [2, 3, 3] + [6] * 256
        tokens += [f"\u2581w{i}" for i in range(WORDS - len(tokens))]
        kinds += [1] * (WORDS - len(kinds))
        writer.add_token_list(tokens)
        writer.add_token_scores([-float(i) for i in range(WORDS)])
        writer.add_token_types(kinds)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)

        def add(key, rows, columns, kind):
            writer.add_tensor(key + ".weight", blocks(kind, rows, columns, random), raw_dtype=kind)

        base = q.Q4_K if name == "Q4_K_M" else q[name]
        more = q.Q6_K if name == "Q4_K_M" else base
        add("token_embd", WORDS, HIDDEN, more)
        writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
        for i in range(LAYERS):
            large = more if i < LAYERS // 8 or i >= 7 * LAYERS // 8 or (i - LAYERS // 8) % 3 == 2 else base
            add(f"blk.{i}.attn_q", HIDDEN, HIDDEN, base)
            add(f"blk.{i}.attn_k", HIDDEN // HEADS * KV_HEADS, HIDDEN, base)
            add(f"blk.{i}.attn_v", HIDDEN // HEADS * KV_HEADS, HIDDEN, large)
            add(f"blk.{i}.attn_output", HIDDEN, HIDDEN, base)
            add(f"blk.{i}.ffn_gate", FEED, HIDDEN, base)
            add(f"blk.{i}.ffn_up", FEED, HIDDEN, base)
            add(f"blk.{i}.ffn_down", HIDDEN, FEED, large)
            writer.add_tensor(f"blk.{i}.attn_norm.weight", np.ones(HIDDEN, np.float32))
            writer.add_tensor(f"blk.{i}.ffn_norm.weight", np.ones(HIDDEN, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def prompt_of_128():
    return [1] + [1000 + 7 * i + int(np.random.default_rng().integers(7)) for i in range(127)]


def report(path, prompt_rate, count, rate):
    print(f"{path}: prompt 128 tokens {prompt_rate:.1f}/s, decoding {count} tokens {rate:.1f}/s", flush=True)


def run_llama_cpp_python(llama_cpp, path, count):
    print(llama_cpp.llama_print_system_info().decode(), file=sys.stderr)
    model = llama_cpp.Llama(path, n_ctx=512, n_threads=2, n_threads_batch=2, verbose=False)
    for _ in range(3):  # the first one warms up
        model.reset()
        start = time.perf_counter()
        model.eval(prompt_of_128())
        middle = time.perf_counter()
        for i in range(count):
            model.eval([1000 + i])
        report(path, 128 / (middle - start), count, count / (time.perf_counter() - middle))


def run(path, count):
    sys.path.pop(0)  # where this file is, which has the module's name
    try:
        import llama_cpp
        return run_llama_cpp_python(llama_cpp, path, count)
    except ModuleNotFoundError:
        pass
    import xllamacpp
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx = 512
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 2
    parameters.cpuparams_batch.n_threads = 2
    parameters.warmup = True
    server = xllamacpp.Server(parameters)
    for _ in range(2):
        answer = server.handle_completions({"prompt": prompt_of_128(), "max_tokens": count, "temperature": 0,
                                            "ignore_eos": True, "cache_prompt": False})
        if isinstance(answer, str):
            answer = json.loads(answer)
        timings = answer["timings"]
        report(path, timings["prompt_per_second"], timings["predicted_n"], timings["predicted_per_second"])


def seconds_of(lockstep, *arguments):
    start = time.perf_counter()
    subprocess.run([lockstep, *arguments, "--device", "cpu", "--json"], stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, "LOCKSTEP_NUM_THREADS": "2"})
    return time.perf_counter() - start


def decoding_rate(lockstep, model, more, less, *options):
    """Tokens a second, by the time that `more` tokens take beyond that of `less`."""
    def seconds(count):
        tokens = ",".join(str(1000 + i) for i in range(count))
        return seconds_of(lockstep, "logits", "--model", model, "--tokens", tokens, "--cache", "step", *options)

    short = seconds(less)
    return (more - less) / (seconds(more) - short)


def prompt_rate(lockstep, model):
    """Likewise: of a letter that the vocabulary lacks, each is a token."""
    def seconds(count):
        return seconds_of(lockstep, "generate", "--model", model, "--max-tokens", "1", "x" * count)

    short = seconds(128)
    return 256 / (seconds(384) - short)


def llama_rates(model):
    """Of the prompt and of decoding, of the second of two answers."""
    printed = subprocess.run([sys.executable, __file__, "run", model], stdout=subprocess.PIPE, text=True, check=True,
                             stderr=subprocess.DEVNULL).stdout.splitlines()[-1]
    return [float(part.split("/s")[0].split()[-1]) for part in printed.split(", ")]


def compare(lockstep, folder, rounds):
    print("| weights | prompt, llama.cpp | ours | ratio | decoding, llama.cpp | ours | ratio | exact decoding | ratio |")
    print("|---" + "|---:" * 8 + "|")
    for name in ("Q4_0", "Q8_0", "Q4_K_M"):
        model, rates = str(folder / f"random-{name}.gguf"), []
        for _ in range(rounds):
            rates.append((*llama_rates(model), prompt_rate(lockstep, model),
                          decoding_rate(lockstep, model, 66, 2),
                          decoding_rate(lockstep, model, 18, 2, "--numerics", "exact")))
            print(f"{name}: {' '.join(f'{rate:.1f}' for rate in rates[-1])}", file=sys.stderr)
        their_prompt, their_decoding, prompt, decoding, exact = (statistics.median(column) for column in zip(*rates))
        print(f"| {name} | {their_prompt:.1f} | {prompt:.1f} | {prompt / their_prompt:.2f} | {their_decoding:.1f} | "
              f"{decoding:.1f} | {decoding / their_decoding:.2f} | {exact:.1f} | {exact / their_decoding:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "compare":
        compare(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 3)
    elif len(sys.argv) > 2 and sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    elif len(sys.argv) > 2 and sys.argv[1] == "run":
        run(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 32)
    else:
        sys.exit(__doc__)
