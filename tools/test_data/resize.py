"""Resizing as Pillow does it: BILINEAR and BICUBIC (a = -0.5), both antialiased when shrinking, rounded to u8."""
import json

import numpy as np
from PIL import Image
import PIL

from .files import save_safetensors
from .pictures import picture

# Source (height, width, channels, noise), then the sizes (height, width) it is resized to.
CASES = [
    ((23, 35, 3, 20), [(40, 45), (13, 20)]),
    ((53, 37, 1, 20), [(70, 61), (13, 64)]),
    ((80, 110, 1, 40), [(26, 35)]),
    ((64, 96, 1, 10), [(32, 48), (24, 24)]),
    ((5, 7, 3, 60), [(2, 3), (1, 1), (5, 7), (7, 5)]),
    ((1, 17, 1, 60), [(4, 4), (1, 3)]),
    ((23, 64, 3, 0), [(23, 17), (9, 64)]),
    ((1, 1, 3, 0), [(6, 4)]),
]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def write(out):
    tensors = {}
    for index, ((height, width, channels, noise), sizes) in enumerate(CASES):
        source = picture(height, width, channels, seed=100 + index, noise=noise)
        if index == 2:  # white noise in one half: the hardest thing to shrink
            source[:, width // 2:] = np.random.default_rng(7).integers(0, 256, (height, width - width // 2, channels))
        tensors[f"src.{index}"] = source
        image = Image.fromarray(source if channels == 3 else source[..., 0])
        for name, resampling in FILTERS.items():
            for h, w in sizes:
                result = np.asarray(image.resize((w, h), resampling))
                tensors[f"{index}.{name}.{h}x{w}"] = result.reshape(h, w, channels)
    save_safetensors(out / "resize.safetensors", tensors, {
        "names": "src.<i> is a source, <i>.<filter>.<height>x<width> its resizing; all [H, W, C] u8",
        "source": f"Pillow {PIL.__version__}, Image.resize",
        "filters": json.dumps(list(FILTERS)),
    })
