#!/usr/bin/env python3
"""Writes fuzz/corpus: a few valid files per format and one small file per known way to attack a reader of it.

Uses only the standard library and writes the same bytes every time. Inputs that fuzzing found are kept beside these,
under names that begin with "found-"; they are not touched.
"""
import base64
import gzip
import io
import json
import pathlib
import pickle
import struct
import warnings
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent
CORPUS = ROOT / "corpus"
DATA = ROOT.parent / "tests" / "data"


def write(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


# --- safetensors -------------------------------------------------------------------------------------------------------


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    good = {
        "__metadata__": {"format": "pt"},
        "a": entry("F32", [2, 3], 0, 24),
        "b": entry("I64", [1], 24, 32),
        "empty": entry("BF16", [0, 7], 32, 32),
    }
    data = bytes(range(32))
    cases = {
        "valid": safetensors(good, data),
        "valid-no-tensors": safetensors({}),
        "valid-padded": safetensors(json.dumps(good).encode() + b"   ", data),
        "valid-storage-only": safetensors({"x": entry("F8_E4M3", [4], 0, 4), "y": entry("C64", [1], 4, 12)}, bytes(12)),
        # lengths
        "length-short": b"\x01\x00\x00",
        "length-zero": safetensors(b""),
        "length-one": safetensors(b"{"),
        "length-wraps": safetensors(good, data, 2**64 - 8),
        "length-sign": safetensors(good, data, 2**63),
        "length-over-limit": safetensors(good, data, 100_000_001),
        "length-over-file": safetensors(good, data, 10_000),
        # other files in front or behind
        "start-space": safetensors(b" {}"),
        "start-array": safetensors(b"[]"),
        "zero-byte": safetensors(b"{}\0garbage"),
        "zero-byte-escaped": safetensors(b'{"__metadata__":{"a":"\\\0"}}'),
        "trailing-zip": safetensors(good, data + b"PK\x03\x04"),
        # shapes whose byte count wraps
        "wrap-62": safetensors({"a": entry("F32", [2**62, 4], 0, 0)}),
        "wrap-32-32": safetensors({"a": entry("U8", [2**32, 2**32], 0, 0)}),
        "wrap-zero": safetensors({"a": entry("F32", [0, 2**62, 2**62], 0, 0)}),
        # spans
        "span-too-long": safetensors({"fc.weight": entry("F32", [32, 8], 0, 65536)}, bytes(65536 // 64)),
        "span-too-short": safetensors({"a": entry("F32", [32, 8], 0, 64)}, bytes(64)),
        "span-overlap": safetensors({"a": entry("U8", [20], 0, 20), "b": entry("U8", [20], 10, 30)}, bytes(30)),
        "span-reversed": safetensors({"a": entry("U8", [4], 8, 4)}, bytes(8)),
        "span-hole": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 8, 12)}, bytes(12)),
        "span-shared": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 0, 4)}, bytes(4)),
        # duplicates
        "twice": safetensors(b'{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},'
                             b'"\\u0061":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        "twice-key": safetensors(b'{"a":{"dtype":"I32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        "twice-metadata": safetensors(b'{"__metadata__":{},"__metadata__":{}}'),
        "metadata-number": safetensors(b'{"__metadata__":{"a":1}}'),
        # numbers
        "number-real": safetensors(b'{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1e0]}}', bytes(1)),
        "number-minus-zero": safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[-0,0]}}'),
        "number-2-64": safetensors(b'{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}}'),
        "dtype-unknown": safetensors({"a": entry("F4", [3], 0, 2)}, bytes(2)),
        "rank-9": safetensors({"a": entry("U8", [1] * 9, 0, 1)}, bytes(1)),
        "deep": safetensors(b'{"a":' + b"[" * 2000),
        "bad-utf8": safetensors(b'{"\xff":{}}'),
    }
    for name, data in cases.items():
        write("safetensors", name, data)


# --- pickles -----------------------------------------------------------------------------------------------------------


def text(value):
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value):
    return b"J" + struct.pack("<i", value) if -(2**31) <= value < 2**31 else b"\x8a\x08" + struct.pack("<q", value)


def name(module, attribute):
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def numbers(values):
    return b"(" + b"".join(number(v) for v in values) + b"t"


def storage(key="0", kind="FloatStorage", elements=4, view=b""):
    return b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu") + number(elements) + view + b"tQ"


def tensor(shape=(2, 2), stride=(2, 1), offset=0, **of_storage):
    return (name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(**of_storage) + number(offset) + numbers(shape)
            + numbers(stride) + b"\x89" + name("collections", "OrderedDict") + b")RtR")


def program(body):
    return b"\x80\x02" + body + b"."


