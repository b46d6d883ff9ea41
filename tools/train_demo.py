#!/usr/bin/env python3
"""Makes the demo classifier: draws its data set, trains it, and writes assets/demo/.

The pictures are 32x32 RGB drawings of ten simple shapes on varied backgrounds, with random colour, place, size,
rotation, shear, shadow and noise. Every pixel comes from this script, so the data set needs no download and no
licence. The network is the CIFAR ResNet of depth 8 (one basic block per stage, 16/32/64 channels, option-A
shortcuts), trained with PyTorch; its input is RGB/255 normalised with the ImageNet mean and deviation.

Written files: weights.safetensors (convolutions and classifier f16, batch norm f32), labels.txt and images/*.png
(drawn from seeds that training never sees). All seeds are fixed; results repeat on one machine and PyTorch build.

Needs: torch, numpy, pillow, safetensors. Takes a few minutes on one CPU core.
"""
import argparse
import colorsys
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFilter
from safetensors.torch import load_file, save_file
from torch import nn

LABELS = ["circle", "square", "triangle", "star", "cross", "heart", "arrow", "ring", "crescent", "spiral"]
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
SIZE = 32
OVERSAMPLE = 4  # shapes are drawn this much larger and averaged down, which smooths their edges
TRAIN_SEED, VALIDATION_SEED, SAMPLE_SEED = 1, 2, 3


# ---- drawing ---------------------------------------------------------------------------------------------------

def polar(radii, start=-math.pi / 2):
    """Points at equally spaced angles with the given radii."""
    step = 2 * math.pi / len(radii)
    return [(r * math.cos(start + i * step), r * math.sin(start + i * step)) for i, r in enumerate(radii)]


def outlines(name, rng):
    """The shape within the unit circle: a list of (ink, polygon), painted in order; ink 0 cuts a hole."""
    if name == "circle":
        return [(1, polar([0.95] * 48))]
    if name == "square":
        s = 0.75
        return [(1, [(-s, -s), (s, -s), (s, s), (-s, s)])]
    if name == "triangle":
        apex = rng.uniform(-0.25, 0.25)
        return [(1, [(apex, -0.95), (0.9, 0.7), (-0.9, 0.7)])]
    if name == "star":
        return [(1, polar([1.0, rng.uniform(0.38, 0.48)] * 5))]
    if name == "cross":
        a, b = rng.uniform(0.22, 0.32), 0.95
        return [(1, [(-a, -b), (a, -b), (a, b), (-a, b)]), (1, [(-b, -a), (b, -a), (b, a), (-b, a)])]
    if name == "heart":
        t = np.linspace(0, 2 * math.pi, 60, endpoint=False)
        x = 16 * np.sin(t) ** 3
        y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
        return [(1, [(float(u), float(v)) for u, v in zip(x / 17, (y - 2) / 17)])]
    if name == "arrow":
        a, head, back = rng.uniform(0.16, 0.26), rng.uniform(0.55, 0.7), rng.uniform(-0.1, 0.15)
        return [(1, [(-1, -a), (back, -a), (back, -head), (1, 0), (back, head), (back, a), (-1, a)])]
    if name == "ring":
        return [(1, polar([0.95] * 48)), (0, polar([rng.uniform(0.5, 0.66)] * 48))]
    if name == "crescent":
        shift, radius = rng.uniform(0.38, 0.55), rng.uniform(0.72, 0.82)
        return [(1, polar([0.95] * 48)), (0, [(x + shift, y) for x, y in polar([radius] * 48)])]
    if name == "spiral":
        turns, width = rng.uniform(1.9, 2.3), rng.uniform(0.11, 0.14)
        t = np.linspace(0.0, 1.0, 90)
        angle, radius = 2 * math.pi * turns * t, 0.06 + 0.82 * t
        side = [[(float((r + w) * math.cos(a)), float((r + w) * math.sin(a))) for a, r in zip(angle, radius)]
                for w in (-width, width)]
        return [(1, [side[0][i], side[0][i + 1], side[1][i + 1], side[1][i]]) for i in range(len(t) - 1)]
    raise ValueError(f"unknown shape: {name}")


