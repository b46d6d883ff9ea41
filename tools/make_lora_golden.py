#!/usr/bin/env python3
"""Makes tests/data/language/lora: an adapter that the Python package peft has written for a tiny Llama, and what peft
computes with it; with --check it reads an adapter of ours with peft.

    pip install torch transformers peft safetensors
    python tools/make_lora_golden.py LM/llama tests/data/language/lora
    python tools/make_lora_golden.py LM/llama FOLDER --check
"""
import argparse
import json
import pathlib

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

IDS = torch.tensor([[1, 5, 9, 200, 33, 7, 64, 2], [3, 3, 90, 17, 250, 11, 8, 101]])


def base(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")


def losses(model, steps, lr):
    """Next-token losses of a training by AdamW, without bounds of gradients."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, weight_decay=0.0)
    result = []
    for _ in range(steps):
        logits = model(IDS).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), IDS[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="read an adapter of ours, and print what it gives")
    args = parser.parse_args()
    if args.check:
        model = PeftModel.from_pretrained(base(args.model), args.folder)
        with torch.no_grad():
            logits = model(IDS).logits.double()
            merged = model.merge_and_unload()(IDS).logits.double()
        print(json.dumps({"logits": logits[0, -1, :8].tolist(), "sum": logits.abs().sum().item(),
                          "merged_differs": (logits - merged).abs().max().item()}))
        return
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM",
                        lora_dropout=0.0)
    model = get_peft_model(base(args.model), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(args.folder)
    (args.folder / "README.md").unlink(missing_ok=True)
    written = json.loads((args.folder / "adapter_config.json").read_text())
    written["base_model_name_or_path"] = "llama"
    (args.folder / "adapter_config.json").write_text(json.dumps(written, indent=2) + "\n")
    with torch.no_grad():
        f32 = model(IDS).logits
    exact = PeftModel.from_pretrained(base(args.model).double(), args.folder).double()
    with torch.no_grad():
        f64 = exact(IDS).logits
    golden = {"ids": IDS, "f32": f32.contiguous(), "f64": f64.contiguous()}
    model.train()
    golden["losses"] = torch.tensor(losses(model, 5, 1e-2), dtype=torch.float64)
    save_file(golden, args.folder / "golden.safetensors")


if __name__ == "__main__":
    main()
