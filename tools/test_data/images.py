"""PNG and JPEG files of many kinds and the pixels to expect from them.

PNG files come from the small encoder below, since Pillow writes few kinds; their truth is what was encoded, and
Pillow must read the same. The truth of a JPEG file is Pillow's decoding (libjpeg-turbo: accurate integer DCT,
smooth chroma upsampling).
"""
import io
import json
import struct
import warnings
import zlib

import numpy as np
import PIL
from PIL import Image

from .files import clear, save_safetensors
from .pictures import picture

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


# ---- a PNG encoder ---------------------------------------------------------------------------------------------

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_row(row, depth):
    """Samples [W, C] as bytes, most significant first."""
    samples = row.reshape(-1)
    if depth == 16:
        return samples.astype(">u2").tobytes()
    if depth == 8:
        return samples.astype(np.uint8).tobytes()
    bits = (samples[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.reshape(-1).astype(np.uint8)).tobytes()


def filter_row(kind, row, above, step):
    def paeth(a, b, c):
        p = a + b - c
        distances = abs(p - a), abs(p - b), abs(p - c)
        return (a, b, c)[distances.index(min(distances))]

    out = bytearray([kind])
    for i, x in enumerate(row):
        a = row[i - step] if i >= step else 0
        b = above[i]
        c = above[i - step] if i >= step else 0
        out.append((x - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) % 256)
    return bytes(out)


def scanlines(samples, depth, filters):
    """Filtered rows of one (sub)picture; the filters take turns."""
    if 0 in samples.shape:
        return b""
    step = max(1, samples.shape[2] * depth // 8)
    rows = [pack_row(row, depth) for row in samples]
    above = bytes(len(rows[0]))
    out = b""
    for y, row in enumerate(rows):
        out += filter_row(filters[y % len(filters)], row, above, step)
        above = row
    return out


def encode_png(samples, depth, colour, interlace=False, palette=None, transparency=None, filters=(0, 1, 2, 3, 4),
               level=9, strategy=zlib.Z_DEFAULT_STRATEGY, idat_bytes=None, extra=()):
    """`samples` [H, W, C] of unsigned integers below 2^depth. `extra` are further chunks before the data."""
    height, width = samples.shape[:2]
    parts = [samples[y::dy, x::dx] for y, x, dy, dx in ADAM7] if interlace else [samples]
    raw = b"".join(scanlines(part, depth, filters) for part in parts)
    coder = zlib.compressobj(level, zlib.DEFLATED, 15, 8, strategy)
    data = coder.compress(raw) + coder.flush()
    out = b"\x89PNG\r\n\x1a\n"
    out += chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlace)))
    out += b"".join(chunk(*pair) for pair in extra)
    if palette is not None:
        out += chunk(b"PLTE", np.asarray(palette, np.uint8).tobytes())
    if transparency is not None:
        out += chunk(b"tRNS", transparency)
    idat_bytes = idat_bytes or len(data)
    for start in range(0, len(data), idat_bytes):
        out += chunk(b"IDAT", data[start:start + idat_bytes])
    return out + chunk(b"IEND", b"")


# ---- what a reader must make of it -----------------------------------------------------------------------------

