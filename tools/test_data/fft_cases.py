"""Cases of Fourier transforms, with gradients.

Outputs and gradients are PyTorch's in float64 from the inputs as stored; f32 inputs give the f32 rounding of the truth.
`atol_output` and `atol_grad` are 2e-14 (f64) and 4e-6 (f32) of the largest magnitude of all outputs (or gradients) of
the case; istft, which divides by small weights, has ten times that.
"""
import json
import zlib

import torch

from .files import save_safetensors

F64, F32 = torch.float64, torch.float32
RELATIVE = {F64: 2e-14, F32: 4e-6}


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return torch.randn(shape, generator=generator, dtype=F64)


class GradientWriter:
    """Writes each case in f64 and in f32."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name, op, inputs, attrs=None, run=None, constant=()):
        for dtype, word in ((F64, "f64"), (F32, "f32")):
            self.write(f"{name}_{word}", op, {k: v.to(dtype) for k, v in inputs.items()}, attrs or {}, run, constant, dtype)

    def write(self, name, op, inputs, attrs, run, constant, dtype):
        path = self.folder / f"{name}.safetensors"
        assert not path.exists(), f"two cases are called {name}"
        leaves = {k: v.double().requires_grad_(k not in constant) for k, v in inputs.items()}
        output = run(*leaves.values(), **attrs)
        cotangent = normal(*output.shape, seed=name).to(dtype)
        wanted = [k for k in inputs if k not in constant]
        gradients = torch.autograd.grad((output * cotangent.double()).sum(), [leaves[k] for k in wanted])
        relative = RELATIVE[dtype] * (10 if op == "istft" else 1)
        tensors = dict(inputs) | {"output": output.detach().to(dtype), "cotangent.output": cotangent}
        tensors |= {f"grad.{k}": g.to(dtype) for k, g in zip(wanted, gradients)}
        save_safetensors(path, tensors, {
            "format": "lockstep-case-1", "op": op, "attrs": json.dumps(attrs),
            "inputs": json.dumps(list(inputs)), "outputs": json.dumps(["output"]),
            "cotangents": json.dumps({"output": "cotangent.output"}),
            "grads": json.dumps(wanted), "atol_output": repr(relative * output.abs().max().item()),
            "atol_grad": repr(relative * max(g.abs().max().item() for g in gradients)),
            "source": f"PyTorch {torch.__version__.split('+')[0]}, float64",
        })


def pairs(function):
    """A transform of complex numbers as one of pairs."""
    return lambda x, **attrs: torch.view_as_real(function(torch.view_as_complex(x), **attrs))


def to_pairs(function):
    return lambda x, **attrs: torch.view_as_real(function(x, **attrs))


def from_pairs(function):
    return lambda x, **attrs: function(torch.view_as_complex(x), **attrs)


def write_transforms(case):
    fft = torch.fft
    for n in (1, 2, 3, 12, 67, 100, 131, 262, 384):
        x = normal(3, n, 2, seed=f"fft{n}")
        case(f"fft_fft_{n}", "fft.fft", {"x": x}, run=pairs(fft.fft))
        case(f"fft_ifft_{n}", "fft.ifft", {"x": x}, run=pairs(fft.ifft))
        case(f"fft_rfft_{n}", "fft.rfft", {"x": x[..., 0].contiguous()}, run=to_pairs(fft.rfft))
        half = x[:, :n // 2 + 1].contiguous()
        case(f"fft_irfft_{n}", "fft.irfft", {"x": half}, {"n": n}, run=from_pairs(fft.irfft))
    x = normal(3, 8, 10, 2, seed="fft options")
    for norm in ("ortho", "forward"):
        case(f"fft_fft_{norm}", "fft.fft", {"x": x}, {"norm": norm, "dim": 0}, run=pairs(fft.fft))
        case(f"fft_ifft_{norm}", "fft.ifft", {"x": x}, {"norm": norm, "dim": 1, "n": 6}, run=pairs(fft.ifft))
        case(f"fft_rfft_{norm}", "fft.rfft", {"x": x}, {"norm": norm, "dim": -2, "n": 13}, run=to_pairs(fft.rfft))
        case(f"fft_irfft_{norm}", "fft.irfft", {"x": x}, {"norm": norm, "dim": 0, "n": 7}, run=from_pairs(fft.irfft))
    # More and fewer elements than there are, where the transform has two stages.
    for n in (70, 132):
        case(f"fft_fft_cut_{n}", "fft.fft", {"x": normal(2, 100, 2, seed="cut")}, {"n": n}, run=pairs(fft.fft))
        case(f"fft_rfft_cut_{n}", "fft.rfft", {"x": normal(2, 100, 3, seed="cut")}, {"n": n, "dim": 1},
             run=to_pairs(fft.rfft))
        case(f"fft_irfft_cut_{n}", "fft.irfft", {"x": normal(2, 51, 2, seed="cut")}, {"n": n}, run=from_pairs(fft.irfft))
    case("fft_fft2", "fft.fft2", {"x": x}, run=pairs(fft.fft2))
    case("fft_ifft2", "fft.ifft2", {"x": x}, {"norm": "ortho"}, run=pairs(fft.ifft2))
    case("fft_rfft2", "fft.rfft2", {"x": x[..., 0].contiguous()}, run=to_pairs(fft.rfft2))
    case("fft_irfft2", "fft.irfft2", {"x": x}, run=from_pairs(fft.irfft2))
    options = {"s": [5, 12], "dim": [2, 0], "norm": "forward"}
    case("fft_fft2_options", "fft.fft2", {"x": x}, options, run=pairs(fft.fft2))
    case("fft_ifft2_options", "fft.ifft2", {"x": x}, options, run=pairs(fft.ifft2))
    case("fft_rfft2_options", "fft.rfft2", {"x": x[..., 0].contiguous()}, options, run=to_pairs(fft.rfft2))
    case("fft_irfft2_options", "fft.irfft2", {"x": x}, options, run=from_pairs(fft.irfft2))


def write_frames(case):
    def stft(x, window=None, **attrs):
        return torch.view_as_real(torch.stft(x, window=window, return_complex=True, **attrs))

    def istft(x, window=None, **attrs):
        return torch.istft(torch.view_as_complex(x), window=window, **attrs)

    signal = normal(2, 60, seed="stft")
    window = torch.hann_window(12, dtype=F64) + 0.1
    case("stft_plain", "stft", {"x": signal}, {"n_fft": 16}, run=stft)
    case("stft_window", "stft", {"x": signal[0].contiguous(), "window": window},
         {"n_fft": 16, "hop_length": 5, "win_length": 12, "normalized": True}, run=stft, constant=("window",))
    case("stft_two_sided", "stft", {"x": signal}, {"n_fft": 10, "hop_length": 4, "onesided": False, "center": False},
         run=stft)
    case("stft_odd", "stft", {"x": signal}, {"n_fft": 15, "hop_length": 7, "win_length": 11}, run=stft)
    for mode in ("replicate", "circular"):
        case(f"stft_{mode}", "stft", {"x": signal}, {"n_fft": 12, "pad_mode": mode}, run=stft)
    frames = normal(2, 9, 11, 2, seed="istft")
    case("istft_plain", "istft", {"x": frames}, {"n_fft": 16}, run=istft)
    case("istft_window", "istft", {"x": frames, "window": window},
         {"n_fft": 16, "hop_length": 3, "win_length": 12, "normalized": True, "length": 25}, run=istft,
         constant=("window",))
    case("istft_two_sided", "istft", {"x": normal(16, 6, 2, seed="istft2")}, {"n_fft": 16, "onesided": False}, run=istft)
    case("istft_odd", "istft", {"x": normal(2, 8, 6, 2, seed="istft3")}, {"n_fft": 15, "hop_length": 5, "length": 50},
         run=istft)


def write(folder):
    case = GradientWriter(folder)
    write_transforms(case)
    write_frames(case)
