#!/usr/bin/env python3
"""Writes the tiny random models of tests/data/rerank, a folder each for the heads that score a query and a document:
config.json, model.safetensors in f16, tokenizer.json, tokenizer_config.json and golden.json with pairs of texts, what
the package tokenizers makes of them (ids, types), the logits that transformers computes of these in f32 and f64, and
the scores of sentence-transformers' CrossEncoder; and model.gguf, as llama.cpp's converter would write three of them.
The one of qwen3 has what Qwen3-Reranker's has: two labels, yes and no (whose row is zeros here), and a template.

    make_rerank_goldens.py tests/data/rerank

Needs: torch, transformers 5.24.0, tokenizers 0.23.3, sentence-transformers 6.2.0, gguf 0.19.0, safetensors.
"""
import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from make_gguf_models import write_metadata
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = ["what do cats eat", "Cats eat fish, mice and what people give them.", "A dog runs through the park!",
         "how far is the moon", "The moon is 384,400 km away from the earth.", "It rains; nobody goes out today."]
QUERIES = [TEXTS[0], TEXTS[3]]
DOCUMENTS = [TEXTS[1], TEXTS[2], TEXTS[4], "", "ünknown wörds 🙂 " + TEXTS[5]]
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=120, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))])
    return t, dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def byte_level(special, post, size=300):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = post(t)
    return t


def roberta():
    t = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], lambda t: processors.RobertaProcessing(
        ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), trim_offsets=True, add_prefix_space=False))
    return t, dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
                   unk_token="<unk>")


def modern():
    t = byte_level(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], lambda t: processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))]))
    return t, dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def unigram():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXTS, trainers.UnigramTrainer(
        vocab_size=100, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t, dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
                   unk_token="<unk>")


def decoder():
    t = byte_level(["<|endoftext|>", "<|im_end|>"], lambda t: processors.ByteLevel(trim_offsets=False))
    return t, dict(eos_token="<|im_end|>", pad_token="<|endoftext|>")


ONE = dict(num_labels=1)
IDENTITY = dict(sentence_transformers=dict(activation_fn="torch.nn.modules.linear.Identity", version="5.0.0"))
# Folder: class of the config, tokenizer, what the config says, longest pair that the tokenizer's config names.
MODELS = {
    "bert": ("BertConfig", word_piece, dict(SIZES, max_position_embeddings=48, pad_token_id=0, **ONE), 24),
    "bert_labels": ("BertConfig", word_piece, dict(SIZES, max_position_embeddings=64, num_labels=3), None),
    "distilbert": ("DistilBertConfig", word_piece, dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4, **ONE,
                                                        max_position_embeddings=64), None),
    "roberta": ("RobertaConfig", roberta, dict(SIZES, max_position_embeddings=50, type_vocab_size=1, pad_token_id=1,
                                               bos_token_id=0, eos_token_id=2, **ONE, **IDENTITY), None),
    "xlm_roberta": ("XLMRobertaConfig", unigram, dict(SIZES, max_position_embeddings=66, type_vocab_size=1,
                                                      pad_token_id=1, bos_token_id=0, eos_token_id=2, **ONE), 64),
    "modernbert": ("ModernBertConfig", modern, dict(SIZES, max_position_embeddings=64, local_attention=8, pad_token_id=0,
                                                    bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
                                                    classifier_pooling="mean", **ONE), None),
    "qwen3": ("Qwen3Config", decoder, dict(SIZES, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
                                           pad_token_id=0, bos_token_id=None, eos_token_id=1, **ONE), None),
}