def shape_mask(name, rng, smallest):
    """Coverage of the shape, [SIZE, SIZE] in 0..1, at a random place, size and angle."""
    side = SIZE * OVERSAMPLE
    radius = rng.uniform(max(smallest, 0.36 if name == "spiral" else 0), 0.47)
    angle = rng.uniform(0, 2 * math.pi)
    if name not in ("arrow", "crescent", "spiral"):
        angle = rng.uniform(-0.5, 0.5)  # mostly upright, as people draw them
    shear, squeeze = rng.uniform(-0.15, 0.15), rng.uniform(0.85, 1.0)
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    room = max(0.0, 0.49 - radius)
    centre = 0.5 + rng.uniform(-room, room, 2)
    cos, sin = math.cos(angle), math.sin(angle)

    def place(point):
        x, y = mirror * point[0] + shear * point[1], squeeze * point[1]
        return ((centre[0] + radius * (cos * x - sin * y)) * side, (centre[1] + radius * (sin * x + cos * y)) * side)

    image = Image.new("L", (side, side), 0)
    draw = ImageDraw.Draw(image)
    for ink, polygon in outlines(name, rng):
        draw.polygon([place(p) for p in polygon], fill=255 * ink)
    return np.asarray(image.reduce(OVERSAMPLE), np.float32) / 255


def colour(rng):
    return np.array(colorsys.hsv_to_rgb(rng.random(), rng.uniform(0.0, 0.95), rng.uniform(0.15, 1.0)), np.float32)


def background(rng, base):
    """A [SIZE, SIZE, 3] backdrop around the colour `base`."""
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) / SIZE
    angle = rng.uniform(0, math.pi)
    ramp = x * math.cos(angle) + y * math.sin(angle)
    other = np.clip(base + rng.uniform(-0.22, 0.22, 3).astype(np.float32), 0, 1)
    kind = rng.integers(6)
    if kind == 0:    # plain
        mix = np.zeros_like(x)
    elif kind == 1:  # a soft ramp
        mix = (ramp - ramp.min()) / (ramp.max() - ramp.min())
    elif kind == 2:  # stripes
        mix = (np.sin(ramp * rng.uniform(15, 40)) > 0).astype(np.float32) * 0.6
    elif kind == 3:  # a chessboard
        cells = rng.integers(3, 8)
        mix = ((np.floor(x * cells) + np.floor(y * cells)) % 2) * 0.6
    elif kind == 4:  # clouds
        coarse = Image.fromarray((rng.random((6, 6)) * 255).astype(np.uint8))
        mix = np.asarray(coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.float32) / 255
    else:            # a horizon
        mix = (ramp > rng.uniform(0.3, 0.7) * ramp.max()).astype(np.float32)
    return base + (other - base) * mix[..., None]


