#!/usr/bin/env python3
"""Writes tests/data/tokenizers/odd_*.json: steps of tokenizer.json that few files have, each in a small vocabulary of
characters, and what the package tokenizers (0.23.3) makes of texts.

    pip install tokenizers==0.23.3
    tools/test_data/odd_tokenizers.py
"""
import json
import pathlib
import random

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MARK = "\u2581"
CHARACTERS = [chr(c) for c in range(32, 127)] + list("\u0120\u010a\u2581éüßÀΣσς中文かカ한я²½…—\u00a0\u3000\n\t")
MERGES = ["t h", "th e", "i n", "e r", "a b", "b c", "ab c", f"{MARK} a", "l l", "o o", "1 2", "12 3"]
TEXTS = ["", " ", "abc", "The quick  brown fox, 12345 it's (don't) the end.", "  leading and trailing  ", "aXbXXc XaX", "camelCaseWords HTTPServer2",
         "<x>abc<x>", "a <l> b <r> c", "a  <l>  b  <r>  c", "cat concat cat. (cat) cat2 cat_ écat", "Straße ÜBER été Éa", "中文abc かカ한 я", "a\n\nb\tc\u00a0d\u3000e",
         "\u0301abc \u0301", "x\u200by\ufeffz", "1234567 12,345.678 ½ ²", "<<x>> <xx> <x <l><l><r><r>", "NORM norm Norm", "Ünorm ünorm", "abcabc 123123", "\x01a\x7fb", "é e\u0301 ﬁ",
         "don't won't I'm they've", "a . b , c ! d ? e 's"]


def added(content, i, **flags):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


def bpe(merges=True, **more):
    tokens = CHARACTERS + ([m.replace(" ", "", 1) for m in MERGES] if merges else [])
    tokens += more.pop("tokens", [])
    vocab = {t: i for i, t in enumerate(dict.fromkeys(["<unk>"] + tokens))}
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": MERGES if merges else [], **more}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def replace(what, by, regex=False):
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": what}, "content": by}


def pres(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def norms(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def decs(*steps):
    return {"type": "Sequence", "decoders": list(steps)}


STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
FIRST = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True}
BYTES = [f"<0x{b:02X}>" for b in range(256)]
FUSE = {"type": "Fuse"}
FALLBACK = {"type": "ByteFallback"}
META_DECODER = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True}
FLAGS = [added("<l>", 900, lstrip=True), added("<r>", 901, rstrip=True), added("cat", 902, single_word=True), added("<x>", 903, special=True),
         added("<xx>", 904, lstrip=True, rstrip=True), added("norm", 905, normalized=True), added("ünorm", 906, normalized=True, single_word=True),
         added("<<x", 907, normalized=True, lstrip=True)]
TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<xy>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<x>", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<x>": {"id": "<x>", "ids": [903], "tokens": ["<x>"]}, "<xy>": {"id": "<xy>", "ids": [903, 900], "tokens": ["<x>", "<l>"]}}}
WORDS = {t: i for i, t in enumerate(["<unk>", "the", "The", "abc", "cat", ".", ",", "a", "b", "12345", "quick", "中文abc", "(", ")"])}
ALL = {
    "flags": {"added_tokens": FLAGS, "pre_tokenizer": pres(split(r"\s+")), "decoder": FUSE},
    "flags_lower": {"added_tokens": FLAGS, "normalizer": norms({"type": "NFC"}, {"type": "Lowercase"}), "pre_tokenizer": {"type": "Whitespace"}, "decoder": FUSE},
    "flags_metaspace": {"added_tokens": FLAGS, "normalizer": norms({"type": "Prepend", "prepend": MARK}, replace(" ", MARK)), "decoder": decs(replace(MARK, " "), FALLBACK, FUSE, {"type": "Strip", "content": " ", "start": 1, "stop": 0})},
    "first_strip": {"added_tokens": FLAGS, "normalizer": STRIP, "pre_tokenizer": FIRST, "decoder": META_DECODER},
    "first_replace": {"normalizer": norms(replace("a", ""), replace("T+h", "q", True), replace("<", "xy")), "pre_tokenizer": FIRST, "decoder": META_DECODER},
    "first_accents": {"normalizer": norms({"type": "NFD"}, {"type": "StripAccents"}), "pre_tokenizer": pres({"type": "WhitespaceSplit"}, FIRST), "decoder": META_DECODER},
    "first_bert": {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, "pre_tokenizer": pres({"type": "WhitespaceSplit"}, FIRST)},
    "first_prepend": {"normalizer": norms(STRIP, {"type": "Prepend", "prepend": "zy"}, replace("z", "")), "pre_tokenizer": FIRST},
    "empty_matches": {"normalizer": replace("^|(?=X)", "-", True), "pre_tokenizer": pres(split(r"(?=[A-Z])"), split(r"(?<=\d)(?=\d)", "MergedWithNext")), "decoder": FUSE},
    "thousands": {"pre_tokenizer": pres(split(r"\d{1,3}(?=(?:\d{3})*(?!\d))")), "decoder": FUSE},
    "behaviors": {"pre_tokenizer": pres(split("X+", "MergedWithPrevious"), split("[aeiou]", "Contiguous"), split(r"\s+", "Removed"), split(r"\d", "MergedWithNext")), "decoder": FUSE},
    "inverted": {"pre_tokenizer": pres(split(r"\p{L}+|\p{N}+", "Removed", True), split(r"[A-Z][a-z]*", "MergedWithPrevious", True)), "decoder": FUSE},
    "bytes": {"model": bpe(byte_fallback=True, tokens=BYTES), "decoder": decs(FALLBACK, FUSE)},
    "bytes_plain": {"model": bpe(byte_fallback=True, fuse_unk=True, tokens=BYTES[:200]), "decoder": decs(replace("a", "_"), FALLBACK, {"type": "Strip", "content": "<", "start": 2, "stop": 0})},
    "fuse": {"model": bpe(fuse_unk=True), "normalizer": {"type": "Nmt"}, "decoder": decs(replace("[ae]", "*", True), FUSE)},
    "no_unknown": {"model": bpe(unk_token=None), "decoder": FUSE},
    "suffix": {"model": bpe(False, end_of_word_suffix="</w>", tokens=[c + "</w>" for c in CHARACTERS]), "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}},
    "words": {"model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "<unk>"}, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": FLAGS},
    "byte_normalizer": {"normalizer": norms({"type": "NFC"}, {"type": "ByteLevel"}), "pre_tokenizer": split("Ġ?[a-z]+|Ġ"), "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    "roberta": {"added_tokens": FLAGS, "post_processor": {"type": "RobertaProcessing", "sep": ["<x>", 903], "cls": ["<l>", 900], "trim_offsets": True, "add_prefix_space": True}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    "template": {"added_tokens": FLAGS, "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, TEMPLATE]}, "decoder": FUSE},
    "delimiters": {"pre_tokenizer": pres({"type": "CharDelimiterSplit", "delimiter": "X"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "Digits", "individual_digits": True}), "decoder": {"type": "WordPiece", "prefix": "a", "cleanup": True}},
    "word_pieces": {"model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "@", "max_input_chars_per_word": 7, "vocab": {t: i for i, t in enumerate(dict.fromkeys(["<unk>", *CHARACTERS, *("@" + c for c in CHARACTERS[60:100]), "the", "@end", "qu"]))}},
                    "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "@", "cleanup": False}},
    "unigram": {"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["<unk>", 0.0]] + [[c, -5.0 - i / 100] for i, c in enumerate(CHARACTERS)] + [["the", -3.0], ["abc", -2.5], [MARK + "a", -2.0], ["ab", -2.5], ["ing", -4.0]]},
                "pre_tokenizer": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": False}, "decoder": META_DECODER},
}


def main():
    for name, steps in ALL.items():
        data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
                "post_processor": None, "decoder": None, "model": bpe(), **steps}
        t = Tokenizer.from_str(json.dumps(data))
        for token in data["added_tokens"]:  # the package gives tokens that are new numbers of its own
            token["id"] = t.token_to_id(token["content"])
        if data["post_processor"]:
            text = json.dumps(data["post_processor"])
            for content, i in (("<x>", 903), ("<l>", 900)):
                text = text.replace(str(i), str(t.token_to_id(content)))
            data["post_processor"] = json.loads(text)
        t = Tokenizer.from_str(json.dumps(data))
        r = random.Random(name)
        texts = TEXTS + ["".join(r.choice(TEXTS)[:r.randrange(12)] for _ in range(3)) for _ in range(15)]
        cases = []
        for text in texts:
            ids = t.encode(text).ids
            cases.append({"text": text, "ids": ids, "plain": t.encode(text, add_special_tokens=False).ids, "decoded": t.decode(ids, skip_special_tokens=False)})
        golden = {"tokenizer": data, "cases": cases}
        (ROOT / f"tests/data/tokenizers/odd_{name}.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
