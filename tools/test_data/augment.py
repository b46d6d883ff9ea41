"""The ops of RandAugment on pictures of bytes, by torchvision."""
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.autoaugment import RandAugment, _apply_op

from .files import save_safetensors

# Op -> magnitudes; the names are torchvision's and their order the library's. No turn by 30 degrees: its sine of one half
# puts pixels exactly between two others, where the last bit of a coordinate decides.
OPS = {
    "Identity": [0], "ShearX": [0.09, -0.3], "ShearY": [0.09, -0.3], "TranslateX": [3.7, -2.2], "TranslateY": [3.7, -2.2],
    "Rotate": [9, -27], "Brightness": [0.27, -0.9], "Color": [0.27, -0.9], "Contrast": [0.27, -0.9],
    "Sharpness": [0.27, -0.9], "Posterize": [7, 4], "Solarize": [178.5, 0], "AutoContrast": [0], "Equalize": [0],
}
FILL = 77.0


def pictures():
    generator = torch.Generator().manual_seed(30)
    noise = torch.randint(0, 256, (3, 19, 23), generator=generator, dtype=torch.uint8)
    # Few values in one corner of the range, for contrast and equalisation.
    dark = torch.randint(40, 120, (3, 26, 17), generator=generator, dtype=torch.uint8)
    return {"noise": noise, "dark": dark, "grey": dark[:1].clone(), "flat": torch.full((3, 4, 5), 9, dtype=torch.uint8)}


def write(out):
    tensors = {f"picture.{name}": picture for name, picture in pictures().items()}
    for name, picture in pictures().items():
        for op, magnitudes in OPS.items():
            for i, magnitude in enumerate(torch.tensor(magnitudes, dtype=torch.float32).tolist()):
                result = _apply_op(picture.clone(), op, magnitude, InterpolationMode.NEAREST, [FILL] * len(picture))
                tensors[f"{name}.{op}.{i}"] = result
    for op, magnitudes in OPS.items():
        tensors[f"magnitude.{op}"] = torch.tensor(magnitudes, dtype=torch.float32)
    for bins in (31, 10):
        space = RandAugment()._augmentation_space(bins, (19, 23))
        tensors[f"space.{bins}"] = torch.stack(
            [values.float() if values.ndim else values.float().expand(bins) for values, _ in space.values()])
        tensors[f"signed.{bins}"] = torch.tensor([int(signed) for _, signed in space.values()])
    save_safetensors(out / "augment.safetensors", tensors, {
        "names": "picture.<name>, <name>.<op>.<i>: after the op with magnitude i; space.<bins> [op, magnitude] of a "
                 "picture of 19 x 23",
        "source": "torchvision.transforms.autoaugment on uint8 tensors"})