def make_pickle():
    state = b"}(" + text("w") + tensor() + text("n") + number(300) + text("x") + b"G" + struct.pack(">d", 91.5) + b"u"
    cases = {
        "valid": program(state),
        "valid-ordered": program(name("collections", "OrderedDict") + b")Rq\x00" + text("w") + tensor() + b"s}"
                                 + text("_metadata") + b"}sb"),
        "valid-strided": program(tensor((2, 2), (1, 2))),
        "valid-v3": program(name("torch._utils", "_rebuild_tensor_v3") + b"("
                            + storage(kind="UntypedStorage", elements=16) + number(0) + numbers((8,)) + numbers((1,))
                            + b"\x89" + name("collections", "OrderedDict") + b")R" + name("torch", "uint16") + b"tR"),
        "valid-parameter": program(name("torch._utils", "_rebuild_parameter") + tensor() + b"\x88}\x87R"),
        "valid-attributes": program(name("torch._tensor", "_rebuild_from_type_v2") + b"("
                                    + name("torch._utils", "_rebuild_tensor_v2") + name("torch", "Tensor") + b"("
                                    + storage() + number(0) + numbers((4,)) + numbers((1,)) + b"\x89}t}tR"),
        "valid-protocol-4": pickle.dumps({"a": [1, 2.5, None, True, ("x", b"y")]}, protocol=4),
        "valid-view": program(tensor((2,), (1,), view=b"(" + text("v") + number(1) + number(2) + b"t")),
        "valid-others": program(b"(" + name("torch", "Size") + numbers((1, 2)) + b"\x85R" + name("torch", "device")
                                + text("cuda") + number(0) + b"\x86R" + name("torch", "float32") + b"t"),
        # calls
        "call-system": program(name("posix", "system") + text("true") + b"\x85R"),
        "call-inst": program(b"(" + text("true") + b"iposix\nsystem\n"),
        "call-object": program(b"(" + name("posix", "system") + b"o"),
        "call-extension": program(b"\x82\x01"),
        "call-stack-global": b"\x80\x04" + text("posix") + text("system") + b"\x93" + text("true") + b"\x85R.",
        "call-newobj": program(name("collections", "OrderedDict") + b")\x81"),
        "call-tensor": program(tensor() + b")R"),
        # wrong receivers
        "setitem-list": program(b"]" + text("a") + number(1) + b"s"),
        "append-tuple": program(b")" + number(1) + b"a"),
        "build-tensor": program(tensor() + b"}b"),
        "build-dict": program(b"}}b"),
        # tensors outside their storage
        "tensor-offset": program(tensor(offset=1)),
        "tensor-negative": program(tensor((2, 2), (-2, 1))),
        "tensor-stride-0": program(tensor((2**60,), (0,))),
        "tensor-wraps": program(tensor((2**62, 4), (2**62, 1))),
        "tensor-rank-9": program(tensor((1,) * 9, (1,) * 9)),
        "storage-huge": program(tensor(elements=2**62)),
        "storage-two-types": program(b"(" + tensor() + tensor(kind="IntStorage") + b"t"),
        "view-outside": program(tensor((2,), (1,), view=b"(" + text("v") + number(3) + number(2) + b"t")),
        # bombs
        "memo-bomb": program(b"]" + b"q\x00" + b"".join(b"h%c\x86q%c" % (i, i + 1) for i in range(40))),
        "tuple-tower": program(b")" + b"\x85" * 2000),
        "contains-itself": program(b"]q\x00h\x00a"),
        "contains-itself-deeper": program(b"]q\x00]h\x00aa"),
        "long-255": program(b"\x8a\xff" + bytes(255)),
        "long-4": program(b"\x8b\xff\xff\xff\xff"),
        "text-4-gb": program(b"X\xff\xff\xff\xffab"),
        "bytes-8": program(b"\x8e" + b"\xff" * 8 + b"ab"),
        "frame-lie": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
        "memo-4-g": program(b"Nr\xff\xff\xff\xff"),
        "marks": program(b"(" * 500),
        "underflow": program(b"\x86"),
        "pop-through-mark": program(b"N(\x85"),
        "no-stop": b"\x80\x02N",
        "after-stop": program(b"N") + b"N.",
        "get-unset": program(b"h\x07"),
        "key-list": program(b"}]Ns"),
        "key-twice": program(b"}" + text("a") + b"Ns" + text("a") + b"Ns"),
        "names-collide": program(b"}(" + text("a.b") + tensor() + text("a") + b"}" + text("b") + tensor() + b"su"),
        "bare-storage": program(storage()),
        "bare-type": program(name("torch", "FloatStorage")),
        "protocol-0": b"I1\n.",
    }
    for label, data in cases.items():
        write("pickle", label, data)

    magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
    version = program(b"M\xe9\x03")
    machine = program(b"}(" + text("protocol_version") + b"M\xe9\x03" + text("little_endian") + b"\x88u")
    big = program(b"}(" + text("little_endian") + b"\x89u")
    keys = program(b"]" + text("0") + b"a")
    elements = struct.pack("<q4f", 4, 1, 2, 3, 4)
    one = program(b"}" + text("w") + tensor() + b"s")
    legacy = {
        "valid": magic + version + machine + one + keys + elements,
        "valid-nothing": magic + version + machine + program(b"}") + program(b"]"),
        "valid-view": magic + version + machine + cases["valid-view"] + keys + elements,
        "no-magic": one,
        "version": magic + program(b"M\xea\x03") + machine + one + keys + elements,
        "big-endian": magic + version + big + one + keys + elements,
        "fifth-pickle": magic + version + machine + one + program(name("posix", "system")) + elements,
        "storage-unlisted": magic + version + machine + one + program(b"]"),
        "storage-unused": magic + version + machine + program(b"}") + keys + elements,
        "storage-twice": magic + version + machine + one + program(b"]" + (text("0") + b"a") * 2) + elements * 2,
        "storage-size": magic + version + machine + one + keys + struct.pack("<q4f", 5, 1, 2, 3, 4),
        "storage-size-negative": magic + version + machine + one + keys + struct.pack("<q4f", -1, 1, 2, 3, 4),
        "storage-short": (magic + version + machine + one + keys + elements)[:-1],
        "trailing": magic + version + machine + one + keys + elements + b"x",
    }
    for label, data in legacy.items():
        write("pytorch_legacy", label, data)
    make_zip(one)


# --- zip ---------------------------------------------------------------------------------------------------------------


def make_zip(one):
    elements = struct.pack("<4f", 1, 2, 3, 4)

    def archive(files, compression=zipfile.ZIP_STORED, comment=b""):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", compression) as out:
            for label, data in files:
                info = zipfile.ZipInfo(label, (1980, 1, 1, 0, 0, 0))
                info.compress_type = compression
                out.writestr(info, data)
            out.comment = comment
        return buffer.getvalue()

    files = [("m/data.pkl", one), ("m/byteorder", b"little"), ("m/data/0", elements), ("m/version", b"3\n")]
    good = archive(files)
    directory = struct.unpack("<I", good[-6:-2])[0]

    def with_end64(data):
        size, offset = struct.unpack("<II", data[-10:-2])
        count = struct.unpack("<H", data[-12:-10])[0]
        end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, offset)
        locator = struct.pack("<IIQI", 0x07064B50, 0, len(data) - 22, 1)
        return data[:-22] + end64 + locator + data[-22:]

    def patch(data, offset, replacement):
        return data[:offset] + replacement + data[offset + len(replacement):]

    second = good.find(b"PK\x03\x04", 4)
    cases = {
        "valid": good,
        "valid-zip64": with_end64(good),
        "valid-empty": archive([]),
        "no-pickle": archive([("readme.txt", b"hello")]),
        "compressed": archive(files, zipfile.ZIP_DEFLATED),
        "comment": archive(files, comment=b"PK\x05\x06"),
        "two-pickles": archive([("m/data.pkl", one), ("n/data.pkl", one), ("m/data/0", elements)]),
        "case": archive(files + [("m/DATA.PKL", b"N.")]),
        "escape": archive(files + [("m/../../x", b"x")]),
        "absolute": archive(files + [("/x", b"x")]),
        "big-endian": archive([("m/data.pkl", one), ("m/byteorder", b"big"), ("m/data/0", elements)]),
        "storage-short": archive([("m/data.pkl", one), ("m/data/0", elements[:-4])]),
        "storage-missing": archive([("m/data.pkl", one)]),
        "torchscript": archive(files + [("m/constants.pkl", b"N.")]),
        "junk-before": b"junk" + good,
        "junk-behind": good + b"junk",
        "crc": patch(good, 14, b"\0\0\0\0"),
        "local-name": patch(good, 30, b"n/data.pkl"),
        "local-flags": patch(good, 6, b"\x09\x08"),
        "local-size": patch(good, 18, b"\1\0\0\0\1\0\0\0"),
        "overlap": patch(good, directory + 42, struct.pack("<I", second)),
        "offset-64": patch(good, directory + 42, b"\xff\xff\xff\xff"),
        "entries": patch(good, len(good) - 14, b"\xff\xff\xff\xff"),
        "locator-itself": patch(with_end64(good), len(good) + 56 - 22 + 8, struct.pack("<Q", len(good) + 56 - 22)),
        "entries-2-63": patch(with_end64(good), len(good) - 22 + 24, struct.pack("<QQ", 2**63, 2**63)),
    }
    for label, data in cases.items():
        write("pytorch_zip", label, data)
    for path in ("nested.pt", "dtypes.pt", "views.pt", "tied.pt"):
        if (DATA / "pickles" / path).exists():
            write("pytorch_zip", "torch-" + path, (DATA / "pickles" / path).read_bytes())
            legacy = path.replace(".pt", "_legacy.pt")
            write("pytorch_legacy", "torch-" + legacy, (DATA / "pickles" / legacy).read_bytes())


