#!/usr/bin/env python3
"""Writes the tiny random models of tests/data/language/models: config.json, model.safetensors, and golden.safetensors
with ids (40 tokens) and the logits that transformers computes of them in f32 and f64.

    make_language_goldens.py tests/data/language/models [NAME ...]

What ends in _short are the first 24 tokens alone, where rotary embeddings depend on the length of a text.
Needs: torch, transformers 5.24.0, safetensors.
"""
import os
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
FACTORS = dict(short_factor=[1.0, 1.1, 1.25, 1.5], long_factor=[1.0, 2.0, 3.5, 6.0])
MODELS = {
    "lfm2": ("Lfm2Config", dict(SMALL, num_hidden_layers=4, conv_L_cache=3, block_multiple_of=16, conv_bias=True,
                                layer_types=["conv", "full_attention", "conv", "conv"])),
    "phi3_longrope": ("Phi3Config", dict(SMALL, original_max_position_embeddings=32, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32, **FACTORS))),
    "cohere2": ("Cohere2Config", dict(SMALL, num_hidden_layers=4, sliding_window=16)),
    "glm": ("GlmConfig", dict(SMALL, head_dim=8)),
    "olmo3": ("Olmo3Config", dict(SMALL, num_hidden_layers=4, sliding_window=16, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=32))),
    "olmoe": ("OlmoeConfig", dict(SMALL, num_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": ("Qwen2MoeConfig", dict(SMALL, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                         shared_expert_intermediate_size=24)),
    "gemma3_both_ways": ("Gemma3TextConfig", dict(SMALL, head_dim=8, query_pre_attn_scalar=8, sliding_window=16,
                                                  use_bidirectional_attention=True, layer_types=[
                                                      "sliding_attention", "full_attention"])),
    "llama_dynamic": ("LlamaConfig", dict(SMALL, max_position_embeddings=32, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, factor=4.0))),
}


def make(folder, kind, sizes):
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**sizes)
    config._experts_implementation = "eager"  # the others have no f64
    states = "use_bidirectional_attention" in sizes  # hidden ones, not logits
    auto = transformers.AutoModel if states else transformers.AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="eager").eval()
    torch.manual_seed(1)
    for p in model.parameters():
        p.copy_(torch.randn_like(p) * 0.2 if p.dim() > 1 else p + torch.randn_like(p) * 0.1)
    ids = torch.randint(3, sizes["vocab_size"], (1, 40))
    golden = {"ids": ids}
    lengths = {"": 40, "_short": 24} if "rope_parameters" in sizes else {"": 40}
    for suffix, length in lengths.items():
        golden["f32" + suffix] = model.float()(input_ids=ids[:, :length])[0].contiguous()
        golden["f64" + suffix] = model.double()(input_ids=ids[:, :length])[0].contiguous()
        difference = (golden["f32" + suffix] - golden["f64" + suffix]).abs().max().item()
        print(f"{folder.name}{suffix}: {difference:.1e} of {golden['f64' + suffix].abs().max().item():.2f}")
    model.float().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file(golden, folder / "golden.safetensors")


def main():
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_grad_enabled(False)
    target = pathlib.Path(sys.argv[1])
    for name, (kind, sizes) in MODELS.items():
        if not sys.argv[2:] or name in sys.argv[2:]:
            make(target / name, kind, sizes)


if __name__ == "__main__":
    main()