def draw_picture(name, rng, noise=0.06, smallest=0.28):
    """One [SIZE, SIZE, 3] u8 picture of the shape called `name`."""
    mask = shape_mask(name, rng, smallest)
    ink, base = colour(rng), colour(rng)
    while np.linalg.norm(ink - base) < 0.55:
        ink, base = colour(rng), colour(rng)
    picture = background(rng, base)
    if rng.random() < 0.5:  # a soft shadow, down and to the right
        shadow = Image.fromarray((mask * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(1.0))
        shadow = np.roll(np.asarray(shadow, np.float32) / 255, (1, 1), (0, 1))
        picture = picture * (1 - 0.4 * shadow[..., None])
    y = np.linspace(1, -1, SIZE, dtype=np.float32)[:, None, None]
    lit = np.clip(ink + rng.uniform(0, 0.12) * y, 0, 1)  # lighter above, darker below
    picture = picture + (lit - picture) * mask[..., None]
    picture = picture + rng.normal(0, rng.uniform(0, noise), picture.shape)
    return (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)


def draw_set(count, seed):
    """`count` pictures [N, SIZE, SIZE, 3] u8 and their labels, the classes taking turns."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % len(LABELS)
    return np.stack([draw_picture(LABELS[k], rng) for k in labels]), labels


# ---- network ---------------------------------------------------------------------------------------------------

class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.padding = 0 if stride == 1 else outputs // 4

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.padding:  # option A: every second pixel, zero channels on both sides
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.padding, self.padding))
        return F.relu(out + x)


class ResNet8(nn.Module):
    def __init__(self, classes=len(LABELS)):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(BasicBlock(16, 16, 1))
        self.layer2 = nn.Sequential(BasicBlock(16, 32, 2))
        self.layer3 = nn.Sequential(BasicBlock(32, 64, 2))
        self.linear = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def to_input(pictures):
    """[N, H, W, 3] u8 to the normalised [N, 3, H, W] f32 the network takes."""
    x = torch.from_numpy(np.asarray(pictures)).permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(DEVIATION).view(1, 3, 1, 1)


def predict(model, pictures):
    """Class probabilities [N, classes]."""
    model.eval()
    with torch.no_grad():
        return torch.cat([model(to_input(p)) for p in np.array_split(pictures, -(-len(pictures) // 250))]).softmax(1)


def train(model, pictures, labels, epochs, batch=64):
    x, y = to_input(pictures), torch.from_numpy(labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, epochs * (len(x) // batch))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        order = torch.randperm(len(x))
        for step in range(len(x) // batch):
            pick = order[step * batch:(step + 1) * batch]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}: mean loss {total / (len(x) // batch):.4f}", flush=True)


def stored(state):
    """The state as it is written: convolution and classifier weights f16, the rest as it is."""
    return {k: v.half() if ".bn" not in f".{k}" else v for k, v in state.items()}


def write_samples(model, folder):
    """Two pictures of two shapes and one of each other, the first clear ones that the model is sure of."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    for label, name in enumerate(LABELS):
        rng = np.random.default_rng([SAMPLE_SEED, label])
        wanted = [f"{name}.png"] + ([f"{name}_2.png"] if name in ("star", "heart") else [])
        while wanted:
            picture = draw_picture(name, rng, noise=0.02, smallest=0.38)
            confidence = predict(model, picture[None])[0, label].item()
            if confidence > 0.99:
                path = folder / wanted.pop(0)
                Image.fromarray(picture).save(path, optimize=True)
                print(f"{path.name}: {confidence:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=pathlib.Path, default=root / "assets/demo", help="folder to write")
    parser.add_argument("--train", type=int, default=16000, help="number of training pictures")
    parser.add_argument("--validation", type=int, default=2000, help="number of validation pictures")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sheet", type=pathlib.Path, help="only draw 100 pictures into this PNG, and stop")
    parser.add_argument("--samples-only", action="store_true", help="use the weights in --out; redraw the samples")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    if options.sheet:
        pictures, _ = draw_set(100, VALIDATION_SEED)
        sheet = pictures.reshape(10, 10, SIZE, SIZE, 3).swapaxes(1, 2).reshape(10 * SIZE, 10 * SIZE, 3)
        Image.fromarray(sheet).save(options.sheet)
        return

    model = ResNet8()
    weights = options.out / "weights.safetensors"
    if not options.samples_only:
        train(model, *draw_set(options.train, TRAIN_SEED), options.epochs)
        options.out.mkdir(parents=True, exist_ok=True)
        save_file(stored(model.state_dict()), weights, metadata={"format": "pt"})
        (options.out / "labels.txt").write_text("\n".join(LABELS) + "\n")

    model.load_state_dict(load_file(weights))  # judged as a reader of the file sees it, rounded to f16
    pictures, labels = draw_set(options.validation, VALIDATION_SEED)
    right = predict(model, pictures).argmax(1).numpy() == labels
    print(f"validation: {right.sum()} of {len(labels)} right ({100 * right.mean():.2f} %), "
          f"{weights.stat().st_size} bytes")
    for label, name in enumerate(LABELS):
        print(f"  {name}: {100 * right[labels == label].mean():.1f} %")
    write_samples(model, options.out / "images")


if __name__ == "__main__":
    main()