# --- images ------------------------------------------------------------------------------------------------------------


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, extra=b"", interlace=0, compressed=None):
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    data = zlib.compress(rows) if compressed is None else compressed
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def make_png():
    palette = chunk(b"PLTE", bytes(range(6)))
    rgb = b"".join(b"\0" + bytes(range(6)) for _ in range(2))
    cases = {
        "rgb": png(2, 2, 8, 2, rgb),
        "gray1": png(9, 1, 1, 0, b"\0\xaa\x80"),
        "gray16": png(1, 2, 16, 0, b"\0\1\2\0\3\4"),
        "rgba16": png(1, 1, 16, 6, b"\0" + bytes(8)),
        "gray-alpha": png(2, 1, 8, 4, b"\0\1\2\3\4"),
        "palette": png(4, 1, 2, 3, b"\0\x11", palette),
        "palette-transparent": png(4, 1, 2, 3, b"\0\x11", palette + chunk(b"tRNS", b"\0\x80")),
        "interlaced": png(1, 1, 8, 2, b"\0\1\2\3", interlace=1),
        "palette-index": png(4, 1, 8, 3, b"\0\0\1\2\3", palette),
        "palette-missing": png(4, 1, 2, 3, b"\0\x11"),
        "huge": png(2**31 - 1, 2**31 - 1, 16, 6, b"\0"),
        "huge-1-bit": png(20000, 20000, 1, 0, b"\0"),
        "over-area": png(8193, 8193, 8, 0, b"\0"),
        "zero": png(0, 1, 8, 2, b""),
        "crc": png(2, 2, 8, 2, rgb)[:-20] + b"\0\0\0\0" + png(2, 2, 8, 2, rgb)[-16:],
        "data-short": png(2, 2, 8, 2, rgb[:-3]),
        "data-long": png(2, 2, 8, 2, rgb + b"\0" * 100),
        "bad-filter": png(2, 1, 8, 2, b"\x09" + bytes(6)),
        "profile-bomb": png(2, 2, 8, 2, rgb, chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(1 << 20)))),
        "text-bomb": png(2, 2, 8, 2, rgb, chunk(b"zTXt", b"t\0\0" + zlib.compress(bytes(1 << 20)))),
        "cut": png(2, 2, 8, 2, rgb)[:-5],
    }
    for label, data in cases.items():
        write("png", label, data)


