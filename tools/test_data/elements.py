"""Cases of activations, elementwise compositions, reductions, order statistics and running results."""
import torch
import torch.nn.functional as F

from .cases import BF16, F16, F32, F64, INF, NAN, normal, pairs, reduction, short, small_integers, tensor

I64, I32, I8, U8, BOOL = torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool


def write_activations(case):
    grid = torch.cat([torch.linspace(-5, 5, 21), tensor([0.0, -0.0, 0.5, -0.5, 1e-4, -1e-4, NAN])])
    ends = tensor([30.0, -30.0, INF, -INF])
    functions = {"elu": F.elu, "selu": F.selu, "celu": F.celu, "hardtanh": F.hardtanh, "hardswish": F.hardswish,
                 "hardsigmoid": F.hardsigmoid, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
                 "tanhshrink": F.tanhshrink, "softplus": F.softplus, "softsign": F.softsign, "mish": F.mish,
                 "logsigmoid": F.logsigmoid, "relu6": F.relu6}
    moves = {"hardtanh", "hardshrink", "relu6"}
    undefined_at_infinity = {"softsign", "mish", "tanhshrink", "hardswish"}
    for op, run in functions.items():
        case(f"{op}_values", op, {"input": grid}, run=run, exact=op in moves)
        values = ends[:2] if op in undefined_at_infinity else ends
        case(f"{op}_ends", op, {"input": values}, run=run, exact=op in moves)
        for dtype in (F64, F16, BF16):
            case(f"{op}_{short(dtype)}", op, {"input": torch.linspace(-4, 4, 17).to(dtype)}, run=run, exact=op in moves)
    for op, attrs in (("elu", {"alpha": 0.5}), ("celu", {"alpha": 2.0}), ("hardtanh", {"min_val": -2.0, "max_val": 0.5}),
                      ("hardshrink", {"lambd": 1.5}), ("softshrink", {"lambd": 1.0}),
                      ("softplus", {"beta": 2.0, "threshold": 5.0})):
        case(f"{op}_attributes", op, {"input": grid}, attrs, functions[op], exact=op in moves)
    case("relu6_i32", "relu6", {"input": tensor([-3, 0, 5, 9], I32)}, run=F.relu6)
    case("threshold_values", "threshold", {"input": grid}, {"threshold": 0.1, "value": 20.0}, F.threshold, exact=True)
    case("threshold_i64", "threshold", {"input": tensor([-3, 0, 5, 9], I64)}, {"threshold": 4, "value": -1}, F.threshold)
    case("rrelu_eval", "rrelu", {"input": grid}, {"lower": 0.1, "upper": 0.4},
         lambda x, lower, upper: F.rrelu(x, lower, upper, training=False))
    case("prelu_one_weight", "prelu", {"input": grid, "weight": tensor([0.2])}, run=F.prelu)
    case("prelu_channels_2d", "prelu", {"input": normal(4, 3, seed="prelu"), "weight": tensor([0.2, -0.3, 1.5])},
         run=F.prelu)
    case("prelu_f16", "prelu", {"input": normal(4, 3, seed="prelu", dtype=F16), "weight": tensor([0.2, -0.3, 1.5], F16)},
         run=F.prelu)
    for dim in (0, -1):
        case(f"glu_dim_{dim}".replace("-", "minus_"), "glu", {"input": normal(4, 3, 6, seed="glu")}, {"dim": dim}, F.glu)
    case("glu_bf16", "glu", {"input": normal(3, 8, seed="glu", dtype=BF16)}, {"dim": 1}, F.glu)
    unit = tensor([0.0, 0.1, 0.25, 0.5, 0.9, 1.0, NAN])
    case("logit_values", "logit", {"input": torch.cat([unit, tensor([-0.5, 1.5])])}, run=torch.logit)
    case("logit_eps", "logit", {"input": unit}, {"eps": 0.125}, torch.logit)
    case("softmin", "softmin", {"input": normal(3, 5, seed="softmin")}, {"dim": -1}, F.softmin)


