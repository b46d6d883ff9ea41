"""Operation cases: inputs, keyword arguments and the outputs of PyTorch, one safetensors file each.

PyTorch evaluates the outputs in float64 from the inputs as stored, rounded once to the type that it returns.
`atol_output` is the largest absolute difference a right implementation may show: 0 for operations that only move,
select or count; for float32 8 times the error of PyTorch's own float32 result, and at least 4e-6 of the largest
magnitude; for float16 and bfloat16 one unit in the last place of the largest magnitude; for float64 1e-13 of it.
Infinities and NaN must stand in the same places; zeros of either sign are equal. Only fft_cases.py and linalg_cases.py have gradients. No
input or expected output is subnormal, since implementations may flush those.
"""
import json
import zlib

import torch
import torch.nn.functional as F

from . import fft_cases, linalg_cases, model_cases
from .files import clear, save_safetensors
from .order_cases import write_indexing, write_order

INF, NAN = float("inf"), float("nan")
F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
UNIT = {F16: 2.0 ** -10, BF16: 2.0 ** -7}


class Writer:
    """Evaluates cases and writes them to a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name, op, inputs, attrs=None, run=None, exact=False, outputs=("output",)):
        """`inputs` {name: tensor}; `run` takes the inputs in order and the attributes as keywords."""
        path = self.folder / f"{name}.safetensors"
        assert not path.exists(), f"two cases are called {name}"
        attrs = attrs or {}
        run = run or getattr(torch, op)
        values = list(inputs.values())
        native = self.evaluate(run, values, attrs)
        truth = self.evaluate(run, [v.double() if v.is_floating_point() else v for v in values], attrs)
        truth = [t.to(n.dtype) for t, n in zip(truth, native)]
        assert len(truth) == len(outputs), name
        tolerance = 0.0
        for t, n in zip(truth, native):
            same = torch.equal(torch.nan_to_num(t, 0.0), torch.nan_to_num(n, 0.0)) if t.is_floating_point() else True
            assert same or not exact, f"{name}: float64 and {n.dtype} differ though the operation is exact"
            if t.is_floating_point() and not exact:
                tolerance = max(tolerance, self.tolerance(t, n))
        for tensor in (*values, *truth):
            if tensor.dtype in (F32, BF16, F64):
                tiny = (tensor != 0) & (tensor.abs() < 1.2e-38)
                assert not tiny.any(), f"{name}: holds a subnormal"
        save_safetensors(path, inputs | dict(zip(outputs, truth)), {
            "format": "lockstep-case-1", "op": op, "attrs": json.dumps(attrs),
            "inputs": json.dumps(list(inputs)), "outputs": json.dumps(list(outputs)),
            "cotangents": "{}", "grads": "[]", "atol_output": repr(tolerance), "atol_grad": "0.0",
            "source": f"PyTorch {torch.__version__.split('+')[0]}, float64",
        })

    @staticmethod
    def evaluate(run, values, attrs):
        with torch.no_grad():
            result = run(*[v.clone() for v in values], **attrs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    @staticmethod
    def tolerance(truth, native):
        finite = truth.isfinite()
        magnitude = truth[finite].double().abs().max().item() if finite.any() else 0.0
        if truth.dtype in UNIT:
            return UNIT[truth.dtype] * magnitude
        if truth.dtype == F64:
            return 1e-13 * magnitude
        error = (truth.double() - native.double())[finite & native.isfinite()].abs()
        return max(4e-6 * magnitude, 8 * error.max().item() if error.numel() else 0.0)


def normal(*shape, seed, dtype=F32, scale=1.0, offset=0.0):
    """Normally distributed values; `seed` is a text, so that cases do not disturb each other."""
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return (torch.randn(shape, generator=generator, dtype=F64) * scale + offset).to(dtype)


def small_integers(*shape, seed, low=-4, high=5, dtype=F32):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def tensor(values, dtype=F32):
    return torch.tensor(values, dtype=dtype)


def short(dtype):
    return {F64: "f64", F32: "f32", F16: "f16", BF16: "bf16", torch.int64: "i64", torch.int32: "i32",
            torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}[dtype]


# ---- convolution and pooling -----------------------------------------------------------------------------------

def padded(function):
    """A convolution with the further attribute `pad`: zeros around the input first."""
    def run(*values, pad=None, **attrs):
        values = list(values)
        if pad:
            values[0] = F.pad(values[0], pad)
        return function(*values, **attrs)
    return run


def write_convolutions(case):
    def conv(name, op, x, w, bias=True, dtype=F32, **attrs):
        inputs = {"input": normal(*x, seed=name, dtype=dtype), "weight": normal(*w, seed=name + "w", dtype=dtype)}
        if bias:
            inputs["bias"] = normal(w[0], seed=name + "b", dtype=dtype)
        full = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | attrs
        case(name, op, inputs, full, padded(getattr(F, op)))

    conv("conv2d_groups_dilation_stride", "conv2d", (1, 4, 9, 8), (6, 2, 3, 2), groups=2, dilation=[2, 1],
         stride=[2, 1], padding=[1, 2])
    conv("conv2d_asymmetric_pad", "conv2d", (2, 3, 5, 6), (2, 3, 3, 3), pad=[0, 2, 3, 1], stride=[2, 3])
    conv("conv2d_asymmetric_pad_dilation_groups", "conv2d", (1, 4, 6, 7), (4, 2, 2, 3), pad=[2, 1, 0, 1], groups=2,
         dilation=2, bias=False)
    conv("conv2d_depthwise_multiplier_stride", "conv2d", (2, 3, 6, 5), (6, 1, 3, 2), groups=3, stride=2, padding=1)
    conv("conv2d_depthwise_dilation", "conv2d", (1, 3, 7, 7), (3, 1, 3, 3), groups=3, dilation=3, padding=2, bias=False)
    conv("conv2d_pointwise_stride", "conv2d", (1, 5, 5, 7), (3, 5, 1, 1), stride=2)
    conv("conv2d_padding_beyond_input", "conv2d", (1, 1, 2, 2), (1, 1, 3, 3), padding=4)
    conv("conv2d_empty_batch", "conv2d", (0, 3, 4, 4), (2, 3, 3, 3), padding=1)
    conv("conv1d_groups_dilation_stride", "conv1d", (2, 4, 15), (6, 2, 3), groups=2, dilation=2, stride=2, padding=3)
    conv("conv1d_asymmetric_pad", "conv1d", (1, 3, 8), (2, 3, 4), pad=[1, 4], stride=3, dilation=2)
    conv("conv1d_depthwise", "conv1d", (1, 5, 9), (5, 1, 3), groups=5, padding=2, bias=False)
    conv("conv1d_bf16", "conv1d", (1, 3, 10), (2, 3, 3), padding=1, dtype=BF16)
    for dtype in (F64, F16, BF16):
        conv(f"conv2d_{short(dtype)}", "conv2d", (1, 4, 5, 6), (3, 4, 3, 3), padding=1, stride=2, dtype=dtype)


def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return F.max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def write_pools(case):
    def pool(name, x, indices=True, **attrs):
        attrs |= {"return_indices": True} if indices else {}
        case(name, "max_pool2d", {"input": x}, attrs, max_pool2d, exact=True,
             outputs=("output", "indices") if indices else ("output",))

    x = normal(1, 2, 8, 9, seed="max_pool2d")
    pool("max_pool2d_dilation", x, kernel_size=3, stride=1, dilation=2, padding=1)
    pool("max_pool2d_dilation_ceil", x, kernel_size=[2, 3], stride=[3, 2], dilation=[2, 1], padding=1, ceil_mode=True)
    pool("max_pool2d_ceil_drops_window", x[:, :, :7, :7], kernel_size=3, stride=3, padding=1, ceil_mode=True)
    pool("max_pool2d_default_stride", x, kernel_size=[3, 2])
    pool("max_pool2d_ties", small_integers(1, 1, 6, 6, seed="ties", low=0, high=2), kernel_size=3, stride=1)
    low = x.clone()
    low[0, 0] = -INF
    low[0, 1, :4] = -INF
    pool("max_pool2d_minus_infinity", low, kernel_size=3, stride=2, padding=1)
    mixed = x.clone()
    mixed[0, 0, 2, 3] = NAN
    mixed[0, 1, 0, 0] = NAN
    mixed[0, 1, 7, 8] = INF
    mixed[0, 1, 4, 4] = -INF
    pool("max_pool2d_nan", mixed, indices=False, kernel_size=3, stride=2, padding=1, ceil_mode=True)
    for dtype in (F16, BF16):
        pool(f"max_pool2d_{short(dtype)}", x[:, :, :5, :6].to(dtype), kernel_size=2, stride=2, padding=1)

    def average(name, x, **attrs):
        case(name, "avg_pool2d", {"input": x}, attrs, F.avg_pool2d)

    for count in (True, False):
        word = "counted" if count else "uncounted"
        average(f"avg_pool2d_padding_{word}", x, kernel_size=3, stride=2, padding=1, count_include_pad=count)
        average(f"avg_pool2d_ceil_{word}", x, kernel_size=[3, 2], stride=[2, 3], padding=1, ceil_mode=True,
                count_include_pad=count)
    average("avg_pool2d_divisor_ceil", x, kernel_size=3, stride=2, ceil_mode=True, divisor_override=5)
    for dtype in (F16, BF16):
        average(f"avg_pool2d_{short(dtype)}", x[:, :1].to(dtype), kernel_size=3, stride=2, padding=1)
    for size in ([3, 5], [11, 4]):
        case(f"adaptive_avg_pool2d_to_{size[0]}x{size[1]}", "adaptive_avg_pool2d", {"input": x},
             {"output_size": size}, F.adaptive_avg_pool2d)
    case("adaptive_avg_pool2d_bf16", "adaptive_avg_pool2d", {"input": x.to(BF16)}, {"output_size": [3, 2]},
         F.adaptive_avg_pool2d)


# ---- normalisation and softmax ---------------------------------------------------------------------------------

def batch_norm(x, weight, bias, mean, variance, training, momentum, eps):
    out = F.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)
    return (out, mean, variance) if training else out


def write_normalisations(case):
    def batch(name, x, training, momentum=0.1, eps=1e-5):
        n, dtype = x.shape[1], x.dtype
        inputs = {"input": x, "weight": normal(n, seed=name + "w", dtype=dtype),
                  "bias": normal(n, seed=name + "b", dtype=dtype),
                  "running_mean": normal(n, seed=name + "m", dtype=dtype),
                  "running_var": normal(n, seed=name + "v", dtype=dtype).abs() + 0.5}
        outputs = ("output", "new_running_mean", "new_running_var") if training else ("output",)
        case(name, "batch_norm", inputs, {"training": training, "momentum": momentum, "eps": eps}, batch_norm,
             outputs=outputs)

    for training in (False, True):
        mode = "training" if training else "eval"
        batch(f"batch_norm_{mode}", normal(2, 3, 4, 3, seed="bn4"), training)
    batch("batch_norm_training_2d", normal(6, 5, seed="bn2"), True, momentum=0.3, eps=1e-3)
    batch("batch_norm_training_3d", normal(2, 3, 7, seed="bn3"), True)
    batch("batch_norm_eval_f64", normal(2, 2, 3, 3, seed="bn64", dtype=F64), False)
    batch("batch_norm_training_far_mean", normal(2, 2, 4, 4, seed="bnfar", offset=1000.0), True)
    batch("batch_norm_training_constant", torch.full((2, 2, 2, 2), 3.0), True)

    def layer(name, x, dims, affine=2, eps=1e-5):
        inputs = {"input": x}
        shape = list(x.shape[-dims:])
        for suffix in ("weight", "bias")[:affine]:
            inputs[suffix] = normal(*shape, seed=name + suffix, dtype=x.dtype)
        case(name, "layer_norm", inputs, {"normalized_shape": shape, "eps": eps},
             lambda x, *rest, normalized_shape, eps: F.layer_norm(x, normalized_shape, *rest, eps=eps))

    layer("layer_norm_one_dim", normal(3, 4, 10, seed="ln"), 1)
    layer("layer_norm_weight_only", normal(3, 9, seed="ln"), 1, affine=1)
    layer("layer_norm_far_mean", normal(2, 33, seed="ln", offset=500.0), 1)
    layer("layer_norm_constant_row", tensor([[2.0] * 6, [0.0] * 6]), 1)
    layer("layer_norm_width_one", normal(4, 1, seed="ln"), 1)
    for dtype in (F64, F16, BF16):
        layer(f"layer_norm_{short(dtype)}", normal(3, 20, seed="ln", dtype=dtype), 1)

    for op in ("softmax", "log_softmax"):
        def soft(name, x, dim, op=op):
            case(f"{op}_{name}", op, {"input": x}, {"dim": dim})

        x = normal(2, 3, 5, 4, seed=op, scale=3.0)
        for dim in (0, -2):
            soft(f"dim_{dim}".replace("-", "minus_"), x, dim)
        rows = normal(5, 6, seed=op)
        rows[0] = -INF             # nothing to choose from: NaN
        rows[1, :5] = -INF         # one choice
        rows[2, 2] = NAN
        rows[3] *= 30
        soft("special_rows", rows, -1)
        soft("special_columns", rows.t().contiguous(), 0)
        for dtype in (F64, F16, BF16):
            soft(short(dtype), normal(3, 11, seed=op, dtype=dtype, scale=3.0), -1)


# ---- products --------------------------------------------------------------------------------------------------

def write_products(case):
    def matmul(name, a, b, dtype=F32):
        case(f"matmul_{name}", "matmul", {"input": normal(*a, seed=name, dtype=dtype),
                                          "other": normal(*b, seed=name + "b", dtype=dtype)})

    matmul("vector_batch", (4,), (2, 4, 3))
    matmul("batch_vector", (2, 3, 4), (4,))
    matmul("matrix_batch", (3, 4), (2, 4, 5))
    matmul("broadcast_batches", (2, 1, 3, 4), (5, 4, 2))
    matmul("broadcast_both", (3, 1, 2, 5), (1, 4, 5, 2))
    matmul("one_by_one", (1, 1), (1, 1))
    matmul("inner_zero", (2, 0), (0, 3))
    matmul("rows_zero", (0, 3), (3, 2))
    matmul("batch_zero", (0, 2, 3), (3, 2))
    matmul("odd_sizes", (7, 19), (19, 5))
    matmul("inner_300", (1, 300), (300, 1))
    for dtype in (F64, F16, BF16):
        matmul(f"{short(dtype)}", (3, 33), (33, 4), dtype)
    special = tensor([[1.0, INF, 0.0], [NAN, 1.0, 2.0], [3e38, 3e38, 0.0]])
    case("matmul_special_values", "matmul", {"input": special, "other": tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])})

    def linear(name, x, w, bias=True, dtype=F32):
        inputs = {"input": normal(*x, seed=name, dtype=dtype), "weight": normal(*w, seed=name + "w", dtype=dtype)}
        if bias:
            inputs["bias"] = normal(w[0], seed=name + "b", dtype=dtype)
        case(f"linear_{name}", "linear", inputs, run=F.linear)

    linear("vector", (6,), (4, 6))
    linear("no_bias", (3, 7), (5, 7), bias=False)
    for dtype in (F64, F16, BF16):
        linear(short(dtype), (3, 21), (4, 21), dtype=dtype)


# ---- reductions ------------------------------------------------------------------------------------------------

def reduction(op):
    """The PyTorch function with `dim` and `keepdim` left out where they are not given."""
    function = getattr(torch, op)

    def run(x, dim=None, keepdim=False):
        if op.startswith("arg"):
            return function(x, dim=dim, keepdim=keepdim)
        if dim is None:
            return function(x)
        return function(x, dim=dim, keepdim=keepdim)
    return run


def write_reductions(case):
    def reduce(name, op, x, **attrs):
        exact = op not in ("sum", "mean")
        case(f"{op}_{name}", op, {"input": x}, attrs, reduction(op), exact=exact)

    x = normal(2, 3, 4, 5, seed="reduce")
    for op in ("sum", "mean", "amax", "amin"):
        if op != "amin":
            reduce("dims_0_2", op, x, dim=[0, 2])
        reduce("dims_minus_1_minus_3_keepdim", op, x, dim=[-1, -3], keepdim=True)
        rows = tensor([[1.0, NAN, 2.0], [INF, 1.0, -INF], [-INF, -INF, -INF], [INF, 1.0, 2.0], [0.0, -0.0, 0.0]])
        reduce("special_rows", op, rows, dim=-1)
        for dtype in (F64, F16, BF16) if op in ("sum", "mean") else (BF16,):
            reduce(short(dtype), op, normal(3, 37, seed=op, dtype=dtype), dim=-1)
    reduce("all_dims_keepdim", "sum", x, dim=[0, 1, 2, 3], keepdim=True)
    reduce("first_dim", "amax", x[0], dim=0)
    reduce("everything", "mean", x, dim=None)
    reduce("odd_rows", "sum", normal(3, 131, seed="odd"), dim=-1)
    reduce("cancellation", "sum", tensor([1e4, 1.0, -1e4, 1.0, 3e4, -3e4]), dim=None)
    reduce("f16_overflow", "sum", torch.full((100,), 1000.0, dtype=F16), dim=None)
    reduce("f16_beyond_largest", "mean", torch.full((100,), 1000.0, dtype=F16), dim=None)
    reduce("nothing", "sum", torch.zeros(0), dim=None)
    reduce("zero_rows", "sum", torch.zeros(0, 3), dim=0)
    reduce("zero_columns", "mean", torch.zeros(2, 0), dim=1)
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool):
        low, high = {torch.uint8: (0, 256), torch.bool: (0, 2), torch.int8: (-128, 128)}.get(dtype, (-2 ** 31, 2 ** 31))
        values = small_integers(2, 19, seed="int", low=low, high=high, dtype=dtype)
        reduce(short(dtype), "sum", values, dim=1)
        if dtype in (torch.int64, torch.uint8):
            reduce(short(dtype), "amax", values, dim=0)
    reduce("i64_wraps", "sum", tensor([2 ** 63 - 1, 1, 5], torch.int64), dim=None)

    ties = tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-0.0, 0.0, -0.0, 0.0]])
    special = tensor([[1.0, NAN, INF, NAN], [-INF, -INF, -INF, -INF], [-INF, INF, INF, 0.0]])
    for op in ("argmax", "argmin"):
        reduce("everything", op, x[0], dim=None)
        reduce("middle_dim_keepdim", op, x[0], dim=1, keepdim=True)
        reduce("ties", op, ties, dim=-1)
        reduce("special_rows", op, special, dim=-1)
        reduce("i32", op, small_integers(3, 7, seed=op, dtype=torch.int32), dim=1)


# ---- elementwise -----------------------------------------------------------------------------------------------

def write_unary(case):
    grid = torch.cat([torch.linspace(-6, 6, 25), tensor([0.0, -0.0, 1e-4, -1e-4, 1e-10, NAN])])
    # The tolerance of a case is absolute, so results of very different sizes are kept in different cases.
    bounded = torch.cat([grid, tensor([INF, -INF, 20.0, -20.0])])
    positive = torch.cat([torch.linspace(0.05, 8, 24), tensor([0.0, -0.0, INF, -INF, NAN, -1.0])])
    angles = torch.cat([grid, tensor([100.0, -1e5, 1e10, 3e38, INF, -INF])])
    inputs = {
        "exp": {"": torch.cat([grid[~(grid > 1)], tensor([-INF])]), "medium": torch.linspace(1, 7, 13),
                "large": tensor([86.0, 87.0, 88.0, 88.7, 89.0, 1e4, INF]),
                "small": tensor([-80.0, -84.0, -86.0, -87.0]), "far_below": tensor([-200.0, -1e30, -INF])},
        "log": {"": positive, "near_one": tensor([1.0, 1.0 + 2 ** -23, 1.0 - 2 ** -24, 1.001, 0.999]),
                "extreme": tensor([3e38, 1.5e-38, 1e30, 1e-30])},
        "sqrt": {"": positive, "extreme": tensor([3e38, 1e38])},
        "rsqrt": {"": positive, "extreme": tensor([1.5e-38, 2e-38]), "large": tensor([3e38, 1e38])},
        "tanh": {"": bounded, "small": tensor([1e-3, -1e-4, 1e-5, 1e-20])},
        "sigmoid": {"": bounded, "far_below": tensor([-60.0, -61.0, -80.0])},
        "erf": {"": bounded, "small": tensor([1e-3, -1e-4, 1e-5, 1e-20])},
        "sin": {"": angles}, "cos": {"": angles},
    }
    for op, sets in inputs.items():
        for label, values in sets.items():
            case(f"{op}_{label or 'values'}", op, {"input": values})
        for dtype in (F64, F16, BF16):
            values = sets[""]
            if dtype == F64 and op not in ("exp", "log", "tanh"):
                continue
            if dtype == F16:
                values = values[~((values != 0) & (values.abs() < 1e-4)) & ~(values.abs().gt(6e4) & values.isfinite())]
            case(f"{op}_{short(dtype)}", op, {"input": values.to(dtype)})

    for kind in ("none", "tanh"):
        name = "gelu_erf" if kind == "none" else "gelu_tanh"
        sets = {"values": torch.cat([grid, tensor([20.0, -20.0])]), "negative_tail": tensor([-3.0, -3.5, -4.0, -4.5]),
                "f16": torch.linspace(-5, 5, 21, dtype=F16), "bf16": torch.linspace(-5, 5, 21).to(BF16)}
        for label, values in sets.items():
            case(f"{name}_{label}", "gelu", {"input": values}, {"approximate": kind}, F.gelu)


def pairs(*values, dtype=F32):
    """All pairs of the values, as two tensors."""
    grid = torch.cartesian_prod(tensor(values, dtype), tensor(values, dtype))
    return grid[:, 0].contiguous(), grid[:, 1].contiguous()


def write_binary(case):
    def binary(name, op, a, b, exact=False, second="other"):
        case(name, op, {"input": a, second: b}, exact=exact)

    a, b = pairs(0.0, -0.0, 1.0, -2.5, INF, -INF, NAN)
    binary("div_special_values", "div", a, b)
    binary("div_values", "div", normal(4, 5, seed="div"), normal(5, seed="div2"))
    finite, divisor = pairs(0.0, 1.0, -1.0, 2.0, 3.5, -3.5, -7.0, 0.25)
    for op in ("remainder", "fmod", "floor_divide"):
        keep = divisor != 0
        binary(f"{op}_signs", op, finite[keep], divisor[keep], exact=True)
        binary(f"{op}_by_zero", op, tensor([1.0, -1.0, 0.0, -0.0, NAN, INF]), torch.zeros(6), exact=True)
        binary(f"{op}_by_infinity", op, tensor([1.0, -1.0, 0.0, 2.5, -2.5, INF]),
               tensor([INF, INF, INF, -INF, -INF, INF]), exact=True)
        for dtype in (torch.int64,) if op == "fmod" else (torch.int32, torch.int8):
            top, bottom = pairs(7, -7, 8, -3, 3, -1, dtype=dtype)
            binary(f"{op}_{short(dtype)}", op, top, bottom)
        if op != "fmod":
            binary(f"{op}_u8", op, *pairs(7, 200, 3, 1, 255, dtype=torch.uint8))
        dtype = {"remainder": F16, "fmod": F64, "floor_divide": BF16}[op]
        binary(f"{op}_{short(dtype)}", op, finite[keep].to(dtype), divisor[keep].to(dtype), exact=True)
    # 1.0f / 0.1f rounds up to 10, but 0.1f fits only 9 whole times.
    binary("floor_divide_rounding", "floor_divide", tensor([1.0, -1.0, 6.0, 0.3]), tensor([0.1] * 4), exact=True)
    for dtype in (F64, F16, BF16):
        binary(f"div_{short(dtype)}", "div", finite[divisor != 0].to(dtype), divisor[divisor != 0].to(dtype))

    base, exponent = pairs(0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 3.0, -3.0, INF, -INF, NAN)
    binary("pow_special_values", "pow", base, exponent, second="exponent")
    binary("pow_values", "pow", normal(4, 6, seed="pow").abs() + 0.1, normal(6, seed="pow2", scale=2.0),
           second="exponent")
    for value in (2.0, 0.5, -1.0, 0.0):
        word = str(value).replace("-", "minus_").replace(".0", "").replace(".", "_")
        points = tensor([0.0, -0.0, 0.5, 1.0, -1.5, 3.0, INF, -INF, NAN])
        case(f"pow_scalar_{word}", "pow", {"input": points}, {"exponent": value})
    for dtype in (F64, F16, BF16):
        binary(f"pow_{short(dtype)}", "pow", tensor([0.5, 1.5, 2.0, 3.0, 0.0, 2.5], dtype),
               tensor([2.0, -1.5, 3.0, 0.5, 2.0, 1.25], dtype), second="exponent")

    points = tensor([-2.0, -0.5, -0.0, 0.0, 0.25, 0.8, 3.0, INF, -INF, NAN])
    for name, attrs in (("both", {"min": -0.5, "max": 0.75}), ("min_only", {"min": 0.0}), ("max_only", {"max": 0.0}),
                        ("min_above_max", {"min": 1.0, "max": -1.0})):
        case(f"clamp_{name}", "clamp", {"input": points}, attrs, exact=True)
    case("clamp_bf16", "clamp", {"input": points.to(BF16)}, {"min": -0.5, "max": 0.75}, exact=True)
    case("clamp_i32", "clamp", {"input": tensor([-9, -3, 0, 3, 9], torch.int32)}, {"min": -3, "max": 4})

    condition = tensor([[True], [False], [True]], torch.bool)
    for dtype in (F32, F16, torch.int64, torch.uint8):
        case(f"where_{short(dtype)}", "where", {
            "condition": condition, "input": small_integers(1, 4, seed="where", low=0, dtype=dtype),
            "other": small_integers(3, 1, seed="where2", low=0, dtype=dtype)}, exact=True)
    case("where_special_values", "where", {"condition": tensor([True, False, True, False], torch.bool),
                                           "input": tensor([NAN, NAN, -0.0, 1.0]),
                                           "other": tensor([1.0, INF, 0.0, NAN])}, exact=True)
    case("where_scalar_condition", "where", {"condition": tensor(True, torch.bool), "input": normal(3, seed="w"),
                                             "other": normal(2, 1, seed="w2")}, exact=True)


def write(out):
    from . import shape_cases  # which needs the helpers above

    case = Writer(clear(out / "cases", "*.safetensors"))
    write_convolutions(case)
    write_pools(case)
    write_normalisations(case)
    write_products(case)
    write_reductions(case)
    write_unary(case)
    write_binary(case)
    write_indexing(case)
    write_order(case)
    model_cases.write(case)
    shape_cases.write(case)
    from . import elements  # uses this module
    elements.write(case)
    fft_cases.write(out / "cases")
    linalg_cases.write(out / "cases")