def flat_jpeg(side, scans, frame=0xC2):
    """A gray square of one brightness: a bit for a block, and each scan behind the first a few bytes."""
    def segment(marker, body):
        return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body

    def packed(bits):
        bits += "1" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")

    def table(kind, symbol):
        return segment(0xC4, bytes([kind, 1] + [0] * 15 + [symbol]))

    blocks = (side // 8) ** 2
    # Blocks without coefficients: the code 0 and `bits` more are a run of 2^bits and so many more, 10 is one.
    bits = min(blocks.bit_length() - 1, 14)
    skipped, left = "", blocks
    while left >= 1 << bits:
        run = min(left, (2 << bits) - 1)
        skipped += "0" + (format(run - (1 << bits), "b").zfill(bits) if bits else "")
        left -= run
    skipped = packed(skipped + "10" * left)
    result = b"\xff\xd8" + segment(0xDB, bytes(1) + bytes([1] * 64))
    result += segment(frame, struct.pack(">BHHB", 8, side, side, 1) + b"\1\x11\0")
    result += table(0x00, 0) + segment(0xC4, bytes([0x10, 1, 1] + [0] * 14 + [bits << 4, 0x00]))
    result += segment(0xDA, b"\1\1\0\0" + (b"\0" if frame == 0xC2 else b"\x3f") + b"\0") + packed("0" * blocks)
    scan = segment(0xDA, b"\1\1\0\1\x3f\0") + skipped
    return result + scan * scans + b"\xff\xd9"


def make_jpeg():
    write("jpeg", "flat-valid", flat_jpeg(64, 10))
    write("jpeg", "flat-scans", flat_jpeg(512, 400))
    write("jpeg", "arithmetic", flat_jpeg(64, 0, frame=0xC9))
    write("jpeg", "trailing", flat_jpeg(64, 1) + b"bytes behind it")
    for label in ("gray.jpg", "rgb_420.jpg", "rgb_420_progressive.jpg", "rgb_420_restart.jpg", "cmyk.jpg",
                  "rgb_unconverted.jpg", "rgb_422.jpg", "gray_1x1.jpg", "broken_header.jpg"):
        path = DATA / "images" / label
        if not path.exists():
            continue
        data = path.read_bytes()
        write("jpeg", label, data)
        if label == "gray_1x1.jpg":
            frame = data.find(b"\xff\xc0")
            write("jpeg", "huge", data[:frame + 5] + b"\xff\xff\xff\xff" + data[frame + 9:])
            write("jpeg", "zero", data[:frame + 5] + b"\0\0\0\0" + data[frame + 9:])
            write("jpeg", "sampling-0", data[:frame + 11] + b"\0" + data[frame + 12:])
            table = data.find(b"\xff\xc4")
            write("jpeg", "huffman-overfull", data[:table + 5] + b"\xff" * 16 + data[table + 21:])
            write("jpeg", "no-end", data[:-2])
        if label == "rgb_420_progressive.jpg":
            scan = data.find(b"\xff\xda")
            after = data.find(b"\xff", scan + 2)
            while data[after + 1] == 0:
                after = data.find(b"\xff", after + 2)
            write("jpeg", "many-scans", data[:scan] + data[scan:after] * 60 + data[after:])


def make_cifar():
    record = bytes([3]) + bytes(3072)
    write("cifar", "valid", record)
    write("cifar", "empty", b"")
    write("cifar", "partial", record + b"\x01")
    write("cifar", "label-10", bytes([10]) + bytes(3072))


def make_idx():
    def idx(code, sizes, data, start=b"\0\0"):
        return start + bytes([code, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + data

    valid = idx(0x08, [2, 2, 3], bytes(range(12)))
    packed = gzip.compress(valid, mtime=0)
    cases = {
        "valid": valid,
        "valid-f64": idx(0x0E, [2], struct.pack(">2d", 1, 2)),
        "valid-scalar": idx(0x0C, [], struct.pack(">i", 7)),
        "valid-empty": idx(0x08, [0, 28, 28], b""),
        "valid-packed": packed,
        "short": valid[:-1],
        "long": valid + b"\0",
        "header-short": valid[:9],
        "type-unknown": idx(0x0A, [1], b"\0"),
        "start-other": idx(0x08, [1], b"\0", b"\0\1"),
        "rank-9": idx(0x08, [1] * 9, b"\0"),
        "wrap": idx(0x0E, [2**31, 2**31, 2], b""),
        "wrap-zero": idx(0x0E, [0] + [2**32 - 1] * 3, b""),
        "packed-short": packed[:-9],
        "packed-checksum": packed[:-8] + bytes(8),
        "packed-trailing": packed + b"\0",
        "packed-twice": packed + packed,
        "packed-damaged": packed[:12] + b"\xff\xff" + packed[14:],
        "packed-long": gzip.compress(valid + bytes(100000), mtime=0),
        "packed-empty": gzip.compress(b"", mtime=0),
    }
    for name, data in cases.items():
        write("idx", name, data)


# --- WAV ---------------------------------------------------------------------------------------------------------------


def make_wav():
    def chunk(name, content):
        return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)

    def wav(coding, channels, bits, data, extension=b"", frame=None):
        frame = channels * bits // 8 if frame is None else frame
        form = struct.pack("<HHIIHH", coding, channels, 16000, 16000 * frame, frame, bits) + extension
        chunks = chunk(b"fmt ", form) + chunk(b"LIST", b"odd") + chunk(b"data", data)
        return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks

    valid = wav(1, 2, 16, bytes(range(8)))
    cases = {
        "valid": valid,
        "valid-8": wav(1, 1, 8, b"\0\x80\xff"),
        "valid-24": wav(1, 1, 24, bytes(range(6))),
        "valid-float": wav(3, 1, 32, struct.pack("<2f", 1, -0.5)),
        "valid-extensible": wav(0xFFFE, 1, 16, b"abcd", struct.pack("<HHIH", 22, 16, 0, 1) + bytes(14)),
        "valid-empty": wav(1, 1, 16, b""),
        "extensible-short": wav(0xFFFE, 1, 16, b"abcd"),
        "coding-other": wav(0x55, 2, 16, b"abcd"),
        "channels-0": wav(1, 0, 16, b"abcd"),
        "channels-65535": wav(1, 65535, 16, b"abcd", frame=65534),
        "frame-other": wav(1, 1, 16, b"abcd", frame=3),
        "frames-partial": wav(1, 2, 16, b"abc"),
        "short": valid[:-1],
        "data-size-largest": valid[:-12] + b"\xff" * 4 + valid[-8:],
        "header-short": valid[:30],
        "samples-missing": valid[:36],
    }
    for name, data in cases.items():
        write("wav", name, data)


# --- messages between ranks --------------------------------------------------------------------------------------------


def make_dist_message():
    def header(magic, kind, number, text, size):
        return struct.pack("<4sIQIQ", magic, kind, number, text, size)

    cases = {
        "valid": header(b"LSD1", 0, 7, 20, 1 << 20),
        "valid-abort": header(b"LSD1", 1, 2, 4096, 0),
        "magic-other": header(b"LSD2", 0, 7, 20, 4),
        "kind-other": header(b"LSD1", 2, 7, 20, 4),
        "text-long": header(b"LSD1", 0, 7, 4097, 4),
        "abort-with-data": header(b"LSD1", 1, 2, 10, 4),
        "short": header(b"LSD1", 0, 7, 20, 4)[:-1],
    }
    for name, data in cases.items():
        write("dist_message", name, data)


# --- recordings of kernels ---------------------------------------------------------------------------------------------


def make_record():
    head = {"format": "lockstep-record-1", "version": "0.1.0", "kernels": 1}
    kernel = {"ops": "linear + relu: contraction + add + relu", "module": "layer1.0.fc", "dtype": "f32", "shape": [2, 3],
              "hash": "0123456789abcdef", "device": "cpu", "file": "a.cpp", "line": 7}

    def lines(*parts):
        return b"".join((part if isinstance(part, bytes) else json.dumps(part).encode()) + b"\n" for part in parts)

    def without(name):
        return {key: value for key, value in kernel.items() if key != name}

    cases = {
        "valid": lines(head, kernel),
        "valid-nothing": lines({**head, "kernels": 0}),
        "valid-more-fields": lines({**head, "kernels": 2}, {**kernel, "new": [{}]}, {**kernel, "shape": []}),
        "valid-no-line-end": lines(head, kernel)[:-1],
        "empty": b"",
        "empty-line": b"\n",
        "format-other": lines({**head, "format": "lockstep-record-2"}, kernel),
        "format-number": lines({**head, "format": 1}, kernel),
        "kernels-more": lines({**head, "kernels": 2}, kernel),
        "kernels-less": lines({**head, "kernels": 1}, kernel, kernel),
        "kernels-huge": lines({**head, "kernels": 2**64 - 1}, kernel),
        "kernels-absent": lines({"format": head["format"]}, kernel),
        "line-cut": lines(head, kernel)[:-20],
        "line-array": lines(head, [kernel]),
        "deep": lines(head, b'{"ops":' + b"[" * 5000),
        "zero-byte": lines(head, kernel) + b"\0",
        "no-utf-8": lines(head, json.dumps(kernel).encode().replace(b"relu", b"re\xfflu")),
        "field-absent": lines(head, without("hash")),
        "field-twice": lines(head, json.dumps(kernel).encode()[:-1] + b', "hash": 1}'),
        "dtype-other": lines(head, {**kernel, "dtype": "f33"}),
        "shape-negative": lines(head, {**kernel, "shape": [-1]}),
        "shape-fraction": lines(head, {**kernel, "shape": [1.5]}),
        "shape-2-64": lines(head, {**kernel, "shape": [2**64 - 1]}),
        "shape-huge": lines(head, {**kernel, "shape": [2**63 - 1] * 8}),
        "shape-rank": lines(head, {**kernel, "shape": [1] * 100}),
        "hash-short": lines(head, {**kernel, "hash": "0123456789abcde"}),
        "hash-sign": lines(head, {**kernel, "hash": "-123456789abcdef"}),
        "hash-capital": lines(head, {**kernel, "hash": "0123456789ABCDEF"}),
        "line-number-huge": lines(head, {**kernel, "line": 1e300}),
    }
    for name, data in cases.items():
        write("record", name, data)


# --- NumPy -------------------------------------------------------------------------------------------------------------


def npy(text, data=b"", version=(1, 0), length=None):
    text = text.encode()
    count = len(text) if length is None else length
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", count) + text + data


def array(descr, shape, data=b"", order=False, **options):
    return npy(f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n", data, **options)


def archive_of(parts, compression):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        warnings.simplefilter("ignore")  # about names that appear twice
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def deflated(parts):
    return archive_of(parts, zipfile.ZIP_DEFLATED)


def zip_archive(parts):
    return archive_of(parts, zipfile.ZIP_STORED)


def make_npy():
    data = bytes(range(24))
    cases = {
        "valid": array("<f4", "(2, 3)", data),
        "valid-fortran": array("<f4", "(2, 3)", data, True),
        "valid-scalar": array("<i8", "()", bytes(8)),
        "valid-vector": array("|b1", "(3,)", b"\0\1\1"),
        "valid-empty": array("<f2", "(0, 7)"),
        "valid-2": array("<c8", "(3,)", data, version=(2, 0)),
        "valid-3": array("<u2", "(12,)", data, version=(3, 0)),
        "valid-python-2": array("<i4", "(2L, 3L)", data),
        "valid-key-order": npy('{"shape":(6,),"fortran_order":False,"descr":"<u4"}', data),
        "valid-c16": array("<c16", "(1,)", bytes(16)),
        "big-endian": array(">f4", "(2, 3)", data),
        "objects": array("|O", "(3,)", data),
        "text": array("<U2", "(3,)", data),
        "bfloat16": array("<V2", "(12,)", data),
        "structure": npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,), }", data),
        "wrap": array("<f4", f"({2**62}, 4)"),
        "wrap-zero": array("<f4", f"(0, {2**62}, {2**62})"),
        "huge-number": array("<f4", "(99999999999999999999999999,)"),
        "negative": array("<f4", "(-1,)"),
        "rank-9": array("|u1", "(1,1,1,1,1,1,1,1,1)", b"\0"),
        "data-short": array("<f4", "(2, 3)", data[:-1]),
        "data-long": array("<f4", "(2, 3)", data + b"\0"),
        "length-over-file": array("<f4", "(2, 3)", data, length=60000),
        "length-over-limit": array("<f4", "(2, 3)", data, version=(2, 0), length=2**32 - 1),
        "version-4": array("<f4", "(2, 3)", data, version=(4, 0)),
        "no-tuple": array("<f4", "(6)", data),
        "twice": npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", data),
        "missing": npy("{'descr': '<f4', 'shape': (6,)}", data),
        "unknown-key": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", data),
        "code": npy("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (6,)}", data),
        "behind-dict": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} + 1", data),
        "open-string": npy("{'descr': '<f4", data),
        "magic-only": b"\x93NUMPY",
    }
    for label, content in cases.items():
        write("npy", label, content)
    good = [("a.npy", array("<f4", "(2, 3)", data)), ("b.npy", array("<i8", "(3,)", data))]
    packed = deflated(good)
    zeros = array("|u1", "(100000,)", bytes(100000))
    bomb = deflated([("a.npy", zeros)])
    archives = {
        "valid": zip_archive(good),
        "valid-deflated": packed,
        "valid-case": zip_archive([("a.npy", good[0][1]), ("A.npy", good[0][1])]),
        "bomb": bomb,
        "no-array": zip_archive([("a.npy", b"text")]),
        "no-suffix": zip_archive([("a.txt", good[0][1])]),
        "twice": zip_archive([good[0], good[0]]),
        "damaged": packed[:45] + b"\xff" + packed[46:],
        "size-low": bomb.replace(struct.pack("<I", len(zeros)), struct.pack("<I", 1000)),
    }
    for label, content in archives.items():
        write("npz", label, content)


