#!/usr/bin/env python3
"""Writes the tiny random models of tests/data/language/models: config.json, model.safetensors, and golden.safetensors
with ids (40 tokens) and the logits that transformers computes of them in f32 and f64.

    make_language_goldens.py tests/data/language/models

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
    "llama_dynamic": ("LlamaConfig", dict(SMALL, max_position_embeddings=32, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, factor=4.0))),
}


def make(folder, kind, sizes):
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**sizes)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    torch.manual_seed(1)
    for p in model.parameters():
        p.copy_(torch.randn_like(p) * 0.2 if p.dim() > 1 else p + torch.randn_like(p) * 0.1)
    ids = torch.randint(3, sizes["vocab_size"], (1, 40))
    golden = {"ids": ids}
    lengths = {"": 40, "_short": 24} if "rope_parameters" in sizes else {"": 40}
    for suffix, length in lengths.items():
        golden["f32" + suffix] = model.float()(input_ids=ids[:, :length]).logits.contiguous()
        golden["f64" + suffix] = model.double()(input_ids=ids[:, :length]).logits.contiguous()
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
        make(target / name, kind, sizes)


if __name__ == "__main__":
    main()
