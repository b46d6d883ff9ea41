#!/usr/bin/env python3
"""What the package tokenizers (0.23.3) makes of every character, as one hash for 32,768 of them: tests/data/unicode_steps.json.

    pip install tokenizers==0.23.3
    tools/test_data/unicode_steps.py

Each step of tokenizer.json takes texts with the character in the place of "?"; the hash (CRC-32) is that of all
results, a newline behind each, and of several pieces with the character U+001F between. Surrogates are left out; of the planes
that have no characters, or private ones, the test takes one of 61, and this program looks at all: they are alike.
"""
import base64
import json
import pathlib
import sys
import zlib

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from precompiled_map import replacing  # noqa: E402

BLOCK = 32768
SAME = [*range(0x40000, 0xE0000, BLOCK), *range(0xF0000, 0x110000, BLOCK)]  # none, or private: one in 61 stands for all
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn L M N P S Z C".split()
PATTERNS = [rf"\p{{{name}}}" for name in CATEGORIES] + [r"\w", r"\d", r"\s", r"\p{Han}", r"(?i:k)", r"[^\s\p{L}\p{N}]"]
BERT = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}


def sequence(*types):
    return {"type": "Sequence", "normalizers": [{"type": t} for t in types]}


NORMALIZERS = [({"type": t}, "?") for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")]
NORMALIZERS += [({"type": "NFD"}, "a?\u0334"), ({"type": "NFD"}, "a\u0345?"), (sequence("NFD", "NFC"), "?"),
                ({"type": "StripAccents"}, "a?b"), ({"type": "Strip", "strip_left": True, "strip_right": True}, "?a?"),
                ({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(replacing("a")).decode()}, "a?")]
NORMALIZERS += [({**BERT, name: True}, "a?b") for name in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")]
PRE_TOKENIZERS = [({"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False}, "a?b") for p in PATTERNS]
PRE_TOKENIZERS += [(step, "a?b") for step in (
    {"type": "BertPreTokenizer"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Digits", "individual_digits": True}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True})]


def blocks(run, text, alike=True):
    result = []
    for first in range(0, 0x110000, BLOCK):
        if first in SAME and alike:
            assert len({run(text.replace("?", chr(c))).replace(chr(c), "?") for c in range(first, first + BLOCK)} - {text}) <= 2
        characters = (c for c in range(first, first + BLOCK, 61 if first in SAME else 1) if not 0xD800 <= c < 0xE000)
        result.append(zlib.crc32("".join(run(text.replace("?", chr(c))) + "\n" for c in characters).encode()))
    return result


def tokenizer(**steps):
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, **steps}))


def main():
    rows = []
    for step, text in NORMALIZERS:
        run = tokenizer(normalizer=step).normalizer.normalize_str
        rows.append({"normalizer": step, "text": text, "hashes": blocks(run, text)})
    for step, text in PRE_TOKENIZERS:
        split = tokenizer(pre_tokenizer=step).pre_tokenizer.pre_tokenize_str
        run = lambda x: "\x1f".join(piece for piece, _ in split(x))  # noqa: E731
        rows.append({"pre_tokenizer": step, "text": text, "hashes": blocks(run, text, step["type"] != "ByteLevel")})
    out = ROOT / "tests/data/unicode_steps.json"
    lines = ",\n".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows)
    out.write_text(f"[\n{lines}\n]\n")
    print(out, len(rows), "steps")


if __name__ == "__main__":
    main()