# --- any file, as load_weights takes it ---------------------------------------------------------------------------------


def field(number, value):
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


# --- GGUF ------------------------------------------------------------------------------------------------------------


def gguf_text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(key, kind, data):
    return gguf_text(key) + struct.pack("<I", kind) + data


def gguf_tensor(name, sizes, kind, offset):
    return gguf_text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def gguf(values=(), tensors=(), data=b"", version=3, counts=None, alignment=32):
    counts = counts or (len(tensors), len(values))
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(values) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data if data else head


def make_gguf():
    u32 = struct.Struct("<I").pack
    u64 = struct.Struct("<Q").pack
    name = gguf_value("general.architecture", 8, gguf_text("llama"))
    array = gguf_value("tokenizer.ggml.tokens", 9, u32(8) + u64(2) + gguf_text("a") + gguf_text("b"))
    one = [gguf_tensor("a", [4], 0, 0)]
    block = [gguf_tensor("q", [32, 2], 8, 0)]
    cases = {
        "valid": gguf([name, array], one, bytes(16)),
        "valid-v2": gguf([name], one, bytes(16), version=2),
        "valid-empty": gguf(),
        "valid-blocks": gguf([], block, bytes(68)),
        "valid-two": gguf([], [gguf_tensor("a", [4], 0, 0), gguf_tensor("b", [256], 12, 32)], bytes(32 + 144)),
        "valid-alignment": gguf([gguf_value("general.alignment", 4, u32(64))], one, bytes(16), alignment=64),
        "version-1": gguf(version=1),
        "version-big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "count-tensors": gguf(counts=(2**63, 0)),
        "count-values": gguf(counts=(0, 2**63)),
        "count-over-file": gguf(counts=(5, 5)),
        "text-over-file": gguf([u64(2**63) + b"x"]),
        "text-wraps": gguf([u64(2**64 - 1) + b"x"]),
        "key-empty": gguf([gguf_value("", 4, u32(1))]),
        "key-twice": gguf([name, name]),
        "type-unknown": gguf([gguf_value("a", 13, u32(1))]),
        "bool-2": gguf([gguf_value("a", 7, b"\x02")]),
        "array-over-file": gguf([gguf_value("a", 9, u32(10) + u64(2**61))]),
        "array-texts-over-file": gguf([gguf_value("a", 9, u32(8) + u64(2**60))]),
        "array-nested": gguf([gguf_value("a", 9, u32(9) + u64(1) + u32(9) + u64(0))]),
        "name-long": gguf([], [gguf_tensor("a" * 65, [4], 0, 0)], bytes(16)),
        "name-twice": gguf([], [gguf_tensor("a", [4], 0, 0), gguf_tensor("a", [4], 0, 32)], bytes(48)),
        "rank-5": gguf([], [gguf_tensor("a", [1] * 5, 0, 0)], bytes(16)),
        "size-wraps": gguf([], [gguf_tensor("a", [2**42 + 1, 2**30], 0, 0)], bytes(16)),
        "size-negative": gguf([], [gguf_tensor("a", [2**63], 0, 0)], bytes(16)),
        "size-zero-and-large": gguf([], [gguf_tensor("a", [0, 2**62, 2**62], 0, 0)], bytes(16)),
        "size-over-file": gguf([], [gguf_tensor("a", [2**20], 0, 0)], bytes(16)),
        "element-unknown": gguf([], [gguf_tensor("a", [4], 4, 0)], bytes(16)),
        "row-of-part": gguf([], [gguf_tensor("a", [33], 8, 0)], bytes(68)),
        "offset-over-file": gguf([], [gguf_tensor("a", [4], 0, 2**63)], bytes(16)),
        "offset-unaligned": gguf([], [gguf_tensor("a", [4], 0, 4)], bytes(32)),
        "overlap": gguf([], [gguf_tensor("a", [16], 0, 0), gguf_tensor("b", [4], 0, 32)], bytes(64)),
        "alignment-0": gguf([gguf_value("general.alignment", 4, u32(0))], one, bytes(16)),
        "alignment-3": gguf([gguf_value("general.alignment", 4, u32(3))], one, bytes(16)),
        "alignment-2-31": gguf([gguf_value("general.alignment", 4, u32(2**31))], one, bytes(16)),
        "alignment-text": gguf([gguf_value("general.alignment", 8, gguf_text("32"))], one, bytes(16)),
    }
    # Models of two layers, without what fills most of a file: their descriptions are read all the same.
    sizes = {"embedding_length": 8, "block_count": 2, "feed_forward_length": 16, "context_length": 64,
             "attention.head_count": 2, "attention.head_count_kv": 1}
    mixture = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 8}
    window = {"attention.sliding_window": 4}
    latent = {"attention.kv_lora_rank": 4, "attention.key_length": 6, "attention.value_length": 4,
              "rope.dimension_count": 2}
    more = {"llama": {}, "qwen3moe": mixture, "gemma3": window, "gpt-oss": mixture | window, "modern-bert": window,
            "deepseek2": mixture | latent | {"expert_gating_func": 2, "expert_group_count": 2}, "gpt2": {}, "bert": {},
            "lfm2": {"shortconv.l_cache": 3}, "granite": {}, "falcon": {}, "phi3": {}}
    for label, own in more.items():
        values = [gguf_value("general.architecture", 8, gguf_text(label))]
        values += [gguf_value(f"{label}.{key}", 4, u32(value)) for key, value in (sizes | own).items()]
        values += [gguf_value(f"{label}.rope.scaling.type", 8, gguf_text("yarn")),
                   gguf_value(f"{label}.rope.scaling.factor", 6, struct.pack("<f", 4)),
                   gguf_value(f"{label}.rope.scaling.original_context_length", 4, u32(16))]
        pairs = 1 if label == "deepseek2" else 2
        tensors = [gguf_tensor("position_embd.weight", [8, 4], 0, 0), gguf_tensor("rope_freqs.weight", [pairs], 0, 128)]
        cases[f"model-{label}"] = gguf(values, tensors, bytes(128) + struct.pack("<2f", 1, 2)[:4 * pairs])
    for label, content in cases.items():
        write("gguf", label, content)


