#!/usr/bin/env python3
"""Makes src/text/unicode_tables.h: what the package tokenizers (0.23.3) knows of every character, asked of the package
itself, since its parts go by different versions of Unicode: categories by what its patterns match (Unicode 16), lower case
by its Lowercase, decompositions and combining classes by its normal forms (Unicode 9), and as differences from the
categories what other steps take for marks, numbers, signs and controls. Where a question cannot be asked of it, Python's
unicodedata (3.11: Unicode 14) and the package regex (2026.11.19: what grapheme clusters break by) answer, and the package
is asked whether it agrees. Upper and title case, which templates ask for, are Python's.

Tables are numbers of seven bits a byte, lowest first, and go as one deflate stream: a seventh of the space.
"""
import pathlib
import sys
import unicodedata
import zlib

import regex
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from precompiled_map import replacing

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
# In the order of enum Break in src/text/graphemes.cpp, from 1 on.
GRAPHEMES = ["CR", "LF", "Control", "ZWJ", "Extend", "Regional_Indicator", "Prepend", "SpacingMark", "L", "V", "T", "LV",
             "LVT"]
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HEAD = """// Facts about characters, as the package tokenizers {version} has them. Made by tools/make_unicode_tables.py.
#pragma once

#include <cstddef>

// clang-format off
namespace lockstep {{
inline namespace v0 {{
namespace text {{
"""
nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str


def number(value):
    """Seven bits a byte, all but the last with the eighth."""
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)


def signed(value):
    return number(value << 1 if value >= 0 else -value << 1 | 1)


def runs(function):
    """How many runs of characters of one value there are, the lengths of the runs before them, and the values."""
    lengths, values, start, last = [], [], 0, None
    for c in range(0x110000):
        value = function(c)
        if value != last:
            lengths.append(c - start)
            values.append(value)
            start, last = c, value
    return b"".join(map(number, [len(values)] + lengths + values))


