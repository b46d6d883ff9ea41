#!/usr/bin/env python3
"""Writes the tiny random models of a folder (config.json and model.safetensors each) as GGUF files of f32.

    make_gguf_models.py MODELS [MORE] OUT    e.g. "$LOCKSTEP_TEST_DATA/lm" tests/data/language/models "$LOCKSTEP_TEST_DATA/lm_gguf"

Names of tensors are those of the package's own table; what is done to values is what llama.cpp's converter does: the
one of Gemma's norms is added, Llama's queries and keys are ordered for pairs of neighbours, GPT-2's weights are
transposed, experts stacked (gpt-oss' gates and values taken apart), GPT-NeoX' queries put before its keys, and factors
made of llama3's scaled frequencies. llama.gguf is also written in three files. MORE is a folder with further models,
of which phi3_longrope is written. Needs: gguf 0.19.0, numpy, safetensors.
"""
import json
import math
import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

# Folder: architecture.
MODELS = {"bert": "bert", "cohere": "command-r", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2", "falcon": "falcon", "gemma": "gemma", "gemma2": "gemma2",
          "gemma3": "gemma3", "glm4": "glm4", "gpt2": "gpt2", "gpt_oss": "gpt-oss", "gptneox": "gptneox",
          "granite": "granite", "lfm2": "lfm2", "llama": "llama", "llama3rope": "llama", "mixtral": "llama", "modernbert": "modern-bert", "nomic_bert": "nomic-bert",
          "olmo": "olmo", "olmo2": "olmo2", "phi": "phi2", "phi3": "phi3", "qwen2": "qwen2", "qwen3": "qwen3",
          "qwen3_moe": "qwen3moe", "smollm3": "smollm3", "stablelm": "stablelm", "starcoder2": "starcoder2"}
# Queries and keys are stored for pairs of neighbours.
PAIRED = ("llama", "granite", "olmo", "smollm3")