def write_pointwise(case):
    a, b, c = (normal(3, 4, seed="pw" + s) for s in "abc")
    for weight in (0.25, 0.75, 1.0, -2.0):
        word = str(weight).replace("-", "minus_").replace(".", "_")
        case(f"lerp_{word}", "lerp", {"input": a, "end": b}, {"weight": weight})
    weights = tensor([-0.5, 0.25, 0.5, 2.0])
    case("lerp_tensor", "lerp", {"input": a, "end": b, "weight": weights})
    for dtype in (F64, F16, BF16):
        case(f"lerp_{short(dtype)}", "lerp", {"input": a.to(dtype), "end": b.to(dtype)}, {"weight": 0.75})
    for op in ("addcmul", "addcdiv"):
        case(f"{op}_plain", op, {"input": a, "tensor1": b, "tensor2": c})
        case(f"{op}_value", op, {"input": a, "tensor1": b[:1], "tensor2": c[:, :1]}, {"value": -0.5})
        case(f"{op}_f16", op, {"input": a.half(), "tensor1": b.half(), "tensor2": c.half()}, {"value": 2.0})
    case("addcmul_i64", "addcmul", {"input": tensor([1, 2], I64), "tensor1": tensor([3, 4], I64),
                                    "tensor2": tensor([5, -6], I64)}, {"value": 2})
    case("rsub_alpha", "rsub", {"input": a, "other": b}, {"alpha": 0.5})
    points = tensor([-2.0, -0.5, 0.0, 0.25, 0.8, 3.0, INF, -INF, NAN])
    low, high = tensor([-1.0, 0.0, NAN, 0.5, 1.0, 0.0, 1.0, -1.0, 0.0]), tensor([1.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    run = lambda x, *bounds, names: torch.clamp(x, **dict(zip(names, bounds)))
    for names in (("min", "max"), ("min",), ("max",)):
        bounds = {"min": low, "max": high}
        case("clamp_tensor_" + "_".join(names), "clamp", {"input": points} | {n: bounds[n] for n in names},
             run=lambda x, *v, names=names: run(x, *v, names=names), exact=True)
    case("clamp_tensor_broadcast", "clamp", {"input": a, "min": tensor(-0.25), "max": tensor([[0.5], [0.0], [0.25]])},
         run=lambda x, lo, hi: torch.clamp(x, lo, hi), exact=True)
    x, y = pairs(0.0, -0.0, 1.0, -2.5, INF, -INF, NAN)
    for op in ("fmax", "fmin"):
        case(f"{op}_special_values", op, {"input": x, "other": y}, exact=True)
        case(f"{op}_i32", op, {"input": tensor([1, -2], I32), "other": tensor([0, 5], I32)})
    case("heaviside_values", "heaviside", {"input": tensor([-1.0, 0.0, -0.0, 2.0, INF]), "values": tensor([0.5])}, exact=True)
    case("heaviside_i64", "heaviside", {"input": tensor([-1, 0, 2], I64), "values": tensor([7, 8, 9], I64)})
    for dtype in (F32, F64, F16, BF16):
        case(f"nan_to_num_{short(dtype)}", "nan_to_num", {"input": tensor([1.0, NAN, INF, -INF, -0.0], dtype)},
             run=lambda x, dtype=dtype: torch.nan_to_num(x.to(dtype)), exact=True)  # the dtype's largest values
    case("nan_to_num_given", "nan_to_num", {"input": tensor([1.0, NAN, INF, -INF])},
         {"nan": 2.5, "posinf": 9.0, "neginf": -8.0}, exact=True)
    for op in ("logical_and", "logical_or", "logical_xor"):
        case(f"{op}_f32", op, {"input": x, "other": y})
        case(f"{op}_u8", op, {"input": tensor([0, 0, 1, 7], U8), "other": tensor([0, 5, 0, 7], U8)})
        case(f"{op}_bool", op, {"input": tensor([True, False], BOOL), "other": tensor([[True], [False]], BOOL)})
    case("logical_not_f32", "logical_not", {"input": points})
    case("logical_not_i8", "logical_not", {"input": tensor([0, -1, 5], I8)})
    for name, attrs in (("default", {}), ("equal_nan", {"equal_nan": True}), ("loose", {"rtol": 0.1, "atol": 0.5}),
                        ("exact", {"rtol": 0.0, "atol": 0.0})):
        u, v = pairs(0.0, 1.0, 1.000001, 1.2, -1.0, INF, -INF, NAN)
        case(f"isclose_{name}", "isclose", {"input": u, "other": v}, attrs)
    case("isclose_i64", "isclose", {"input": tensor([1, 100, 7], I64), "other": tensor([1, 101, 9], I64)}, {"rtol": 0.02})
    top, bottom = pairs(0.5, 1.0, -1.0, 2.0, 3.5, -3.5, -7.0)
    for mode in ("trunc", "floor"):
        case(f"div_{mode}", "div", {"input": top, "other": bottom}, {"rounding_mode": mode}, exact=True)
        whole, divisor = pairs(7, -7, 8, -3, 3, -1, dtype=I32)
        case(f"div_{mode}_i32", "div", {"input": whole, "other": divisor}, {"rounding_mode": mode})
    case("div_trunc_u8", "div", {"input": tensor([200, 7], U8), "other": tensor([3, 9], U8)}, {"rounding_mode": "trunc"})
    for op in ("deg2rad", "rad2deg", "square"):
        case(f"{op}_values", op, {"input": normal(9, seed=op, scale=3.0)})
    case("square_i64", "square", {"input": tensor([-3, 4], I64)})
    case("sinc_values", "sinc", {"input": tensor([0.0, -0.0, 0.25, -0.5, 1.5, 7.25, NAN])})
    case("sinc_f16", "sinc", {"input": tensor([0.0, 0.25, -0.5, 1.5], F16)})
    case("float_power_values", "float_power", {"input": tensor([1.0, 2.0, 0.5]), "exponent": tensor([2.0, 0.5, -3.0])})
    mask = tensor([[True, False, True, False]], BOOL)
    case("masked_fill_tensor", "masked_fill", {"input": a, "mask": mask, "value": tensor(NAN)}, exact=True)
    matrix = normal(2, 4, 6, seed="tri")
    for op in ("tril", "triu"):
        for diagonal in (0, 2, -3, 9, -9):
            case(f"{op}_{diagonal}".replace("-", "minus_"), op, {"input": matrix}, {"diagonal": diagonal}, exact=True)
        case(f"{op}_bool", op, {"input": torch.ones(3, 3, dtype=BOOL)}, {"diagonal": 0})
        case(f"{op}_special_values", op, {"input": torch.full((3, 3), NAN)}, {"diagonal": 0}, exact=True)


def values_and_indices(op):
    def run(x, **attrs):
        if "dim" not in attrs:
            return getattr(torch, op)(x)
        result = getattr(torch, op)(x, **attrs)
        return result.values, result.indices
    return run


def write_more_reductions(case):
    both = ("values", "indices")
    x = normal(3, 4, 5, seed="more")
    holes = x.clone()
    holes[0, 1, 2] = holes[1, 1, 1] = NAN
    holes[2, 0] = NAN
    special = tensor([[1.0, NAN, INF, NAN], [-INF, -INF, -INF, -INF], [-INF, INF, 3.0, 0.0]])
    for op in ("nansum", "nanmean"):
        for name, attrs in (("last", {"dim": -1}), ("two", {"dim": [0, 2], "keepdim": True}), ("all", {})):
            case(f"{op}_{name}", op, {"input": holes}, attrs, reduction(op))
        case(f"{op}_f16", op, {"input": holes.half()}, {"dim": 1}, reduction(op))
        case(f"{op}_special_rows", op, {"input": special}, {"dim": 1}, reduction(op))
    case("nansum_i64", "nansum", {"input": tensor([1, 2, 3], I64)})
    zeros = small_integers(3, 5, seed="cnz", low=-1, high=2)
    zeros[0, 0] = NAN
    for dtype in (F32, BF16, I64, BOOL, U8):
        case(f"count_nonzero_{short(dtype)}", "count_nonzero", {"input": zeros.abs().nan_to_num(5).to(dtype)}, {"dim": 1})
    case("count_nonzero_nan", "count_nonzero", {"input": zeros})
    orders = {"0": 0.0, "1": 1.0, "2": 2.0, "3": 3.0, "half": 0.5, "minus_1": -1.0, "inf": INF, "minus_inf": -INF}
    for name, p in orders.items():
        case(f"norm_p_{name}", "norm", {"input": x}, {"p": "inf" if p == INF else "-inf" if p == -INF else p, "dim": [-1]},
             lambda t, p, dim: torch.linalg.vector_norm(t, float(p), dim))
    case("norm_p_1_f16", "norm", {"input": x.half()}, {"p": 1.0, "dim": [0, 1], "keepdim": True},
         lambda t, p, dim, keepdim: torch.linalg.vector_norm(t, p, dim, keepdim))
    for op in ("var_mean", "std_mean"):
        out = (op[:3], "mean")
        case(f"{op}_dim", op, {"input": x}, {"dim": [1], "keepdim": True}, outputs=out)
        case(f"{op}_correction", op, {"input": x}, {"dim": [0, 2], "correction": 0}, outputs=out)
        case(f"{op}_bf16", op, {"input": x.to(BF16)}, {"dim": [-1]}, outputs=out)
    ties = tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-0.0, 0.0, -0.0, 0.0]])
    for op in ("max", "min"):
        case(f"{op}_everything", op, {"input": x}, run=values_and_indices(op), exact=True)
        case(f"{op}_keepdim", op, {"input": x}, {"dim": 1, "keepdim": True}, values_and_indices(op), True, both)
        case(f"{op}_ties", op, {"input": ties}, {"dim": -1}, values_and_indices(op), True, both)
        case(f"{op}_special_rows", op, {"input": special}, {"dim": 1}, values_and_indices(op), True, both)
        case(f"{op}_i32", op, {"input": small_integers(3, 7, seed=op, dtype=I32)}, {"dim": 0}, values_and_indices(op),
             True, both)
    case("aminmax_dim", "aminmax", {"input": x}, {"dim": 1}, lambda t, dim: torch.aminmax(t, dim=dim), True, ("min", "max"))
    case("aminmax_everything", "aminmax", {"input": special}, run=torch.aminmax, exact=True, outputs=("min", "max"))
    for dtype in (F32, I64, U8):
        values = tensor([[0, 2], [0, 0], [1, 3]], dtype)
        for op in ("any", "all"):
            case(f"{op}_{short(dtype)}", op, {"input": values}, {"dim": 1},
                 lambda t, dim, op=op: getattr(torch, op)(t.bool(), dim=dim))
    case("trace_square", "trace", {"input": normal(4, 4, seed="trace")})
    case("trace_wide", "trace", {"input": normal(3, 7, seed="trace")})
    case("trace_tall_i32", "trace", {"input": small_integers(7, 3, seed="trace", dtype=I32)})

    distinct = torch.randperm(60, generator=torch.Generator().manual_seed(1)).reshape(3, 4, 5).float()
    gaps = distinct.clone()
    gaps[0, :, 1] = NAN
    gaps[1, 2, 0] = NAN
    for op in ("median", "nanmedian"):
        for dim in (0, 1, -1):
            case(f"{op}_dim_{dim}".replace("-", "minus_"), op, {"input": distinct}, {"dim": dim}, values_and_indices(op),
                 True, both)
        case(f"{op}_everything", op, {"input": distinct}, run=values_and_indices(op), exact=True)
        case(f"{op}_everything_nan", op, {"input": gaps}, run=values_and_indices(op), exact=True)
        case(f"{op}_i64", op, {"input": distinct.to(I64)}, {"dim": 2, "keepdim": True}, values_and_indices(op), True, both)
        case(f"{op}_f16", op, {"input": distinct.half()}, {"dim": 1}, values_and_indices(op), True, both)
    case("nanmedian_nan", "nanmedian", {"input": gaps}, {"dim": 2}, values_and_indices("nanmedian"), True, both)
    one_nan = distinct.clone()
    one_nan[0, 0, 2] = one_nan[2, 3, 4] = NAN
    case("median_nan", "median", {"input": one_nan}, {"dim": 2}, values_and_indices("median"), True, both)
    repeats = tensor([[3, 1, 3, 1, 2], [5, 4, 3, 2, 1], [2, 2, 7, 7, 7]])
    for dtype in (F32, I64, F16):
        case(f"mode_{short(dtype)}", "mode", {"input": repeats.to(dtype)}, {"dim": 1}, values_and_indices("mode"), True, both)
    for op in ("quantile", "nanquantile"):
        for method in ("linear", "lower", "higher", "nearest", "midpoint"):
            case(f"{op}_{method}", op, {"input": gaps, "q": tensor([0.0, 0.3, 0.5, 0.85, 1.0])},
                 {"dim": 2, "interpolation": method}, getattr(torch, op))
        case(f"{op}_scalar", op, {"input": gaps}, {"q": 0.4, "dim": 1, "keepdim": True},
             lambda t, q, dim, keepdim, op=op: getattr(torch, op)(t, q, dim, keepdim))
        case(f"{op}_everything", op, {"input": normal(3, 4, seed="q")}, {"q": 0.6},
             lambda t, q, op=op: getattr(torch, op)(t, q))
        case(f"{op}_everything_keepdim", op, {"input": normal(3, 4, seed="q"), "q": tensor([0.1, 0.7])}, {"keepdim": True},
             lambda t, q, keepdim, op=op: getattr(torch, op)(t, q, keepdim=keepdim))
        case(f"{op}_f64", op, {"input": normal(9, seed="q", dtype=F64), "q": tensor([0.1, 0.7], F64)}, {"dim": 0},
             getattr(torch, op))


