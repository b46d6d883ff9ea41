"""A table of replacements, as SentencePiece and the normalizer Precompiled have it, of one rule: `key` becomes X. By it the
package tokenizers tells which characters it takes for one grapheme cluster (tools/make_unicode_tables.py and
tools/test_data/unicode_steps.py)."""
import struct


def replacing(key):
    units = [0] * 2048  # a double array: each node at a multiple of 256, its children there, by exclusive or with their bytes
    node = 256
    units[0] = node << 10
    data = key.encode()
    for i, byte in enumerate(data):
        place = node ^ byte
        node += 256
        units[place] = (place ^ node) << 10 | (i + 1 == len(data)) << 8 | byte
    units[node] = 1 << 31
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + b"X\0"
