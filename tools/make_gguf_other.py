#!/usr/bin/env python3
"""Writes tiny random models that are no transformers of decoders alone (Mamba, Mamba 2, RWKV 7, T5) as GGUF files of f32.

    make_gguf_other.py MODELS MORE OUT    e.g. "$LOCKSTEP_TEST_DATA/lm" tests/data/language/models "$LOCKSTEP_TEST_DATA/lm_gguf_other"

Names are those of the package's own table, values and metadata those of llama.cpp's converter: decays are stored as they
are used (A = -exp(A_log)), dimensions of one element are dropped or added, RWKV's shares are one tensor and its first
layer has a share of values that nothing uses. MORE is the folder with rwkv7. Needs: gguf 0.19.0, numpy, safetensors.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file


def write(folder, path, arch, layers, add_metadata, converted):
    config = json.loads((folder / "config.json").read_text())
    out = gguf.GGUFWriter(path, arch)
    add_metadata(out, config)
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(kind, config[layers])
    for name, w in converted(config, load_file(folder / "model.safetensors")):
        stored = name
        if not name.startswith("blk."):
            stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if stored is None:
                raise SystemExit(f"{folder.name}: no name for {name}")
        if arch == "rwkv7" and not stored.endswith((".weight", ".bias")):
            stored += ".weight"
        out.add_tensor(stored, np.ascontiguousarray(w, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def mamba_metadata(out, config):
    second = config["model_type"] == "mamba2"
    inner = config["num_heads"] * config["head_dim"] if second else config["intermediate_size"]
    out.add_context_length(2**20)
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(0)
    out.add_head_count(0)
    out.add_block_count(config["num_hidden_layers"])
    out.add_ssm_conv_kernel(config["conv_kernel"])
    out.add_ssm_inner_size(inner)
    out.add_ssm_state_size(config["state_size"])
    out.add_ssm_time_step_rank(config["num_heads"] if second else config["time_step_rank"])
    out.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    if second:
        out.add_ssm_group_count(config["n_groups"])
    else:
        out.add_ssm_dt_b_c_rms(False)


def mamba_tensors(config, tensors):
    second = config["model_type"] == "mamba2"
    for name, w in tensors.items():
        if name.endswith(".A_log"):
            w = -np.exp(w)
        if second and name.endswith((".A_log", ".D")):
            w = w.reshape(-1, 1)
        if second and name.endswith(".mixer.norm.weight"):
            w = w.reshape(config["n_groups"], -1)
        if name.endswith(".conv1d.weight"):
            w = w.squeeze(1)
        yield name.replace(".dt_bias", ".dt_proj.bias"), w


def rwkv_metadata(out, config):
    out.add_context_length(1048576)
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_layer_norm_eps(config["norm_eps"])
    out.add_wkv_head_size(config["head_dim"])
    out.add_decay_lora_rank(config["decay_low_rank_dim"])
    out.add_iclr_lora_rank(config["a_low_rank_dim"])
    out.add_value_residual_mix_lora_rank(config["v_low_rank_dim"])
    out.add_gate_lora_rank(config["gate_low_rank_dim"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(0)


def rwkv_tensors(config, tensors):
    for i in range(config["num_hidden_layers"]):
        shares = [tensors.pop(f"model.layers.{i}.attn.x_{letter}") for letter in "rwkvag"]
        yield f"blk.{i}.time_mix_lerp_fused.weight", np.stack(shares)
    for name, w in tensors.items():
        name = name.replace("attn", "attention").replace("ffn", "feed_forward")
        for end, number in (("0.weight", "1"), ("2.weight", "2"), ("2.bias", "0")):
            name = name.replace("_lora.lora." + end, f"{number}.weight")
        name = name.replace("feed_forward_norm", "ln2").replace("g_norm", "ln_x")
        if name.endswith("r_k"):
            w = w.flatten()
        if name.startswith("model.layers.0.attention.a") and name.endswith(("0.weight", "1.weight", "2.weight")):
            yield f"blk.0.time_mix_v{name[-8]}.weight", w
        yield name, w


def t5_metadata(out, config):
    out.add_context_length(config.get("n_positions", 512))
    out.add_embedding_length(config["d_model"])
    out.add_feed_forward_length(config["d_ff"])
    out.add_block_count(config["num_layers"])
    out.add_decoder_block_count(config["num_decoder_layers"])
    out.add_head_count(config["num_heads"])
    out.add_key_length(config["d_kv"])
    out.add_value_length(config["d_kv"])
    out.add_layer_norm_eps(config["layer_norm_epsilon"])
    out.add_relative_attn_buckets_count(config["relative_attention_num_buckets"])
    out.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    out.add_decoder_start_token_id(0)


def main():
    models, more, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    for name in ("mamba", "mamba2"):
        write(models / name, target / f"{name}.gguf", name, "num_hidden_layers", mamba_metadata, mamba_tensors)
    write(more / "rwkv7", target / "rwkv7.gguf", "rwkv7", "num_hidden_layers", rwkv_metadata, rwkv_tensors)
    for name in ("t5", "t5v11"):
        write(models / name, target / f"{name}.gguf", "t5", "num_layers", t5_metadata, lambda _, tensors: tensors.items())


if __name__ == "__main__":
    main()