def write_distances(case):
    a, b = normal(3, 4, 5, seed="da"), normal(3, 4, 5, seed="db")
    a[0, 0] = 0.0
    for dim in (1, -1):
        case(f"cosine_similarity_{dim}".replace("-", "minus_"), "cosine_similarity", {"x1": a, "x2": b}, {"dim": dim},
             F.cosine_similarity)
    case("cosine_similarity_broadcast", "cosine_similarity", {"x1": a, "x2": b[:1, :1]}, {"dim": 2, "eps": 0.5},
         F.cosine_similarity)
    case("cosine_similarity_f16", "cosine_similarity", {"x1": a.half(), "x2": b.half()}, {"dim": 2}, F.cosine_similarity)
    for name, p in (("1", 1.0), ("2", 2.0), ("3", 3.0), ("inf", "inf")):
        case(f"pairwise_distance_{name}", "pairwise_distance", {"x1": a, "x2": b}, {"p": p},
             lambda x, y, p: F.pairwise_distance(x, y, float(p)))
        case(f"cdist_{name}", "cdist", {"x1": a, "x2": b[:, :3]}, {"p": p}, lambda x, y, p: torch.cdist(x, y, float(p)))
    case("cdist_0", "cdist", {"x1": a, "x2": b[:, :3]}, {"p": 0.0}, lambda x, y, p: torch.cdist(x, y, p))
    case("cdist_broadcast", "cdist", {"x1": a[:1], "x2": b}, run=torch.cdist)
    case("cdist_far", "cdist", {"x1": a[0] + 1000, "x2": b[0] + 1000},
         run=lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"))


def write_scans(case):
    both = ("values", "indices")
    x = normal(3, 70, seed="scan", scale=0.5)
    for op in ("cumsum", "cumprod", "logcumsumexp"):
        factor = 0.3 if op == "cumprod" else 1.0
        values = 1 + factor * x if op == "cumprod" else x
        for dim in (0, -1):
            case(f"{op}_dim_{dim}".replace("-", "minus_"), op, {"input": values}, {"dim": dim})
        for dtype in (F64, F16, BF16):
            case(f"{op}_{short(dtype)}", op, {"input": values[:, :20].to(dtype)}, {"dim": 1})
        case(f"{op}_scalar", op, {"input": tensor(2.5)}, {"dim": 0})
        case(f"{op}_nothing", op, {"input": torch.zeros(2, 0)}, {"dim": 1})
    case("cumsum_infinity", "cumsum", {"input": tensor([1.0, INF, 2.0])}, {"dim": 0})
    case("cumsum_nan", "cumsum", {"input": tensor([1.0, INF, -INF, 2.0])}, {"dim": 0})
    case("logcumsumexp_special", "logcumsumexp", {"input": tensor([[-INF, -INF, 1.0], [INF, 1.0, NAN], [88.0, 89.0, 500.0]])},
         {"dim": 1})
    for op in ("cumsum", "cumprod"):
        for dtype in (I64, U8, BOOL):
            case(f"{op}_{short(dtype)}", op, {"input": small_integers(2, 9, seed=op, low=0, high=3).to(dtype)}, {"dim": 1})
    for op in ("cummax", "cummin"):
        run = values_and_indices(op)
        for dim in (0, -1):
            case(f"{op}_dim_{dim}".replace("-", "minus_"), op, {"input": x}, {"dim": dim}, run, True, both)
        case(f"{op}_special", op, {"input": tensor([0.5, 1.0, INF, -INF, 2.0])}, {"dim": 0}, run, True, both)
        case(f"{op}_i32", op, {"input": tensor([3, 1, 4, 0, 5], I32)}, {"dim": 0}, run, True, both)
    small = normal(3, 6, seed="diff")
    for n in (0, 1, 2, 7):
        case(f"diff_{n}", "diff", {"input": small}, {"n": n, "dim": -1})
    case("diff_ends", "diff", {"input": small, "prepend": small[:1], "append": small[1:]}, {"dim": 0},
         lambda t, p, a, dim: torch.diff(t, dim=dim, prepend=p, append=a))
    case("diff_bool", "diff", {"input": tensor([True, True, False], BOOL)})


def write(case):
    write_activations(case)
    write_pointwise(case)
    write_more_reductions(case)
    write_distances(case)
    write_scans(case)