# --- ONNX --------------------------------------------------------------------------------------------------------------


def varint(value):
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def pb(number, content):
    """A field of a protocol buffer: bytes, text, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx_node(op, inputs, outputs, more=b""):
    return pb(1, b"".join(pb(1, i) for i in inputs) + b"".join(pb(2, o) for o in outputs) + pb(4, op) + more)


def onnx_model(graph, more=b"", ir=8):
    return pb(1, ir) + pb(7, graph) + pb(8, pb(2, 17)) + more


def onnx_constants():
    """Models without inputs, whose nodes are computed at load: sizes and attributes that ask for too much."""

    def integers(name, values, scalar=False):
        shape = b"" if scalar else pb(1, len(values))
        return pb(5, shape + pb(2, 7) + pb(8, name) + pb(9, b"".join(v.to_bytes(8, "little", signed=True) for v in values)))

    def floats(name, *shape):
        count = 1
        for size in shape:
            count *= size
        return pb(5, b"".join(pb(1, size) for size in shape) + pb(2, 1) + pb(8, name) + pb(9, bytes(4 * count)))

    def settings(**values):
        lists = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
        return b"".join(
            pb(5, pb(1, key) + b"".join(pb(8 if isinstance(values[key], list) else 3, number % 2**64) for number in numbers)
               + pb(20, 7 if isinstance(values[key], list) else 2))
            for key, numbers in lists.items()
        )

    def model(op, constants, outputs=("y",), domain="", **attributes):
        names = [name for name, _ in constants]
        node = onnx_node(op, names, outputs, settings(**attributes) + (pb(7, domain) if domain else b""))
        return onnx_model(node + b"".join(tensor for name, tensor in constants if name) + b"".join(pb(12, pb(1, y)) for y in outputs))

    def sizes(*values):
        return ("s", integers("s", list(values)))

    def number(name, value):
        return (name, integers(name, [value], True))

    x4, one = ("x", floats("x", 1, 1, 4, 4)), ("x", floats("x", 1))
    weight = ("w", floats("w", 1, 1, 2, 2))
    huge = 2**62
    body = onnx_node("Identity", ["i"], ["o"]) + onnx_node("Identity", ["c"], ["d"])
    ends = pb(11, pb(1, "i")) + pb(11, pb(1, "c")) + pb(12, pb(1, "d"))
    truth = pb(5, pb(2, 9) + pb(8, "c") + pb(9, b"\1"))
    branch = lambda name, graph: pb(5, pb(1, name) + pb(6, graph) + pb(20, 5))
    two = onnx_node("Identity", ["x"], ["a"]) + onnx_node("Identity", ["x"], ["b"]) + pb(12, pb(1, "a")) + pb(12, pb(1, "b"))
    sparse = pb(15, pb(1, pb(1, 1) + pb(2, 1) + pb(8, "y") + pb(9, bytes(4))) + pb(2, pb(1, 1) + pb(2, 7) + pb(9, b"\xff" * 8)) + pb(3, 4))
    return {
        "fold-range": model("Range", [number("a", 0), number("b", huge), number("c", 1)]),
        "fold-range-still": model("Range", [number("a", 0), number("b", 9), number("c", 0)]),
        "fold-constant-of-shape": model("ConstantOfShape", [sizes(huge, huge)]),
        "fold-constant-of-shape-large": model("ConstantOfShape", [sizes(2**40)]),
        "fold-constant-of-shape-negative": model("ConstantOfShape", [sizes(-1)]),
        "fold-expand": model("Expand", [one, sizes(2**20, 2**20)]),
        "fold-tile": model("Tile", [one, sizes(2**50)]),
        "fold-tile-negative": model("Tile", [one, sizes(-5)]),
        "fold-reshape-two-unknown": model("Reshape", [x4, sizes(-1, -1)]),
        "fold-reshape-negative": model("Reshape", [x4, sizes(-huge, 4)]),
        "fold-split-sum": model("Split", [x4, sizes(3, 3)], ("y", "z"), axis=2),
        "fold-split-negative": model("Split", [x4, sizes(-huge, huge + 4)], ("y", "z"), axis=2),
        "fold-axis": model("Softmax", [x4], axis=huge),
        "fold-axis-least": model("Concat", [x4], axis=-(2**63)),
        "fold-pads": model("Pad", [x4, ("s", integers("s", [-(2**63)] * 8))]),
        "fold-pads-huge": model("Pad", [x4, ("s", integers("s", [huge] * 8))]),
        "fold-slice": model("Slice", [x4, ("a", integers("a", [-(2**63)])), ("b", integers("b", [2**63 - 1])), ("c", integers("c", [0])), ("d", integers("d", [-(2**63)]))]),
        "fold-gather": model("Gather", [x4, number("i", huge)]),
        "fold-kernel-zero": model("MaxPool", [x4], kernel_shape=[0, 0]),
        "fold-kernel-huge": model("AveragePool", [x4], kernel_shape=[huge, huge], pads=[huge] * 4),
        "fold-stride-zero": model("Conv", [x4, weight], strides=[0, 0]),
        "fold-dilation-huge": model("Conv", [x4, weight], dilations=[huge, huge], pads=[huge] * 4),
        "fold-group-zero": model("Conv", [x4, weight], group=0),
        "fold-group-negative": model("ConvTranspose", [x4, weight], group=-(2**63), strides=[huge, huge]),
        "fold-resize": model("Resize", [x4, ("", b""), ("", b""), ("s", integers("s", [1, 1, 2**40, 2**40]))]),
        "fold-one-hot": model("OneHot", [("i", integers("i", [1])), number("d", huge), ("v", floats("v", 2))]),
        "fold-eye": model("EyeLike", [("x", floats("x", 2, 2))], k=-(2**63)),
        "fold-depth": model("DepthToSpace", [x4], blocksize=2**40),
        "fold-cumsum": model("CumSum", [one, number("a", huge)]),
        "fold-topk": model("TopK", [one, ("k", integers("k", [huge]))], ("y", "z")),
        "fold-transpose": model("Transpose", [x4], perm=[0, 0, 5, -(2**63)]),
        "fold-window": model("HannWindow", [number("n", huge)]),
        "fold-mel": model("MelWeightMatrix", [number("a", 2**21), number("b", 2**21), number("c", 1), ("l", floats("l")), ("h", floats("h"))]),
        "fold-blocks": model("MatMulNBits", [one, ("q", floats("q", 1)), ("r", floats("r", 1))], domain="com.microsoft", N=huge, K=huge, block_size=16),
        "fold-center": model("CenterCropPad", [x4, sizes(2**40, 1, 1, 1)]),
        "fold-loop": onnx_model(onnx_node("Loop", ["n", "c"], [], branch("body", body + ends)) + onnx_node("Identity", ["n"], ["y"])
                                + integers("n", [2**63 - 1], True) + truth + pb(12, pb(1, "y"))),
        "if-branches-differ": onnx_model(onnx_node("If", ["c"], ["y", "z"], branch("then_branch", two) + branch("else_branch", b""))
                                         + truth + floats("x", 1) + pb(12, pb(1, "y")) + pb(12, pb(1, "z"))),
        "sparse-outside": onnx_model(sparse + pb(12, pb(1, "y"))),
        "node-nothing": onnx_model(onnx_node("Relu", [], ["y"]) + pb(12, pb(1, "y"))),
        "node-unnamed": onnx_model(onnx_node("Relu", [""], [""]) + pb(11, pb(1, "x")) + pb(12, pb(1, ""))),
        "name-long": onnx_model(onnx_node("Relu", ["x" * 20000], ["y" * 20000]) + pb(11, pb(1, "x" * 20000)) + pb(12, pb(1, "y" * 20000))),
    }


def make_onnx():
    ends = pb(11, pb(1, "x")) + pb(12, pb(1, "y"))
    relu = onnx_node("Relu", ["x"], ["y"])
    weight = pb(1, 2) + pb(2, 1) + pb(8, "w")
    added = onnx_node("Add", ["x", "w"], ["y"])
    nested = relu
    for _ in range(80):
        nested = onnx_node("If", ["x"], ["y"], pb(5, pb(1, "then_branch") + pb(6, nested) + pb(20, 5)))
    recursive = pb(25, pb(1, "F") + pb(4, "a") + pb(5, "b") + pb(7, pb(1, "a") + pb(2, "b") + pb(4, "F") + pb(7, "o")) + pb(10, "o"))
    doubling = b"".join(
        pb(25, pb(1, f"F{i}") + pb(4, "a") + pb(5, "c") + pb(10, "o")
           + b"".join(pb(7, pb(1, a) + pb(2, b) + pb(4, f"F{i + 1}") + pb(7, "o")) for a, b in (("a", "b"), ("b", "c"))))
        for i in range(40)
    )
    branches = pb(5, pb(1, "then_branch") + pb(6, onnx_node("Relu", ["later"], ["t"]) + pb(12, pb(1, "t"))) + pb(20, 5))
    cases = {
        "valid": onnx_model(relu + ends),
        "valid-weight": onnx_model(added + pb(5, weight + pb(9, bytes(8))) + ends),
        "valid-floats": onnx_model(added + pb(5, weight + pb(4, bytes(8))) + ends),
        "ir-2": onnx_model(relu + ends, ir=2),
        "graph-twice": onnx_model(relu + ends, pb(7, relu)),
        "group": onnx_model(relu + ends + b"\x0b"),
        "varint-long": onnx_model(relu + ends) + b"\x28" + b"\xff" * 11,
        "length-over-file": pb(1, 8) + b"\x3a\xff\xff\xff\xff\x0f",
        "dims-wrap": onnx_model(added + pb(5, pb(1, 2**62) + pb(1, 4) + pb(2, 1) + pb(8, "w")) + ends),
        "dims-zero-large": onnx_model(added + pb(5, pb(1, 0) + pb(1, 2**62) + pb(2, 1) + pb(8, "w")) + ends),
        "dims-negative": onnx_model(added + pb(5, pb(1, 2**64 - 1) + pb(2, 1) + pb(8, "w")) + ends),
        "elements-short": onnx_model(added + pb(5, weight + pb(9, bytes(4))) + ends),
        "elements-twice": onnx_model(added + pb(5, weight + pb(9, bytes(8)) + pb(4, bytes(8))) + ends),
        "elements-none": onnx_model(added + pb(5, weight) + ends),
        "type-99": onnx_model(added + pb(5, pb(1, 1) + pb(2, 99) + pb(8, "w")) + ends),
        "external": onnx_model(added + pb(5, weight + pb(13, pb(1, "location") + pb(2, "../../x")) + pb(14, 1)) + ends),
        "external-key": onnx_model(added + pb(5, weight + pb(13, pb(1, "__class__") + pb(2, "x")) + pb(14, 1)) + ends),
        "initialiser-made": onnx_model(added + pb(5, pb(1, 1) + pb(2, 1) + pb(8, "y") + pb(9, bytes(4))) + ends),
        "reads-itself": onnx_model(onnx_node("Relu", ["y"], ["y"]) + ends),
        "cycle": onnx_model(onnx_node("Relu", ["b"], ["a"]) + onnx_node("Relu", ["a"], ["b"]) + ends),
        "captures-later": onnx_model(onnx_node("If", ["x"], ["y"], branches) + onnx_node("Relu", ["x"], ["later"]) + ends),
        "nested": onnx_model(nested + ends),
        "function-recursive": onnx_model(onnx_node("F", ["x"], ["y"], pb(7, "o")) + ends, recursive),
        "function-doubling": onnx_model(onnx_node("F0", ["x"], ["y"], pb(7, "o")) + ends, doubling),
        "attribute-value-and-reference": onnx_model(onnx_node("Relu", ["x"], ["y"], pb(5, pb(1, "a") + pb(3, 1) + pb(21, "b"))) + ends),
        "attribute-twice": onnx_model(onnx_node("Relu", ["x"], ["y"], 2 * pb(5, pb(1, "a") + pb(3, 1))) + ends),
        "attribute-two-types": onnx_model(onnx_node("Relu", ["x"], ["y"], pb(5, pb(1, "a") + pb(3, 1) + pb(4, "b"))) + ends),
        "opsets-many": onnx_model(relu + ends, b"".join(pb(8, pb(1, f"d{i}") + pb(2, 1)) for i in range(300))),
        "nodes-empty": onnx_model(pb(1, b"") * 1000 + ends),
    }
    for label, content in (cases | onnx_constants()).items():
        write("onnx", label, content)


# --- tokenizer.json ----------------------------------------------------------------------------------------------------


def make_tokenizer():
    bpe = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "?": 3}, "merges": ["a b"], "unk_token": "?"}
    unigram = {"type": "Unigram", "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2]], "unk_id": 0}
    words = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}, "unk_token": "[UNK]"}
    added = {"id": 4, "content": "<s>", "special": True, "lstrip": True, "rstrip": True, "single_word": True}
    split = {"type": "Split", "pattern": {"Regex": r"(?i:'s)|\p{L}+|\p{N}{1,3}|\s+(?!\S)|[^\s]"}, "behavior": "Isolated"}

    def file(model, **parts):
        return json.dumps({"model": model, **parts}, separators=(",", ":")).encode()

    cases = {
        "valid-bpe": file(bpe, added_tokens=[added]),
        "valid-unigram": file(unigram, normalizer={"type": "NFKC"}, pre_tokenizer={"type": "Metaspace"}),
        "valid-word-piece": file(words, normalizer={"type": "BertNormalizer"}, pre_tokenizer={"type": "BertPreTokenizer"},
                                 post_processor={"type": "BertProcessing", "cls": ["a", 1], "sep": ["a", 1]}),
        "valid-byte-level": file({**bpe, "byte_fallback": True}, decoder={"type": "ByteLevel"}, pre_tokenizer={
            "type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel", "use_regex": False}]}),
        "valid-template": file(bpe, post_processor={"type": "TemplateProcessing", "special_tokens": {"x": {"ids": [3]}},
                                                    "single": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}]}),
        "deep": b"[" * 1000,
        "id-huge": file({**bpe, "vocab": {"a": 2**63}}),
        "id-negative": file({**bpe, "vocab": {"a": -1}}),
        "id-far": file({**bpe, "vocab": {"a": 2**23}}),
        "added-twice": file(bpe, added_tokens=[{**added, "id": 0}]),
        "merge-absent": file({**bpe, "merges": ["a c"]}),
        "merge-number": file({**bpe, "merges": [1]}),
        "scores-nan": b'{"model":{"type":"Unigram","vocab":[["a",1e999]]}}',
        "unknown-id": file({**unigram, "unk_id": 3}),
        "template-absent": file(bpe, post_processor={"type": "TemplateProcessing", "special_tokens": {"x": {"ids": [9]}},
                                                     "single": [{"SpecialToken": {"id": "x"}}]}),
        "regex-exponential": file(bpe, pre_tokenizer={**split, "pattern": {"Regex": "(\\w|\\w\\w|l)+\\d\\d\\d\\d\\d"}}),
        "regex-nested": file(bpe, pre_tokenizer={**split, "pattern": {"Regex": "(" * 500}}),
        "regex-count": file(bpe, pre_tokenizer={**split, "pattern": {"Regex": "a{1000}{1000}{1000}"}}),
        "replace-empty": file(bpe, normalizer={"type": "Replace", "pattern": {"String": ""}, "content": "x"}),
        "prepend": file(bpe, normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "x" * 50}] * 50}),
    }
    for label, content in cases.items():
        write("tokenizer", label, content)


def make_vocabulary():
    def piece(text, kind, score=b"\0\0\x80\xbf"):
        return field(1, field(1, text) + b"\x15" + score + field(3, kind))

    model = piece(b"<unk>", 2) + piece(b"\xe2\x96\x81a", 1) + piece(b"a", 1) + piece(b"b", 4) + piece(b"ab", 5) + piece(b"aa", 1)
    # An empty double array, one that points far away, one that maps "a" to "b".
    tables = {"empty": b"\0\0\0\0", "far": b"\4\0\0\0" + b"\xff" * 4 + b"x\0",
              "maps": b"\4\2\0\0" + b"\0\4\0\0" + bytes(380) + b"a\5\0\0" + bytes(124) + b"b\0"}
    ranks = b"".join(base64.b64encode(bytes([b])) + b" %d\n" % b for b in range(256))
    cases = {"valid-unigram": model, "valid-bpe": model + field(2, field(3, 2)), "valid-tiktoken": ranks + b"YWI= 256\n",
             "bytes-missing": b"QQ== 0\n", "rank-far": ranks + b"YWI= 99999999\n", "not-base64": ranks + b"Y 3\n",
             "piece-twice": model + piece(b"a", 1), "score-nan": model + piece(b"c", 1, b"\0\0\xc0\x7f"),
             "type": model + piece(b"c", 9), "length": model + b"\x0a\x7f", "varint": b"\x0a" + b"\xff" * 12}
    cases |= {f"table-{label}": model + field(3, bytes([0x12]) + varint(len(table)) + table) if len(table) < 100 else
              model + b"\x1a" + varint(len(table) + 3) + b"\x12" + varint(len(table)) + table
              for label, table in tables.items()}
    for label, content in cases.items():
        write("vocabulary", label, content)


def make_weights():
    one = array("<f4", "(2, 3)", bytes(range(24)))
    onnx = field(1, 8) + field(2, b"pytorch") + field(7, b"graph") + field(8, b"opset")
    cases = {
        "safetensors": safetensors({"__metadata__": {"a": "b"}, "w": entry("F32", [1], 0, 4)}, bytes(4)),
        "npy-fortran": array("<f4", "(2, 3)", bytes(range(24)), True),
        "npz": zip_archive([("w.npy", one)]),
        "npz-deflated": deflated([("w.npy", one)]),
        "torchscript": zip_archive([("m/data.pkl", program(b"N")), ("m/constants.pkl", program(b"N"))]),
        "keras": zip_archive([("config.json", b"{}"), ("model.weights.h5", b"x")]),
        "pytorch": zip_archive([
            ("m/data.pkl", program(b"}(" + text("state_dict") + b"}" + text("module.w") + tensor() + b"s"
                                   + text("epoch") + b"K\x03" + text("none") + b"N" + text("lr") + b"G" + bytes(8) + b"u")),
            ("m/data/0", bytes(16)),
        ]),
        "pickle": program(b"}"),
        "gguf": b"GGUF\3" + bytes(19),
        "onnx": onnx,
        "onnx-cut": onnx[:-3],
        "onnx-long": onnx + b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "saved-model": field(1, 1) + field(2, b"graph"),
        "graph": field(1, b"node") + field(4, b"v"),
        "tflite": b"\x1c\0\0\0TFL3" + bytes(8),
        "empty": b"",
    }
    for label, content in cases.items():
        write("weights", label, content)


if __name__ == "__main__":
    make_safetensors()
    make_npy()
    make_pickle()
    make_png()
    make_jpeg()
    make_cifar()
    make_idx()
    make_wav()
    make_dist_message()
    make_record()
    make_gguf()
    make_onnx()
    make_tokenizer()
    make_vocabulary()
    make_weights()
    total = sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file())
    print(f"{total} bytes in {CORPUS}")
