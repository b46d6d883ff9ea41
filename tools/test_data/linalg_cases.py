"""Cases of linear algebra, with gradients.

Outputs and gradients are PyTorch's in float64 from the inputs as stored; f32 inputs give the f32 rounding of the truth.
Eigenvectors and singular vectors are stored without their signs, which nothing determines. The matrices are far from
singular and their spectra are separated, so that the condition of each case is moderate; `atol_output` and `atol_grad`
are 2e-12 (f64) and 1e-4 (f32) of the largest magnitude of all outputs (or gradients) of the case.
"""
import json
import zlib

import torch

from .files import save_safetensors

F64, F32 = torch.float64, torch.float32
RELATIVE = {F64: 2e-12, F32: 1e-4}


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return torch.randn(shape, generator=generator, dtype=F64)


class GradientWriter:
    """Writes each case in f64 and in f32."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name, op, inputs, attrs=None, run=None, outputs=("output",), constant=()):
        for dtype, word in ((F64, "f64"), (F32, "f32")):
            self.write(f"{name}_{word}", op, {k: v.to(dtype) for k, v in inputs.items()}, attrs or {}, run, outputs,
                       constant, dtype)

    def write(self, name, op, inputs, attrs, run, outputs, constant, dtype):
        path = self.folder / f"{name}.safetensors"
        assert not path.exists(), f"two cases are called {name}"
        leaves = {k: v.double().requires_grad_(k not in constant) for k, v in inputs.items()}
        result = run(*leaves.values(), **attrs)
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        assert len(values) == len(outputs), name
        cotangents = {}
        total = 0
        for key, value in zip(outputs, values):
            if not value.requires_grad:
                continue
            cotangents[f"cotangent.{key}"] = normal(*value.shape, seed=name + key).to(dtype)
            total = total + (value * cotangents[f"cotangent.{key}"].double()).sum()
        wanted = [k for k in inputs if k not in constant]
        gradients = torch.autograd.grad(total, [leaves[k] for k in wanted])
        # Only the symmetric part of a symmetric operand's gradient means anything.
        if op == "linalg.eigh" or op == "linalg.eigvalsh":
            gradients = [(g + g.mT) / 2 for g in gradients]
        magnitude = max([v.detach().abs().max().item() for v in values if v.numel()] or [0.0]) or 1.0
        slope = max([g.abs().max().item() for g in gradients if g.numel()] or [0.0])
        tensors = dict(inputs) | {k: v.detach().to(dtype) for k, v in zip(outputs, values)} | cotangents
        tensors |= {f"grad.{k}": g.to(dtype) for k, g in zip(wanted, gradients)}
        save_safetensors(path, tensors, {
            "format": "lockstep-case-1", "op": op, "attrs": json.dumps(attrs),
            "inputs": json.dumps(list(inputs)), "outputs": json.dumps(list(outputs)),
            "cotangents": json.dumps({k.removeprefix("cotangent."): k for k in cotangents}),
            "grads": json.dumps(wanted), "atol_output": repr(RELATIVE[dtype] * magnitude),
            "atol_grad": repr(RELATIVE[dtype] * slope),
            "source": f"PyTorch {torch.__version__.split('+')[0]}, float64",
        })


def spread(m, n, seed):
    """[m, n] with singular values from 1 to 3."""
    u, _ = torch.linalg.qr(normal(m, min(m, n), seed=seed))
    v, _ = torch.linalg.qr(normal(n, min(m, n), seed=seed + "v"))
    return (u * torch.linspace(1, 3, min(m, n), dtype=F64)) @ v.mT


def batch(m, n, seed, count=2):
    return torch.stack([spread(m, n, f"{seed}{i}") for i in range(count)])


def write_linalg(case):
    linalg = torch.linalg
    for n in (1, 5, 40):
        a = batch(n, n, f"square{n}")
        case(f"linalg_solve_{n}", "linalg.solve", {"a": a, "b": normal(2, n, 3, seed=f"b{n}")}, run=linalg.solve)
        case(f"linalg_inv_{n}", "linalg.inv", {"a": a}, run=linalg.inv)
        case(f"linalg_det_{n}", "linalg.det", {"a": a * 0.5}, run=linalg.det)
        case(f"linalg_slogdet_{n}", "linalg.slogdet", {"a": a}, run=lambda a: tuple(linalg.slogdet(a)),
             outputs=("sign", "logabs"))
        case(f"linalg_cholesky_{n}", "linalg.cholesky", {"a": a @ a.mT}, run=linalg.cholesky)
        case(f"linalg_eigvalsh_{n}", "linalg.eigvalsh", {"a": a @ a.mT}, run=linalg.eigvalsh)

        def eigh(a):
            values, vectors = linalg.eigh(a)
            return values, vectors.abs()

        case(f"linalg_eigh_{n}", "linalg.eigh", {"a": a @ a.mT}, run=eigh, outputs=("values", "vectors"))
    case("linalg_solve_vector", "linalg.solve", {"a": spread(4, 4, "sv"), "b": normal(4, seed="sv")}, run=linalg.solve)
    case("linalg_solve_vectors", "linalg.solve", {"a": batch(4, 4, "sv"), "b": normal(2, 4, seed="sv")}, run=linalg.solve)
    case("linalg_solve_broadcast", "linalg.solve", {"a": batch(4, 4, "sb"), "b": normal(3, 1, 4, 2, seed="sb")},
         run=linalg.solve)
    case("linalg_cholesky_upper", "linalg.cholesky", {"a": batch(6, 6, "cu") @ batch(6, 6, "cu").mT}, {"upper": True},
         run=linalg.cholesky)
    # A determinant of 0 whose gradient is the matrix of cofactors.
    integers = torch.tensor([[1, 2, 3], [4, 5, 6], [5, 7, 9]], dtype=F64)
    case("linalg_det_singular", "linalg.det", {"a": integers}, run=lambda a: (
        a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]) - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
        + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])))
    for upper in (True, False):
        for unit in (True, False):
            t = (normal(2, 7, 7, seed="tri") * 0.3 + 2 * torch.eye(7, dtype=F64))
            case(f"linalg_solve_triangular_{'upper' if upper else 'lower'}{'_unit' if unit else ''}",
                 "linalg.solve_triangular", {"a": t, "b": normal(2, 7, 2, seed="trib")},
                 {"upper": upper, "unitriangular": unit},
                 run=lambda a, b, upper, unitriangular: linalg.solve_triangular(
                     a, b, upper=upper, unitriangular=unitriangular))
    for m, n in ((7, 4), (5, 5), (4, 7), (45, 37), (37, 45)):
        a = batch(m, n, f"rect{m}{n}")
        case(f"linalg_qr_{m}x{n}", "linalg.qr", {"a": a}, run=lambda a: tuple(linalg.qr(a)), outputs=("q", "r"))

        def svd(a):
            u, s, vh = linalg.svd(a, full_matrices=False)
            return u.abs(), s, vh.abs()

        case(f"linalg_svd_{m}x{n}", "linalg.svd", {"a": a}, run=svd, outputs=("u", "s", "vh"))
        case(f"linalg_svdvals_{m}x{n}", "linalg.svdvals", {"a": a}, run=linalg.svdvals)
        case(f"linalg_lstsq_{m}x{n}", "linalg.lstsq", {"a": a, "b": normal(2, m, 3, seed=f"ls{m}")},
             run=lambda a, b: linalg.pinv(a) @ b)
    case("linalg_qr_complete", "linalg.qr", {"a": batch(4, 7, "qc")}, {"mode": "complete"},
         run=lambda a, mode: tuple(linalg.qr(a, mode=mode)), outputs=("q", "r"))


def write(folder):
    write_linalg(GradientWriter(folder))