def expected(samples, depth, colour, palette=None, transparency=None):
    """([H, W, 3] u8, [H, W, 4] u8 or None): 16 bits keep their high byte, fewer than 8 are spread over 0..255."""
    alpha = None
    if colour == PALETTE:
        rgb = np.asarray(palette, np.uint8)[samples[..., 0]]
        if transparency is not None:
            table = np.frombuffer(transparency.ljust(len(palette), b"\xff"), np.uint8)
            alpha = table[samples[..., 0]]
        return rgb, None if alpha is None else np.dstack([rgb, alpha])
    small = samples >> 8 if depth == 16 else samples * (255 // (2 ** depth - 1))
    channels = 1 if colour in (GRAY, GRAY_ALPHA) else 3
    rgb = np.broadcast_to(small[..., :channels], (*small.shape[:2], 3)).astype(np.uint8)
    if colour in (GRAY_ALPHA, RGBA):
        alpha = small[..., -1]
    elif transparency is not None:
        key = np.frombuffer(transparency, ">u2")
        alpha = np.where((samples == key).all(-1), 0, 255)
    return rgb, None if alpha is None else np.dstack([rgb, alpha]).astype(np.uint8)


def check_with_pillow(name, data, depth, rgb, rgba):
    image = Image.open(io.BytesIO(data))
    if image.mode.startswith("I"):  # 16-bit gray, which Pillow keeps whole
        read = np.repeat((np.asarray(image).astype(np.int64) >> 8)[..., None], 3, 2)
    else:
        with warnings.catch_warnings(action="ignore"):  # Pillow advises against RGB where a palette has alpha
            read = np.asarray(image.convert("RGB"))
    assert (read == rgb).all(), f"Pillow reads {name} differently"
    if rgba is not None:
        assert (np.asarray(image.convert("RGBA")) == rgba).all(), f"Pillow reads the alpha of {name} differently"


# ---- the files -------------------------------------------------------------------------------------------------

def samples_of(height, width, channels, depth, seed, noise=20):
    rng = np.random.default_rng(seed)
    if depth == 16:
        return rng.integers(0, 65536, (height, width, channels))
    return picture(height, width, channels, seed, noise).astype(np.int64) >> (8 - depth)


def png_files():
    """(name, arguments of encode_png)."""
    rng = np.random.default_rng(5)
    colours = rng.integers(0, 256, (256, 3))

    def make(name, depth, colour, size=(9, 13), seed=0, noise=20, **options):
        channels = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}[colour]
        samples = samples_of(*size, channels, depth, seed, noise)
        return name, dict(samples=samples, depth=depth, colour=colour, **options)

    for depth in (1, 2, 4, 8, 16):
        yield make(f"gray{depth}", depth, GRAY, seed=depth)
        yield make(f"gray{depth}_interlaced", depth, GRAY, seed=20 + depth, interlace=True)
    for depth in (1, 2, 4, 8):
        size = (16, 16) if depth == 8 else (9, 13)
        yield make(f"palette{depth}", depth, PALETTE, size, 30 + depth, palette=colours[:2 ** depth])
    for depth in (8, 16):
        yield make(f"gray_alpha{depth}", depth, GRAY_ALPHA, seed=40 + depth)
        yield make(f"rgb{depth}", depth, RGB, seed=50 + depth)
        yield make(f"rgba{depth}", depth, RGBA, seed=60 + depth)
        yield make(f"rgba{depth}_interlaced", depth, RGBA, seed=70 + depth, interlace=True)
    yield make("palette4_transparent", 4, PALETTE, seed=80, palette=colours[:16], transparency=bytes([0, 128, 255, 7]))
    yield make("palette4_interlaced", 4, PALETTE, seed=81, palette=colours[:16], interlace=True)
    name, gray = make("gray8_transparent", 8, GRAY, seed=82)
    yield name, gray | {"transparency": struct.pack(">H", gray["samples"][4, 4, 0])}
    name, rgb = make("rgb8_transparent", 8, RGB, seed=83)
    yield name, rgb | {"transparency": struct.pack(">3H", *rgb["samples"][4, 4])}
    yield make("rgb8_interlaced_1x1", 8, RGB, (1, 1), 84, interlace=True)
    yield make("rgb8_interlaced_3x2", 8, RGB, (3, 2), 85, interlace=True)
    yield make("gray1_1x1", 1, GRAY, (1, 1), 86)
    yield make("rgb8_stored", 8, RGB, seed=87, level=0)
    yield make("rgb8_fixed_huffman", 8, RGB, seed=88, noise=0, strategy=zlib.Z_FIXED)
    yield make("rgb8_dynamic_huffman", 8, RGB, (31, 23), seed=92, noise=4, strategy=zlib.Z_HUFFMAN_ONLY)
    yield make("rgb8_repeats", 8, RGB, (30, 40), seed=91, noise=0)
    yield make("rgb8_many_idat", 8, RGB, seed=89, idat_bytes=7)
    yield make("rgb8_ancillary", 8, RGB, seed=90, extra=[(b"gAMA", struct.pack(">I", 45455)), (b"tEXt", b"Title\0t"),
                                                         (b"pHYs", struct.pack(">IIB", 1, 1, 0)), (b"prVt", b"\0\1")])


