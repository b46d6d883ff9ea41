#!/usr/bin/env python3
"""Makes tests/data/: small files whose truth comes from Pillow and PyTorch, for tests to compare with.

    resize.safetensors  pictures and their antialiased bilinear and bicubic resizings by Pillow
    images/             PNG and JPEG files of many kinds, broken ones too, and the pixels Pillow reads
    cases/              one operation each, evaluated by PyTorch in float64 (the format of `lockstep-case-1`)
    optim.safetensors   optimisers, learning-rate schedules and clipping by torch.optim
    layers.safetensors  layers of torch.nn: outputs and gradients by PyTorch in float64
    packed.safetensors  blocks of packed weights and their values by the gguf package
    q8.safetensors      products with packed weights in q8 numerics, by exact fractions
    habits.safetensors  what PyTorch makes of the lines in tests/graph/habits_test.cpp and tests/nn/habits_test.cpp
    augment.safetensors the ops of RandAugment by torchvision
    pickles/            zip and legacy torch.save files with unusual contents, and a JSON of what they hold

tests/data/README.md describes the names inside the files. Everything is deterministic: the same versions of the
libraries write the same bytes, and the versions used stand in versions.json. A part is rewritten whole.

Needs: torch, torchvision, numpy, pillow, gguf.
"""
import argparse
import json
import pathlib
import platform
from importlib.metadata import version

import numpy
import PIL
import torch

from test_data import augment, cases, habits, images, layers, optim, packed, pickles, q8, resize

PARTS = {"resize": resize.write, "images": images.write, "cases": cases.write, "pickles": pickles.write,
         "optim": optim.write, "layers": layers.write, "packed": packed.write, "habits": habits.write,
         "augment": augment.write, "q8": q8.write}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data", help="folder to write")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), help="write these parts only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.only:
        PARTS[part](options.out)
    versions = {"python": platform.python_version(), "numpy": numpy.__version__, "pillow": PIL.__version__,
                "gguf": version("gguf"), "torch": torch.__version__.split("+")[0],
                "torchvision": version("torchvision").split("+")[0]}
    (options.out / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    files = [f for f in options.out.rglob("*") if f.is_file()]
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes in {options.out}")


if __name__ == "__main__":
    main()
