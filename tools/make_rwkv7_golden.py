#!/usr/bin/env python3
"""Writes the tiny random RWKV 7 of tests/data/language/models: config.json and model.safetensors as published folders
have them (flash-linear-attention's names), and golden.safetensors with ids (40 tokens) and logits in f32 and f64.

    make_rwkv7_golden.py tests/data/language/models/rwkv7

transformers has no RWKV 7, and flash-linear-attention needs a GPU. So the logits are numpy's, by the formulas of the
paper (Peng et al., 2025, arXiv 2503.14456), and before they are written the same function is held, on a wider model,
against the package `rwkv` of RWKV's author, which computes in f32 and with a decay of six digits.
Needs: numpy, safetensors, torch, rwkv 0.8.32.
"""
import json
import os
import pathlib
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file

SHARES = "rwkvag"


def random_model(vocabulary, hidden, heads, inner, rank, layers, seed):
    random = np.random.default_rng(seed)
    w = {}

    def add(name, *shape, around=0.0, spread=0.2):
        w[name] = (around + spread * random.standard_normal(shape)).astype(np.float32)

    def add_norm(name):
        add(name + ".weight", hidden, around=1, spread=0.1)
        add(name + ".bias", hidden, spread=0.1)

    add("model.embeddings.weight", vocabulary, hidden)
    for i in range(layers):
        layer = f"model.layers.{i}."
        for name in ["pre_norm"] * (i == 0) + ["attn_norm", "ffn_norm", "attn.g_norm"]:
            add_norm(layer + name)
        for letter in SHARES:
            add(f"{layer}attn.x_{letter}", 1, 1, hidden, around=0.5)
        add(layer + "attn.k_k", hidden, around=0.7)
        add(layer + "attn.k_a", hidden, around=1)
        add(layer + "attn.r_k", heads, hidden // heads)
        for letter in "rkvo":
            add(f"{layer}attn.{letter}_proj.weight", hidden, hidden)
        for letter in "wag" + "v" * (i > 0):
            add(f"{layer}attn.{letter}_lora.lora.0.weight", rank, hidden)
            add(f"{layer}attn.{letter}_lora.lora.2.weight", hidden, rank)
            if letter != "g":
                add(f"{layer}attn.{letter}_lora.lora.2.bias", hidden, spread=1)
        add(layer + "ffn.x_k", hidden, around=0.5)
        add(layer + "ffn.key.weight", inner, hidden)
        add(layer + "ffn.value.weight", hidden, inner)
    add_norm("model.norm")
    add("lm_head.weight", vocabulary, hidden)
    return w


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(weights, heads, eps, ids, dtype):
    """Logits [L, vocabulary], token by token, in numbers of `dtype`."""
    w = {name: value.astype(dtype) for name, value in weights.items()}
    layers = 1 + max(int(name.split(".")[2]) for name in w if name.startswith("model.layers."))

    def norm(x, name, eps=eps):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + dtype(eps))
        return x.reshape(-1) * w[name + ".weight"] + w[name + ".bias"]

    hidden = w["model.norm.weight"].size
    last = {}
    states = [np.zeros((heads, hidden // heads, hidden // heads), dtype) for _ in range(layers)]  # [value, key]
    logits = []
    for token in ids:
        x = norm(w["model.embeddings.weight"][token], "model.layers.0.pre_norm")
        for i in range(layers):
            layer = f"model.layers.{i}."

            def low_rank(letter, x, between=lambda x: x):
                name = f"{layer}attn.{letter}_lora.lora."
                return w[name + "2.weight"] @ between(w[name + "0.weight"] @ x) + w.get(name + "2.bias", dtype(0))

            def project(name, x):
                return w[layer + name + ".weight"] @ x

            y = norm(x, layer + "attn_norm")
            before = last.get((i, "attn"), np.zeros_like(y))
            last[i, "attn"] = y
            of = {c: y + (before - y) * w[f"{layer}attn.x_{c}"].reshape(-1) for c in SHARES}
            r, k, v = (project(f"attn.{c}_proj", of[c]) for c in "rkv")
            decay = np.exp(-np.exp(dtype(-0.5)) * sigmoid(low_rank("w", of["w"], np.tanh)))
            a = sigmoid(low_rank("a", of["a"]))
            gate = low_rank("g", of["g"], sigmoid)
            if i == 0:
                first = v
            else:
                v = v + (first - v) * sigmoid(low_rank("v", of["v"]))
            removal = (k * w[layer + "attn.k_k"]).reshape(heads, -1)
            removal = removal / np.maximum(np.sqrt((removal * removal).sum(-1, keepdims=True)), dtype(1e-12))
            k = k * (1 + (a - 1) * w[layer + "attn.k_a"])
            r, k, v, decay, a = (z.reshape(heads, -1) for z in (r, k, v, decay, a))
            out = np.empty_like(v)
            for h in range(heads):
                change = np.diag(decay[h]) - np.outer(removal[h], removal[h] * a[h])
                states[i][h] = states[i][h] @ change + np.outer(v[h], k[h])
                out[h] = states[i][h] @ r[h]
            out = norm(out, layer + "attn.g_norm", eps * (hidden // heads))
            out = out + ((r * k * w[layer + "attn.r_k"]).sum(-1, keepdims=True) * v).reshape(-1)
            x = x + project("attn.o_proj", out * gate)
            y = norm(x, layer + "ffn_norm")
            before = last.get((i, "ffn"), np.zeros_like(y))
            last[i, "ffn"] = y
            wide = np.maximum(project("ffn.key", y + (before - y) * w[layer + "ffn.x_k"]), 0)
            x = x + project("ffn.value", wide * wide)
        logits.append(w["lm_head.weight"] @ norm(x, "model.norm"))
    return np.stack(logits)


def original_names(weights):
    """As RWKV's own files have them: the two matrices of low rank [in, out]."""
    result = {}
    for name, value in weights.items():
        name = name.replace("model.layers.", "blocks.").replace("model.embeddings", "emb").replace("lm_head", "head")
        name = name.replace("model.norm", "ln_out").replace("pre_norm", "ln0").replace("attn.g_norm", "att.ln_x")
        name = name.replace("attn_norm", "ln1").replace("ffn_norm", "ln2").replace(".attn.", ".att.")
        for letter, whole in (("r", "receptance"), ("k", "key"), ("v", "value"), ("o", "output")):
            name = name.replace(f"att.{letter}_proj", "att." + whole)
        for end, number in (("0.weight", "1"), ("2.weight", "2"), ("2.bias", "0")):
            if "_lora.lora." + end in name:
                name = name.replace("_lora.lora." + end, number)
                value = value.T
        result[name] = value
    return result


def check_reference():
    heads, ids = 2, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    weights = random_model(vocabulary=32, hidden=128, heads=heads, inner=160, rank=16, layers=3, seed=7)
    ours = reference(weights, heads, 1e-5, ids, np.float64)
    os.environ.update(RWKV_V7_ON="1", RWKV_JIT_ON="0", RWKV_CUDA_ON="0")
    import torch
    from rwkv.model import RWKV
    with tempfile.TemporaryDirectory() as folder:
        tensors = {name: torch.from_numpy(value.copy()) for name, value in original_names(weights).items()}
        torch.save(tensors, folder + "/model.pth")
        theirs, _ = RWKV(model=folder + "/model", strategy="cpu fp32").forward(ids, None, full_output=True)
    difference = np.abs(theirs.numpy() - ours).max() / np.abs(ours).max()
    print(f"numpy and the package rwkv differ by {difference:.1e} of the largest logit")
    if difference > 2e-5:
        raise SystemExit("that is too much")


def main():
    target = pathlib.Path(sys.argv[1])
    check_reference()
    heads, eps = 2, 1e-5
    weights = random_model(vocabulary=64, hidden=32, heads=heads, inner=48, rank=4, layers=3, seed=0)
    ids = np.random.default_rng(1).integers(3, 64, (1, 40))
    golden = {"ids": ids.astype(np.int64)}
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        golden[name] = reference(weights, heads, eps, ids[0], dtype)[None]
        assert golden[name].dtype == dtype
    print(f"f32 differs from f64 by {np.abs(golden['f32'] - golden['f64']).max():.1e}")
    config = dict(architectures=["RWKV7ForCausalLM"], model_type="rwkv7", vocab_size=64, hidden_size=32, head_dim=16,
                  num_heads=2, num_hidden_layers=3, intermediate_size=48, hidden_ratio=None, hidden_act="sqrelu",
                  decay_low_rank_dim=4, a_low_rank_dim=4, v_low_rank_dim=4, gate_low_rank_dim=4, attn=None,
                  attn_mode="chunk", norm_eps=eps, norm_bias=True, norm_first=True, tie_word_embeddings=False)
    target.mkdir(parents=True, exist_ok=True)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(weights, target / "model.safetensors")
    save_file(golden, target / "golden.safetensors")


if __name__ == "__main__":
    main()