def for_neighbours(w, heads):
    """Rows of halves (0..d/2, d/2..d) become rows of pairs."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def llama3_factors(rope, dims):
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    old, factor, factors = rope["original_max_position_embeddings"], rope["factor"], []
    for frequency in 1.0 / rope["rope_theta"] ** (np.arange(0, dims, 2, dtype=np.float64) / dims):
        length = 2 * math.pi / frequency
        if length < old / high:
            factors.append(1)
        elif length > old / low:
            factors.append(factor)
        else:
            smooth = (old / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def write_metadata(out, config, arch):
    def of(*keys, usual=None):
        return next((config[k] for k in keys if config.get(k) is not None), usual)

    hidden, heads = of("hidden_size", "n_embd"), of("num_attention_heads", "n_head")
    head = of("head_dim", usual=hidden // heads)
    rope = of("rope_parameters", usual={})
    if "full_attention" in rope:
        out.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    out.add_context_length(of("max_position_embeddings", "n_positions", usual=2048))
    out.add_embedding_length(hidden)
    out.add_block_count(of("num_hidden_layers", "n_layer"))
    wide = of("intermediate_size", "ffn_hidden_size", "n_inner", usual=4 * hidden)
    if arch == "lfm2":
        step = config["block_multiple_of"]
        wide = (int(config["block_ffn_dim_multiplier"] * int(2 * wide / 3)) + step - 1) // step * step
    out.add_feed_forward_length(wide)
    out.add_head_count(heads)
    keys = 1 if of("multi_query") else of("num_key_value_heads", usual=heads)
    if arch == "lfm2":
        keys = [0 if kind == "conv" else keys for kind in config["layer_types"]]
        out.add_shortconv_l_cache(config["conv_L_cache"])
    out.add_head_count_kv(1 if arch == "deepseek2" else keys)
    if arch == "deepseek2":
        head = write_latent(out, config)
    elif of("head_dim"):
        out.add_key_length(head)
        out.add_value_length(head)
    if of("rms_norm_eps", "norm_eps") and arch != "modern-bert":
        out.add_layer_norm_rms_eps(of("rms_norm_eps", "norm_eps"))
    else:
        out.add_layer_norm_eps(of("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", usual=1e-5))
    if rope:
        out.add_rope_freq_base(rope["rope_theta"])
        out.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1)))
    if (arch.startswith("gemma") or arch == "gpt-oss") and of("sliding_window"):
        out.add_sliding_window(config["sliding_window"])
    if arch == "modern-bert":
        out.add_sliding_window(config["local_attention"])
        out.add_sliding_window_pattern(config.get("global_attn_every_n_layers", 3))
    for key, add in (("attn_logit_softcapping", out.add_attn_logit_softcapping),
                     ("final_logit_softcapping", out.add_final_logit_softcapping),
                     ("num_local_experts", out.add_expert_count), ("n_routed_experts", out.add_expert_count),
                     ("first_k_dense_replace", out.add_leading_dense_block_count),
                     ("n_shared_experts", out.add_expert_shared_count),
                     ("routed_scaling_factor", out.add_expert_weights_scale), ("n_group", out.add_expert_group_count),
                     ("topk_group", out.add_expert_group_used_count), ("num_experts_per_tok", out.add_expert_used_count),
                     ("moe_intermediate_size", out.add_expert_feed_forward_length),
                     ("norm_topk_prob", out.add_expert_weights_norm),
                     ("use_parallel_residual", out.add_parallel_residual), ("logit_scale", out.add_logit_scale),
                     ("logits_scaling", out.add_logit_scale), ("attention_multiplier", out.add_attention_scale),
                     ("embedding_multiplier", out.add_embedding_scale),
                     ("residual_multiplier", out.add_residual_scale)):
        if config.get(key) is not None:
            add(config[key])
    if arch.endswith("bert"):
        out.add_causal_attention(False)
        if of("type_vocab_size"):
            out.add_token_type_count(config["type_vocab_size"])
    if arch == "gpt-oss":
        out.add_expert_feed_forward_length(config["intermediate_size"])
    if rope.get("rope_type") == "yarn":
        out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        out.add_rope_scaling_factor(rope["factor"])
        out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if rope.get("mscale_all_dim"):
            out.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    if rope.get("rope_type") == "longrope":
        old = rope.get("original_max_position_embeddings") or config["original_max_position_embeddings"]
        out.add_rope_scaling_orig_ctx_len(old)
        for length in ("long", "short"):
            out.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))
    if rope.get("rope_type") == "llama3":
        out.add_tensor("rope_freqs.weight", llama3_factors(rope, head))


def write_latent(out, config):
    """Sizes of DeepSeek's attention: as it is computed with latent keys, and those of heads. Gives what is rotated."""
    rank, rotated = config["kv_lora_rank"], config["qk_rope_head_dim"]
    if config["q_lora_rank"]:
        out.add_q_lora_rank(config["q_lora_rank"])
    out.add_kv_lora_rank(rank)
    out.add_key_length(rank + rotated)
    out.add_value_length(rank)
    out.add_key_length_mla(config["qk_nope_head_dim"] + rotated)
    out.add_value_length_mla(config["v_head_dim"])
    sigmoid = config["model_type"] == "deepseek_v3"
    out.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    return rotated