def make(folder, kind, tokenizer, sizes, longest):
    own, special = tokenizer()
    typed = kind == "BertConfig"
    if typed:
        special["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=own, **special,
                                                **({"model_max_length": longest} if longest else {}))
    fast.save_pretrained(folder)
    # The tokenizer itself: what transformers writes may differ from what was made.
    own.save(str(folder / "tokenizer.json"), pretty=False)
    torch.manual_seed(0)
    config = getattr(transformers, kind)(vocab_size=own.get_vocab_size(), **sizes)
    model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
    torch.manual_seed(1)
    for p in model.parameters():
        # In steps that f16 has, so that files are small.
        p.copy_((torch.randn_like(p) * 0.25 if p.dim() > 1 else p + torch.randn_like(p) * 0.1).half().float())
    model.save_pretrained(folder)
    save_file({k: v.half() if v.is_floating_point() else v for k, v in load_file(folder / "model.safetensors").items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    positions = sizes["max_position_embeddings"] - (sizes.get("pad_token_id", 0) + 1 if "type_vocab_size" in sizes else 0)
    most = min(positions, longest or positions)
    cases = []
    for query in QUERIES:
        for document in DOCUMENTS + [" ".join(TEXTS)]:
            own.no_truncation()
            whole = own.encode(query, document)
            own.enable_truncation(most, strategy="longest_first")
            cut = own.encode(query, document)
            given = dict(input_ids=torch.tensor([cut.ids]))
            if typed:
                given["token_type_ids"] = torch.tensor([cut.type_ids])
            f32, f64 = model.float()(**given).logits[0], model.double()(**given).logits[0]
            cases.append(dict(query=query, document=document, whole=whole.ids, whole_types=whole.type_ids, ids=cut.ids,
                              types=cut.type_ids, f32=f32.tolist(), f64=f64.tolist()))
    golden = dict(most=most, cases=cases)
    model.float()
    if config.num_labels == 1:
        encoder = CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
        encoder.max_seq_length = most
        scores = encoder.predict([(c["query"], c["document"]) for c in cases], batch_size=1)
        for case, score in zip(cases, scores):
            case["score"] = float(score)
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")))
    apart = max(abs(a - b) for c in cases for a, b in zip(c["f32"], c["f64"]))
    print(f"{folder.name}: {apart:.1e} apart of {max(abs(x) for c in cases for x in c['f64']):.2f}, "
          f"{[round(c.get('score', 0), 3) for c in cases[:5]]}")


def write_gguf(folder, arch, names, prefix, template=None):
    """`names`: what the head's tensors are called; `prefix`: what published names have in front."""
    config = json.loads((folder / "config.json").read_text())
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    out = gguf.GGUFWriter(folder / "model.gguf", arch)
    if arch == "bert":
        config["max_position_embeddings"] -= 2
    write_metadata(out, config, arch)
    out.add_pooling_type(gguf.PoolingType.RANK)
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    table = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    for name, w in load_file(folder / "model.safetensors").items():
        stem, ending = name.rsplit(".", 1)
        stored = f"{names[stem]}.{ending}" if stem in names else table.get_name(name.removeprefix(prefix),
                                                                                 try_suffixes=(".weight", ".bias"))
        if arch == "bert" and "position_embeddings" in name:
            w = w[2:]
        if template and stem in names:
            w = torch.cat([w, torch.zeros_like(w)])
        wide = w.dim() == 1 or stored.startswith(("token_types", "position_embd"))
        out.add_tensor(stored, w.float().numpy() if wide else w.numpy())
    tokens = sorted(vocabulary["model"]["vocab"], key=vocabulary["model"]["vocab"].get)
    special = {t["content"]: t["id"] for t in vocabulary["added_tokens"]}
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre({"bert": "gpt-2", "modern-bert": "modern-bert", "qwen3": "gpt-2"}[arch])
    out.add_token_list(tokens)
    out.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens])
    out.add_token_merges([" ".join(m) for m in vocabulary["model"]["merges"]])
    if template:
        out.add_eos_token_id(special["<|im_end|>"])
        out.add_chat_template([{"name": "rerank", "template": template}])
        out.add_classifier_output_labels(["yes", "no"])
    else:
        first, end = ("<s>", "</s>") if arch == "bert" else ("[CLS]", "[SEP]")
        out.add_bos_token_id(special[first])
        out.add_eos_token_id(special[end])
        out.add_sep_token_id(special[end])
        out.add_add_bos_token(True)
        out.add_add_eos_token(True)
        out.add_add_sep_token(arch == "bert")
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    torch.set_grad_enabled(False)
    target = pathlib.Path(sys.argv[1])
    for name, model in MODELS.items():
        (target / name).mkdir(parents=True, exist_ok=True)
        make(target / name, *model)
    write_gguf(target / "roberta", "bert", {"classifier.dense": "cls", "classifier.out_proj": "cls.output"}, "roberta.")
    write_gguf(target / "modernbert", "modern-bert",
               {"head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"}, "model.")
    write_gguf(target / "qwen3", "qwen3", {"score": "cls.output"}, "", "Is this so? {query}: {document}\n")


if __name__ == "__main__":
    main()