def broken_files():
    """(name with extension, bytes) of files that a reader must refuse with an error."""
    good = encode_png(samples_of(9, 13, 3, 8, 1), 8, RGB)
    idat = good.index(b"IDAT")

    def header(width, height, depth, colour):
        return (good[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
                + good[idat - 4:])

    yield "broken_crc.png", good[:idat + 20] + bytes([good[idat + 20] ^ 1]) + good[idat + 21:]
    yield "broken_truncated.png", good[:idat + 60]
    yield "broken_short_data.png", header(13, 10, 8, RGB)  # one row more than there is
    yield "broken_zero_width.png", header(0, 9, 8, RGB)
    yield "broken_huge.png", header(2 ** 31 - 1, 2 ** 31 - 1, 8, RGB)
    yield "broken_depth.png", header(13, 9, 3, GRAY)
    yield "broken_colour.png", header(13, 9, 4, RGB)
    yield "broken_no_palette.png", header(13, 9, 8, PALETTE)
    yield "broken_no_data.png", good[:idat - 4] + chunk(b"IEND", b"")
    yield "broken_signature.png", b"\x89PNG\n\x1a\n\0" + good[8:]
    rows = b"\5" + bytes(39)  # filter type 5 does not exist
    yield "broken_filter.png", (good[:idat - 4] + chunk(b"IDAT", zlib.compress(rows * 9)) + chunk(b"IEND", b""))
    jpeg = io.BytesIO()
    Image.fromarray(picture(16, 16, 3, 1)).save(jpeg, "JPEG")
    yield "broken_header.jpg", jpeg.getvalue()[:100]
    yield "empty.png", b""


def jpeg_files():
    """(name, mode, [H, W, C] u8, Pillow's options of saving)."""
    colour = picture(19, 27, 3, 200, noise=5)
    gray = picture(19, 27, 1, 201, noise=5)[..., 0]
    yield "rgb_444", "RGB", colour, dict(quality=90, subsampling=0)
    yield "rgb_422", "RGB", colour, dict(quality=90, subsampling=1)
    yield "rgb_420", "RGB", colour, dict(quality=90, subsampling=2)
    yield "rgb_420_16x16", "RGB", colour[:16, :16], dict(quality=75, subsampling=2)
    yield "rgb_420_optimized", "RGB", colour, dict(quality=40, subsampling=2, optimize=True)
    yield "rgb_420_restart", "RGB", colour, dict(quality=90, subsampling=2, restart_marker_blocks=1)
    yield "rgb_420_progressive", "RGB", colour, dict(quality=90, subsampling=2, progressive=True)
    yield "rgb_444_progressive", "RGB", colour, dict(quality=100, subsampling=0, progressive=True)
    yield "rgb_unconverted", "RGB", colour, dict(quality=90, subsampling=0, keep_rgb=True)
    yield "gray", "L", gray, dict(quality=90)
    yield "gray_progressive", "L", gray, dict(quality=90, progressive=True)
    yield "gray_1x1", "L", gray[:1, :1], dict(quality=90)
    yield "cmyk", "CMYK", picture(9, 18, 4, 202, noise=5), dict(quality=90)


def write(out):
    folder = clear(out / "images", "*.png", "*.jpg", "*.safetensors")
    tensors = {}
    for name, options in png_files():
        name += ".png"
        data = encode_png(**options)
        (folder / name).write_bytes(data)
        if "huffman" in name or "stored" in name:
            block = (data[data.index(b"IDAT") + 6] >> 1) & 3  # how deflate says its first block is coded
            assert block == ["stored", "fixed", "dynamic"].index(name[5:-4].split("_")[0]), name
        facts = {k: options[k] for k in ("samples", "depth", "colour", "palette", "transparency") if k in options}
        rgb, rgba = expected(**facts)
        check_with_pillow(name, data, options["depth"], rgb, rgba)
        tensors[name] = rgb
        if rgba is not None:
            tensors[f"{name}.rgba"] = rgba
        if options["depth"] == 16:
            tensors[f"{name}.u16"] = options["samples"].astype(np.uint16)
    for name, mode, pixels, options in jpeg_files():
        name += ".jpg"
        Image.fromarray(pixels, mode).save(folder / name, "JPEG", **options)
        tensors[name] = np.array(Image.open(folder / name).convert("RGB"))
    refuse = []
    for name, data in broken_files():
        (folder / name).write_bytes(data)
        refuse.append(name)
    save_safetensors(folder / "expected.safetensors", tensors, {
        "names": "<file>: [H, W, 3] u8, alpha dropped; <file>.rgba: [H, W, 4] u8, where the file has alpha; "
                 "<file>.u16: all samples of a 16-bit file",
        "refuse": json.dumps(refuse),
        "source": f"Pillow {PIL.__version__}",
    })