def converted(config, tensors, arch):
    """Yields the published name and the stored values; of experts the name of the stack."""
    stacks = {}
    for name, w in tensors.items():
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            w = w + np.float32(1)
        if arch in PAIRED and ".q_proj." in name:
            w = for_neighbours(w, config["num_attention_heads"])
        if arch in PAIRED and ".k_proj." in name:
            w = for_neighbours(w, config["num_key_value_heads"])
        if arch == "gpt2" and w.ndim == 2 and ".h." in name:
            w = w.T
        if arch in ("gptneox", "falcon") and ".query_key_value." in name:
            heads = config["num_attention_heads"]
            kv = 1 if config.get("multi_query") else heads
            groups = w.reshape(kv, heads // kv + 2, config["hidden_size"] // heads, *w.shape[1:])
            w = np.concatenate([part.reshape(-1, *w.shape[1:]) for part in (groups[:, :-2], groups[:, -2], groups[:, -1])])
        if name.endswith(".conv.conv.weight"):
            w = w.squeeze(1)
        if name.endswith("e_score_correction_bias"):
            name = name.replace("_bias", ".bias")
        if ".kv_b_proj." in name:
            both = w.reshape(config["num_key_value_heads"], -1, w.shape[1])
            plain = config["qk_nope_head_dim"]
            yield name.replace("kv_b", "k_b"), both[:, :plain].swapaxes(1, 2)
            yield name.replace("kv_b", "v_b"), both[:, plain:]
            continue
        if arch == "gpt-oss" and ".experts." in name:
            yield from gpt_oss_experts(name, w)
            continue
        if ".experts." in name:
            start, rest = name.split(".experts.")
            number, end = rest.split(".", 1)
            stacks.setdefault(f"{start}.experts.{end}", {})[int(number)] = w
        else:
            yield name, w
    for name, parts in stacks.items():
        yield name, np.stack([parts[i] for i in sorted(parts)])


def gpt_oss_experts(name, w):
    """Matrices [E, in, out] become [E, out, in]; gates and values stand in turns."""
    start, kind = name.split(".experts.")
    ending = ".bias" if kind.endswith("_bias") else ".weight"
    if w.ndim == 3:
        w = w.swapaxes(1, 2)
    if kind.startswith("gate_up"):
        yield f"{start}.experts.gate_proj{ending}", w[:, ::2]
        yield f"{start}.experts.up_proj{ending}", w[:, 1::2]
    else:
        yield f"{start}.experts.down_proj{ending}", w


def write_mxfp4(folder, target):
    """The experts of gpt-oss in blocks: in a folder as they are published, and in a GGUF file."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    published = {}
    for name, w in tensors.items():
        if w.ndim != 3:
            published[name] = w
            continue
        blocks = gguf.quants.quantize(np.ascontiguousarray(w.swapaxes(1, 2)), gguf.GGMLQuantizationType.MXFP4)
        blocks = blocks.reshape(*blocks.shape[:2], -1, 17)
        codes = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], -1)
        published[name + "_blocks"] = codes[..., ::2] | codes[..., 1::2] << 4
        published[name + "_scales"] = np.ascontiguousarray(blocks[..., 0])
    out = target / "gpt_oss_mxfp4"
    out.mkdir(exist_ok=True)
    save_file(published, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "mxfp4"}}))
    write(folder, target / "gpt_oss_mxfp4.gguf", "gpt-oss", blocks=gguf.GGMLQuantizationType.MXFP4)


def write_variant(folder, target, arch, **changes):
    """The weights of a folder with a changed config: a folder, and its GGUF file."""
    config = json.loads((folder / "config.json").read_text()) | changes
    target.mkdir(exist_ok=True)
    (target / "config.json").write_text(json.dumps(config))
    (target / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    write(target, target.with_suffix(".gguf"), arch)


def write(folder, path, arch, blocks=None, **split):
    config = json.loads((folder / "config.json").read_text())
    out = gguf.GGUFWriter(path, arch, **split)
    write_metadata(out, config, arch)
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(kind, config.get("num_hidden_layers") or config["n_layer"])
    for name, w in converted(config, load_file(folder / "model.safetensors"), arch):
        if "pooler." in name or name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if name.endswith(".sinks"):
            stored = names.get_name(name) + ".weight"
        if arch == "gpt-oss" and ".post_attention_layernorm." in name:
            stored = stored.replace("ffn_norm", "post_attention_norm")
        if stored is None:
            raise SystemExit(f"{folder.name}: no name for {name}")
        w = np.ascontiguousarray(w, np.float32)
        if blocks and w.ndim == 3:
            out.add_tensor(stored, gguf.quants.quantize(w, blocks), raw_dtype=blocks)
        else:
            out.add_tensor(stored, w)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    models, *more, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    for name, arch in MODELS.items():
        write(models / name, target / f"{name}.gguf", arch)
    write(models / "llama", target / "split.gguf", "llama", split_max_tensors=8)
    write_mxfp4(models / "gpt_oss", target)
    write_variant(models / "deepseek_v3", target / "deepseek_yarn", "deepseek2", rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7,
        "original_max_position_embeddings": 32})
    write_variant(models / "modernbert", target / "modernbert_windows", "modern-bert", local_attention=4)
    if more:
        write(more[0] / "lfm2", target / "lfm2_conv.gguf", "lfm2")
        write(more[0] / "phi3_longrope", target / "phi3_longrope.gguf", "phi3")


if __name__ == "__main__":
    main()
