#!/usr/bin/env python3
"""Makes src/text/unicode_tables.h from Python's unicodedata: general categories, combining classes, decompositions and
lower case of every character. The version of Unicode is that of the Python that runs this (3.11: 14.0.0), and stands
in the file. What grapheme clusters break by, which unicodedata does not tell, is that of the package regex (2026.11.19);
what BERT's steps take for signs, marks and controls is asked of the package tokenizers (0.23.3), whose table is older.
"""
import pathlib
import struct
import sys
import unicodedata
import zlib

import regex
from tokenizers import normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
# In the order of enum Break in src/text/graphemes.cpp, from 1 on.
GRAPHEMES = ["CR", "LF", "Control", "ZWJ", "Extend", "Regional_Indicator", "Prepend", "SpacingMark", "L", "V", "T", "LV",
             "LVT"]
HEAD = """// Facts about characters, from Unicode {version}. Made by tools/make_unicode_tables.py.
#pragma once

#include <cstddef>
#include <cstdint>

// clang-format off
namespace lockstep {{
inline namespace v0 {{
namespace text {{

inline constexpr const char* kUnicodeVersion = "{version}";
"""


def ranges(function, bits):
    """first << bits | value for each run of characters of one value."""
    result = []
    last = None
    for c in range(0x110000):
        value = function(c)
        if value != last:
            result.append(c << bits | value)
            last = value
    return result


def table(name, comment, values):
    text = f"\n// {comment}\ninline constexpr std::uint32_t {name}[{len(values)}] = {{\n"
    return text + "".join(",".join(map(str, values[i:i + 24])) + ",\n" for i in range(0, len(values), 24)) + "};\n"


def packed_table(name, comment, values):
    """As a deflate stream of 32-bit words, lowest byte first, without a header: a quarter of the table's size."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = stream.compress(struct.pack(f"<{len(values)}I", *values)) + stream.flush()
    text = f"\n// {comment}\ninline constexpr std::size_t {name}Words = {len(values)};\n"
    text += f"inline constexpr unsigned char {name}[{len(data)}] = {{\n"
    return text + "".join(",".join(map(str, data[i:i + 32])) + ",\n" for i in range(0, len(data), 32)) + "};\n"


def decompositions():
    result = []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        text = unicodedata.decomposition(chr(c))
        if not text:
            continue
        parts = text.split()
        compatible = parts[0].startswith("<")
        mapping = [int(p, 16) for p in parts[1 if compatible else 0:]]
        composes = not compatible and len(mapping) == 2 and unicodedata.normalize("NFC", chr(c)) == chr(c)
        result += [c, len(mapping) | compatible << 8 | composes << 9] + mapping
    return result


def lower_case():
    result = []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000 or chr(c).lower() == chr(c) or c == 0x130:
            continue
        assert len(chr(c).lower()) == 1
        result += [c, ord(chr(c).lower())]
    return result


def grapheme_properties():
    """A break property, 0 for others; then flags: 16 pictographic, 32 and 64 consonant and linker of Indic conjuncts, 128
    what extends them."""
    result = [0] * 0x110000
    kinds = {i + 1: f"GCB={name}" for i, name in enumerate(GRAPHEMES)}
    for value, name in (kinds | {16: "Extended_Pictographic", 32: "InCB=Consonant", 64: "InCB=Linker",
                                 128: "InCB=Extend"}).items():
        pattern = regex.compile(rf"\p{{{name}}}")
        for c in range(0x110000):
            if not 0xD800 <= c < 0xE000 and pattern.match(chr(c)):
                assert value > 15 or result[c] == 0
                result[c] |= value
    return result


def bert_categories():
    """The category where BertNormalizer and BertPreTokenizer see another kind of character, 31 where they do not."""
    def normalizer(**on):
        off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
        return normalizers.BertNormalizer(**(off | on))
    words, clean, strip = pre_tokenizers.BertPreTokenizer(), normalizer(clean_text=True), normalizer(strip_accents=True)

    def kind(c):
        category = unicodedata.category(chr(c))
        if c < 0x80 or 0xD800 <= c < 0xE000:
            return 31
        between = f"a{chr(c)}b"
        sign = len(words.pre_tokenize_str(between)) == 3
        control = clean.normalize_str(between) == "ab"
        stable = unicodedata.normalize("NFD", chr(c)) == chr(c)
        mark = strip.normalize_str(between) == "ab" if stable else category == "Mn"
        if (sign, control, mark) == (category[0] == "P", category in ("Cc", "Cf", "Co"), category == "Mn") or c == 0xFFFD:
            return 31
        return CATEGORIES.index("Po" if sign else "Cf" if control else "Mn" if mark else "Cn")
    return ranges(kind, 5)


def main():
    text = HEAD.format(version=unicodedata.unidata_version)
    text += table("kCategories", "first << 5 | category, of runs; the categories in the order of enum Category",
                  ranges(lambda c: CATEGORIES.index(unicodedata.category(chr(c))), 5))
    text += table("kCombiningClasses", "first << 8 | class, of runs", ranges(lambda c: unicodedata.combining(chr(c)), 8))
    text += packed_table("kDecompositions", "character, length | compatibility << 8 | is the composition << 9, mapping; packed",
                         decompositions())
    properties = grapheme_properties()
    text += table("kGraphemeProperties", "first << 8 | property of grapheme breaks and flags, of runs; see graphemes.cpp",
                  ranges(lambda c: properties[c], 8))
    text += table("kBertCategories", "first << 5 | category in BERT's steps, 31 where it is that of kCategories, of runs",
                  bert_categories())
    text += table("kLowerCase", "character, its lower case; without U+0130, which has two characters", lower_case())
    text += "\n}  // namespace text\n}  // namespace v0\n}  // namespace lockstep\n"
    (ROOT / "src/text/unicode_tables.h").write_text(text)
    print(unicodedata.unidata_version, len(text), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