def matched(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    result = set()
    for i in range(0, len(CHARACTERS), 4096):
        block = CHARACTERS[i:i + 4096]
        kept = {c for piece, _ in split.pre_tokenize_str("".join(map(chr, block))) for c in map(ord, piece)}
        result |= set(block) - kept
    return result


def categories():
    result = dict.fromkeys(range(0xD800, 0xE000), "Cs")
    for name in CATEGORIES:
        found = matched(rf"\p{{{name}}}")
        assert not found & result.keys()
        result |= dict.fromkeys(found, name)
    assert len(result) == 0x110000
    return result


def differences(category):
    """Bits where a step sees another kind than the category: 1 a mark for StripAccents, 2 a number for Digits, and of BERT's
    steps 4 a sign, 8 a control, 16 a mark; 32 what Python takes for a letter with a case, beside Lu, Ll and Lt."""
    def normalizer(**on):
        off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
        return normalizers.BertNormalizer(**(off | on)).normalize_str
    accents, digits = normalizers.StripAccents().normalize_str, pre_tokenizers.Digits(False).pre_tokenize_str
    words, clean, strip = pre_tokenizers.BertPreTokenizer().pre_tokenize_str, normalizer(clean_text=True), normalizer(strip_accents=True)

    def bits(c):
        if 0xD800 <= c < 0xE000:
            return 0
        kind, between = category[c], f"a{chr(c)}b"
        stable = nfd(chr(c)) == chr(c)
        result = (accents(between) == "ab") != (kind[0] == "M")
        result |= ((len(digits(between)) > 1) != (kind[0] == "N")) << 1
        if c >= 0x80:  # of ASCII the steps say themselves what is a sign or a control
            result |= ((len(words(between)) == 3) != (kind[0] == "P")) << 2
            result |= ((clean(between) == "ab") != (kind in ("Cc", "Cf", "Co")) and c != 0xFFFD) << 3
        if unicodedata.category(chr(c)) != "Cn":
            result |= ((chr(c) + "b").title().endswith("b") != (kind in ("Lu", "Ll", "Lt"))) << 5
        return result | ((strip(between) == "ab" if stable else kind == "Mn") != (kind == "Mn")) << 4
    return runs(bits)


def combining_classes():
    """unicodedata's, where the package puts marks in order, too; 0 where it does not know them."""
    known = {}
    for c in CHARACTERS:
        known.setdefault(unicodedata.ucd_3_2_0.combining(chr(c)), chr(c))

    def moved(text):
        return nfd("a" + text) != "a" + text

    def class_of(c):
        own = unicodedata.combining(chr(c)) if not 0xD800 <= c < 0xE000 and nfd(chr(c)) == chr(c) else 0
        if own == 0 or not (moved(chr(c) + known[1]) or moved(known[240] + chr(c))):
            return 0
        for other, mark in known.items():
            assert other == 0 or (moved(chr(c) + mark), moved(mark + chr(c))) == (own > other, other > own), hex(c)
        return own
    return runs(class_of)


def decompositions():
    """Three tables: distance from the character before, and length << 2 | is the composition << 1 | compatibility; distance of
    the mapping's first character from that of the one before; the other characters."""
    nfc = normalizers.NFC().normalize_str
    about, firsts, others = b"", b"", b""
    last = last_first = 0
    for c in CHARACTERS:
        text = unicodedata.decomposition(chr(c))
        own = chr(c)
        if not text or nfkd(own) == own:
            assert nfkd(own) == own or 0xAC00 <= c < 0xD7A4, hex(c)
            continue
        assert nfkd(own) == unicodedata.normalize("NFKD", own) and nfd(own) == unicodedata.normalize("NFD", own), hex(c)
        parts = text.split()
        compatible = parts[0].startswith("<")
        mapping = [int(p, 16) for p in parts[1 if compatible else 0:]]
        composes = not compatible and len(mapping) == 2 and nfc(own) == own
        about += number(c - last) + number(len(mapping) << 2 | composes << 1 | compatible)
        firsts += signed(mapping[0] - last_first)
        others += b"".join(map(number, mapping[1:]))
        last, last_first = c, mapping[0]
    return [about, firsts, others]


def lower_case():
    lower = normalizers.Lowercase().normalize_str
    result, last = b"", 0
    for c in CHARACTERS:
        if lower(chr(c)) != chr(c) and c != 0x130:
            assert len(lower(chr(c))) == 1
            result += number(c - last) + signed(ord(lower(chr(c))) - c)
            last = c
    return result


def other_cases():
    """Where Python's upper case is not that character whose lower case it is (the last of several), or title case is another:
    distance from the character before, and both, each with its length."""
    lower = normalizers.Lowercase().normalize_str
    upper = {lower(chr(c)): chr(c) for c in CHARACTERS if lower(chr(c)) != chr(c) and c != 0x130}
    result, last = b"", 0
    for c in CHARACTERS:
        own = chr(c)
        told = upper.get(own, own)
        if unicodedata.category(own) == "Cn" or unicodedata.category(told) == "Cn" or (own.upper(), own.title()) == (told, told):
            continue
        result += number(c - last)
        last = c
        for text in own.upper(), own.title():
            result += number(len(text)) + b"".join(signed(ord(x) - c) for x in text)
    return result


def grapheme_properties():
    """A break property, 0 for others; then flags: 16 pictographic, 32 and 64 consonant and linker of Indic conjuncts, 128
    what extends them."""
    result = [0] * 0x110000
    kinds = {i + 1: f"GCB={name}" for i, name in enumerate(GRAPHEMES)}
    for value, name in (kinds | {16: "Extended_Pictographic", 32: "InCB=Consonant", 64: "InCB=Linker",
                                 128: "InCB=Extend"}).items():
        pattern = regex.compile(rf"\p{{{name}}}")
        for c in CHARACTERS:
            if pattern.match(chr(c)):
                assert value > 15 or result[c] == 0
                result[c] |= value
    joined = normalizers.Precompiled(replacing("a")).normalize_str
    newer = [c for c in CHARACTERS if result[c] & 15 in (4, 5, 8) and joined("a" + chr(c)) != "X"]
    for c in newer:  # characters that only regex knows
        result[c] = 0
    assert len(newer) < 50
    return runs(lambda c: result[c])


def main():
    category = categories()
    # In the order of enum UnicodeTable in src/text/unicode_data.h.
    tables = [runs(lambda c: CATEGORIES.index(category[c])), differences(category), combining_classes(), *decompositions(),
              grapheme_properties(), lower_case(), other_cases()]
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = stream.compress(b"".join(tables)) + stream.flush()
    text = HEAD.format(version=tokenizers.__version__)
    text += "\n// Bytes of each table, in the order of enum UnicodeTable.\n"
    text += f"inline constexpr std::size_t kUnicodeBytes[{len(tables)}] = {{{', '.join(str(len(t)) for t in tables)}}};\n"
    text += f"inline constexpr unsigned char kUnicodeData[{len(data)}] = {{\n"
    text += "".join(",".join(map(str, data[i:i + 32])) + ",\n" for i in range(0, len(data), 32)) + "};\n"
    text += "\n}  // namespace text\n}  // namespace v0\n}  // namespace lockstep\n"
    (ROOT / "src/text/unicode_tables.h").write_text(text)
    print([len(t) for t in tables], len(data), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
