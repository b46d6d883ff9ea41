"""Cases of products, attention, normalisations, recurrent layers and losses."""
import math
import zlib

import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16


def normal(*shape, seed, dtype=F32, scale=1.0):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return (torch.randn(shape, generator=generator, dtype=F64) * scale).to(dtype)


def classes(*shape, seed, count):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return torch.randint(0, count, shape, generator=generator)


def write_more_products(case):
    def product(name, op, *shapes, dtype=F32, run=None, **attrs):
        inputs = {chr(ord("a") + i): normal(*shape, seed=f"{name}{i}", dtype=dtype) for i, shape in enumerate(shapes)}
        case(name, op, inputs, attrs, run)

    product("mm_matrix", "mm", (3, 5), (5, 4))
    product("bmm_batch", "bmm", (2, 3, 5), (2, 5, 4))
    product("mv_vector", "mv", (3, 5), (5,))
    product("dot_vector", "dot", (7,), (7,))
    product("vdot_vector", "vdot", (7,), (7,))
    product("inner_ranks", "inner", (2, 3, 5), (4, 5))
    product("outer_vectors", "outer", (3,), (4,))
    product("kron_matrices", "kron", (2, 3), (4, 2))
    product("kron_ranks", "kron", (3,), (2, 1, 2))
    for dtype in (F32, F16):
        word = "f32" if dtype == F32 else "f16"
        product(f"addmm_{word}", "addmm", (4,), (3, 5), (5, 4), dtype=dtype, beta=0.5, alpha=2.0)
    product("addmm_beta_zero", "addmm", (3, 4), (3, 5), (5, 4), beta=0.0)
    product("addmv_scales", "addmv", (3,), (3, 5), (5,), beta=-1.5, alpha=0.25)
    product("addr_scales", "addr", (3, 4), (3,), (4,), beta=2.0, alpha=0.5)
    product("baddbmm_scales", "baddbmm", (2, 3, 4), (2, 3, 5), (2, 5, 4), beta=0.5, alpha=-2.0)
    product("addbmm_scales", "addbmm", (3, 4), (2, 3, 5), (2, 5, 4), beta=0.5, alpha=-2.0)
    product("tensordot_count", "tensordot", (2, 3, 4), (3, 4, 5), dims=2)
    product("tensordot_lists", "tensordot", (2, 3, 4), (4, 5, 3), dims_a=[1, 2], dims_b=[2, 0],
            run=lambda a, b, dims_a, dims_b: torch.tensordot(a, b, (dims_a, dims_b)))
    product("multi_dot_chain", "multi_dot", (4,), (4, 9), (9, 2), (2, 3),
            run=lambda *tensors: torch.linalg.multi_dot(tensors))
    product("bilinear_bias", "bilinear", (2, 3, 4), (2, 3, 5), (6, 4, 5),
            run=F.bilinear)

    def einsum(name, equation, *shapes, dtype=F32):
        product(f"einsum_{name}", "einsum", *shapes, dtype=dtype, equation=equation,
                run=lambda *tensors, equation: torch.einsum(equation, *tensors))

    einsum("implicit", "bij,bjk", (2, 3, 4), (2, 4, 5))
    einsum("implicit_capitals", "aB,Bc", (2, 3), (3, 4))
    einsum("transpose", "ij->ji", (2, 3))
    einsum("trace", "ii", (4, 4))
    einsum("diagonal", "...ii->...i", (2, 3, 3))
    einsum("lone_labels", "ijk,jl->i", (2, 3, 4), (3, 5))
    einsum("ellipsis_broadcast", "...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2))
    einsum("ellipsis_moved", "i...->...i", (2, 3, 4))
    einsum("ellipsis_summed", "i...,i->i", (2, 3, 4), (2,))
    einsum("three", "ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
    einsum("three_shared", "bi,bj,bk->ijk", (5, 2), (5, 3), (5, 4))
    einsum("outer", "i,j->ij", (3,), (4,))
    einsum("hadamard", "ij,ij->ij", (3, 4), (3, 4))
    einsum("size_one", "ij,j->i", (3, 1), (4,))
    einsum("f16", "ij,kj->ik", (3, 20), (4, 20), dtype=F16)

    def transposed(name, op, x, w, bias=True, dtype=F32, **attrs):
        inputs = {"input": normal(*x, seed=name, dtype=dtype), "weight": normal(*w, seed=name + "w", dtype=dtype)}
        full = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1} | attrs
        if bias:
            inputs["bias"] = normal(w[1] * full["groups"], seed=name + "b", dtype=dtype)
        case(name, op, inputs, full, getattr(F, op))

    transposed("conv_transpose1d_stride_5", "conv_transpose1d", (2, 3, 6), (3, 2, 10), stride=5)
    transposed("conv_transpose1d_kernel_below_stride", "conv_transpose1d", (1, 3, 4), (3, 2, 2), stride=3)
    transposed("conv_transpose1d_dilation_stride", "conv_transpose1d", (1, 2, 5), (2, 3, 4), stride=2, dilation=3,
               padding=2)
    transposed("conv_transpose1d_common_factor", "conv_transpose1d", (1, 2, 5), (2, 3, 3), stride=4, dilation=2,
               padding=1, output_padding=3, bias=False)
    transposed("conv_transpose1d_depthwise", "conv_transpose1d", (2, 4, 5), (4, 1, 3), stride=2, groups=4)
    transposed("conv_transpose1d_f16", "conv_transpose1d", (1, 4, 5), (4, 3, 4), stride=2, padding=1, dtype=F16)
    transposed("conv_transpose2d_mixed", "conv_transpose2d", (2, 4, 3, 4), (4, 2, 3, 5), stride=[2, 3], padding=[1, 2],
               output_padding=[1, 0], dilation=[1, 2], groups=2)
    transposed("conv_transpose2d_unbatched", "conv_transpose2d", (3, 4, 4), (3, 2, 3, 3), stride=2, padding=1,
               output_padding=1)
    transposed("conv_transpose3d_mixed", "conv_transpose3d", (1, 2, 3, 2, 4), (2, 3, 3, 2, 4), stride=[2, 1, 3],
               padding=[1, 0, 2], output_padding=[1, 0, 1])

    def same(x, w, auto_padding, **attrs):
        return (F.conv1d if x.dim() == 3 else F.conv2d)(x, w, padding=auto_padding, **attrs)

    case("conv1d_same_even_kernel", "conv1d", {"input": normal(1, 2, 7, seed="same"), "weight": normal(3, 2, 4, seed="w")},
         {"auto_padding": "same", "dilation": 2}, same)
    case("conv2d_valid", "conv2d", {"input": normal(1, 2, 7, 6, seed="v"), "weight": normal(3, 2, 4, 3, seed="w")},
         {"auto_padding": "valid", "stride": 2}, same)


def attention(query, key, value, attn_mask=None, is_causal=False, causal_alignment="top-left", enable_gqa=False,
              scale=None, softcap=0.0, window_left=None, window_right=None):
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(repeats, -3) for t in (key, value))
    rows, columns = query.shape[-2], key.shape[-2]
    scores = query @ key.transpose(-2, -1) * (scale or 1 / math.sqrt(query.shape[-1]))
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scores = scores + attn_mask
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -INF)
    distance = torch.arange(columns) - torch.arange(rows)[:, None]
    if causal_alignment == "bottom-right":
        distance = distance - (columns - rows)
    if is_causal:
        scores = scores.masked_fill(distance > 0, -INF)
    if window_left is not None:
        scores = scores.masked_fill(distance < -window_left, -INF)
    if window_right is not None:
        scores = scores.masked_fill(distance > window_right, -INF)
    return torch.nan_to_num(torch.softmax(scores, -1)) @ value


def write_attention(case):
    def attend(name, q, k, v=None, mask=None, dtype=F32, **attrs):
        inputs = {"query": normal(*q, seed=name, dtype=dtype), "key": normal(*k, seed=name + "k", dtype=dtype),
                  "value": normal(*(v or k), seed=name + "v", dtype=dtype)}
        if mask is not None:
            inputs["attn_mask"] = mask
        case(f"attention_{name}", "scaled_dot_product_attention", inputs, attrs, attention)

    attend("plain", (2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5))
    attend("no_heads", (5, 8), (7, 8))
    attend("causal_square", (1, 2, 7, 4), (1, 2, 7, 4), is_causal=True)
    attend("causal_top_left", (1, 2, 3, 4), (1, 2, 7, 4), is_causal=True)
    attend("causal_bottom_right", (1, 2, 3, 4), (1, 2, 7, 4), is_causal=True, causal_alignment="bottom-right")
    attend("causal_rows_without_keys", (1, 1, 7, 4), (1, 1, 3, 4), is_causal=True, causal_alignment="bottom-right")
    attend("gqa", (2, 6, 4, 8), (2, 2, 5, 8), enable_gqa=True)
    attend("mqa_causal", (1, 4, 5, 8), (1, 1, 5, 8), enable_gqa=True, is_causal=True)
    attend("scale_softcap", (1, 2, 4, 8), (1, 2, 5, 8), scale=0.7, softcap=1.5)
    attend("window", (1, 1, 9, 4), (1, 1, 9, 4), window_left=2, window_right=1)
    attend("window_causal_cache", (1, 2, 3, 4), (1, 2, 11, 4), is_causal=True, window_left=3,
           causal_alignment="bottom-right")
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True, True, False, False]])
    attend("bool_mask_with_empty_row", (1, 2, 3, 4), (1, 2, 4, 4), mask=mask)
    attend("bias_per_head", (2, 3, 4, 8), (2, 3, 5, 8), mask=normal(3, 4, 5, seed="bias"))
    attend("bias_minus_infinity", (1, 1, 2, 4), (1, 1, 3, 4), mask=torch.tensor([[0.0, -INF, 1.0], [-INF, -INF, -INF]]))
    attend("long_causal", (1, 1, 150, 2), (1, 1, 150, 2), is_causal=True)
    attend("long_window", (1, 1, 150, 2), (1, 1, 200, 2), window_left=10, window_right=3,
           causal_alignment="bottom-right")
    for dtype in (F64, F16, BF16):
        attend({F64: "f64", F16: "f16", BF16: "bf16"}[dtype], (1, 2, 4, 8), (1, 2, 5, 8), dtype=dtype, is_causal=True)

    def rope(x, theta=10000.0, interleaved=False, dims=0, offset=0, position_scale=1.0):
        dims = dims or x.shape[-1]
        angles = ((torch.arange(x.shape[-2], dtype=F64) + offset) * position_scale)[:, None] * theta ** (
            -torch.arange(0, dims, 2, dtype=F64) / dims)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        part, rest = x[..., :dims], x[..., dims:]
        if interleaved:
            a, b = part[..., ::2], part[..., 1::2]
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        else:
            a, b = part[..., :dims // 2], part[..., dims // 2:]
            turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        return torch.cat((turned, rest), -1)

    for interleaved in (False, True):
        word = "interleaved" if interleaved else "halves"
        case(f"rope_{word}", "rope", {"input": normal(2, 3, 5, 6, seed="rope")}, {"interleaved": interleaved}, rope)
        case(f"rope_{word}_part", "rope", {"input": normal(2, 5, 8, seed="rope")},
             {"interleaved": interleaved, "dims": 4, "offset": 1000, "theta": 500.0, "position_scale": 0.25}, rope)
    case("rope_f16", "rope", {"input": normal(5, 8, seed="rope", dtype=F16)}, {"offset": 3}, rope)


def write_more_normalisations(case):
    x = normal(3, 4, 5, seed="instance")
    weight, bias = normal(4, seed="iw"), normal(4, seed="ib")
    case("instance_norm_affine", "instance_norm", {"input": x, "weight": weight, "bias": bias}, {"eps": 1e-4},
         lambda x, w, b, eps: F.instance_norm(x, weight=w, bias=b, eps=eps))

    def moving(x, mean, variance, w, b, momentum, eps):
        return F.instance_norm(x, mean, variance, w, b, True, momentum, eps), mean, variance

    case("instance_norm_running", "instance_norm", {
        "input": x, "running_mean": normal(4, seed="im"), "running_var": normal(4, seed="iv").abs() + 0.5,
        "weight": weight, "bias": bias}, {"momentum": 0.3, "eps": 1e-5}, moving,
        outputs=("output", "new_running_mean", "new_running_var"))
    for name, attrs in {"rows": {"dim": -1}, "one": {"p": 1.0, "dim": 0}, "largest": {"p": INF, "dim": 1}}.items():
        if attrs.get("p") == INF:
            continue  # JSON has no infinity
        case(f"normalize_{name}", "normalize", {"input": x}, attrs, F.normalize)
    image = normal(2, 7, 3, 2, seed="lrn", scale=3.0)
    case("local_response_norm_odd", "local_response_norm", {"input": image}, {"size": 5, "alpha": 0.3, "k": 2.0},
         F.local_response_norm)
    case("local_response_norm_even", "local_response_norm", {"input": image[:, :3]}, {"size": 4, "beta": 0.5},
         F.local_response_norm)
    case("normalize_zero_row", "normalize", {"input": torch.tensor([[0.0, 0.0], [3.0, 4.0]])}, {"dim": 1}, F.normalize)
    case("weight_norm_rows", "weight_norm", {"v": x, "g": normal(3, 1, 1, seed="g")}, {"dim": 0},
         lambda v, g, dim: torch._weight_norm(v, g, dim))


def write_recurrent(case):
    def layer(name, kind, x, hidden, layers=1, initial=False, dtype=F32, bias=True, **attrs):
        attrs = {"num_layers": layers, "bidirectional": False, "batch_first": False} | attrs
        directions = 2 if attrs["bidirectional"] else 1
        gates = {"lstm": 4, "gru": 3}.get(kind, 1)
        inputs = {"input": normal(*x, seed=name, dtype=dtype)}
        for number in range(layers):
            size = x[-1] if number == 0 else directions * hidden
            for direction in range(directions):
                suffix = f"_l{number}" + ("_reverse" if direction else "")
                shapes = {"weight_ih": (gates * hidden, size), "weight_hh": (gates * hidden, hidden)}
                if bias:
                    shapes |= {"bias_ih": (gates * hidden,), "bias_hh": (gates * hidden,)}
                for part, shape in shapes.items():
                    inputs[part + suffix] = normal(*shape, seed=name + part + suffix, dtype=dtype, scale=0.5)
        batch = () if len(x) == 2 else (x[0] if attrs["batch_first"] else x[1],)
        states = [normal(layers * directions, *batch, hidden, seed=f"{name}state{i}", dtype=dtype)
                  for i in range(2 if kind == "lstm" else 1)]
        if initial:
            inputs |= dict(zip(("h0", "c0"), states))

        def run(x, *rest, num_layers, bidirectional, batch_first):
            given = rest[len(rest) - len(states):] if initial else [torch.zeros_like(s, dtype=x.dtype) for s in states]
            weights = list(rest[:len(rest) - len(states)] if initial else rest)
            module = {"lstm": torch.lstm, "gru": torch.gru, "rnn_tanh": torch.rnn_tanh, "rnn_relu": torch.rnn_relu}[kind]
            single = x.dim() == 2
            if single:
                x, given = x.unsqueeze(1), [g.unsqueeze(1) for g in given]
            result = module(x, list(given) if kind == "lstm" else given[0], weights, bias, num_layers, 0.0, False,
                            bidirectional, batch_first and not single)
            return [r.squeeze(1) for r in result] if single else list(result)

        outputs = ("output", "hn", "cn") if kind == "lstm" else ("output", "hn")
        case(name, kind, inputs, attrs, run, outputs=outputs)

    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        layer(f"{kind}_two_layers", kind, (5, 2, 3), 4, layers=2, initial=True)
        layer(f"{kind}_bidirectional", kind, (2, 5, 3), 4, layers=2, bidirectional=True, batch_first=True)
        layer(f"{kind}_unbatched", kind, (4, 3), 2, initial=True)
    layer("lstm_no_bias", "lstm", (3, 2, 3), 4, bias=False)
    layer("gru_one_step", "gru", (1, 2, 3), 4, initial=True)

    def cell(name, kind, n=(2,), bias=True, dtype=F32):
        gates = {"lstm": 4, "gru": 3}.get(kind, 1)
        inputs = {"input": normal(*n, 3, seed=name, dtype=dtype), "h": normal(*n, 4, seed=name + "h", dtype=dtype)}
        if kind == "lstm":
            inputs["c"] = normal(*n, 4, seed=name + "c", dtype=dtype)
        inputs |= {"weight_ih": normal(4 * gates, 3, seed=name + "ih", dtype=dtype),
                   "weight_hh": normal(4 * gates, 4, seed=name + "hh", dtype=dtype)}
        if bias:
            inputs |= {"bias_ih": normal(4 * gates, seed=name + "bi", dtype=dtype),
                       "bias_hh": normal(4 * gates, seed=name + "bh", dtype=dtype)}

        def run(x, h, *rest):
            if kind == "lstm":
                return torch.lstm_cell(x, [h, rest[0]], *rest[1:])
            return getattr(torch, kind + "_cell")(x, h, *rest)

        case(name, kind + "_cell", inputs, None, run, outputs=("hn", "cn") if kind == "lstm" else ("hn",))

    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        cell(f"{kind}_cell_batch", kind)
        cell(f"{kind}_cell_no_bias", kind, bias=False)
        cell(f"{kind}_cell_f64", kind, dtype=F64)


def write_losses(case):
    def loss(name, op, inputs, **attrs):
        case(name, op, inputs, attrs, getattr(F, op))

    x, y = normal(4, 5, seed="loss"), normal(4, 5, seed="loss2")
    pair = {"input": x, "target": y}
    for reduction in ("none", "mean", "sum"):
        for op in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            loss(f"{op}_{reduction}", op, pair, reduction=reduction)
    loss("mse_loss_f16", "mse_loss", {"input": x.half(), "target": y.half()})
    loss("smooth_l1_loss_beta", "smooth_l1_loss", pair, beta=0.3)
    loss("smooth_l1_loss_beta_0", "smooth_l1_loss", pair, beta=0.0)
    loss("huber_loss_delta", "huber_loss", pair, delta=0.4)

    scores, target = normal(6, 5, seed="scores", scale=3.0), classes(6, seed="target", count=5)
    weight = normal(5, seed="classweight").abs() + 0.1
    some = target.clone()
    some[1] = some[4] = -100
    image, places = normal(2, 4, 3, 2, seed="image"), classes(2, 3, 2, seed="places", count=4)
    spread = torch.softmax(normal(6, 5, seed="spread", dtype=F64), 1).float()
    for reduction in ("none", "mean", "sum"):
        loss(f"nll_loss_{reduction}", "nll_loss", {"input": scores.log_softmax(1), "target": target}, reduction=reduction)
        for smoothing in (0.0, 0.2):
            word = f"{reduction}_smooth" if smoothing else reduction
            with_weight = {"input": scores, "target": some, "weight": weight}

            def run(x, t, w, **attrs):
                return F.cross_entropy(x, t, w, **attrs)

            case(f"cross_entropy_weight_ignore_{word}", "cross_entropy", with_weight,
                 {"reduction": reduction, "label_smoothing": smoothing}, run)
            loss(f"cross_entropy_probabilities_{word}", "cross_entropy", {"input": scores, "target": spread},
                 reduction=reduction, label_smoothing=smoothing)
            loss(f"cross_entropy_image_{word}", "cross_entropy", {"input": image, "target": places}, reduction=reduction,
                 label_smoothing=smoothing, ignore_index=1)
    case("cross_entropy_weighted_probabilities", "cross_entropy", {"input": scores, "target": spread, "weight": weight}, {},
         lambda x, t, w: F.cross_entropy(x, t, w))
    loss("cross_entropy_single", "cross_entropy", {"input": scores[0], "target": target[0]})
    loss("cross_entropy_all_ignored", "cross_entropy", {"input": scores[:2], "target": torch.tensor([-100, -100])})
    loss("cross_entropy_bf16", "cross_entropy", {"input": scores.bfloat16(), "target": target})

    chance = torch.sigmoid(normal(4, 5, seed="chance", dtype=F64)).float()
    truth = (y > 0).float()
    for reduction in ("none", "mean", "sum"):
        loss(f"binary_cross_entropy_{reduction}", "binary_cross_entropy", {"input": chance, "target": truth},
             reduction=reduction)
        loss(f"binary_cross_entropy_with_logits_{reduction}", "binary_cross_entropy_with_logits",
             {"input": x * 20, "target": chance}, reduction=reduction)
        loss(f"kl_div_{reduction}", "kl_div", {"input": scores.log_softmax(1), "target": spread}, reduction=reduction)
    loss("binary_cross_entropy_certain", "binary_cross_entropy",
         {"input": torch.tensor([0.0, 1.0, 0.0, 1.0]), "target": torch.tensor([0.0, 1.0, 1.0, 0.0])}, reduction="none")
    case("binary_cross_entropy_with_logits_weights", "binary_cross_entropy_with_logits",
         {"input": x, "target": truth, "weight": normal(5, seed="w").abs(), "pos_weight": normal(5, seed="pw").abs()}, {},
         lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p))
    zeros = spread.clone()
    zeros[:, 0] = 0
    loss("kl_div_zero_target", "kl_div", {"input": scores.log_softmax(1), "target": zeros}, reduction="none")
    loss("kl_div_log_target", "kl_div", {"input": scores.log_softmax(1), "target": spread.log()}, log_target=True,
         reduction="sum")

    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])
    for reduction in ("none", "mean"):
        loss(f"cosine_embedding_loss_{reduction}", "cosine_embedding_loss", {"a": x, "b": y, "target": signs}, margin=0.1,
             reduction=reduction)
        loss(f"margin_ranking_loss_{reduction}", "margin_ranking_loss",
             {"a": x[:, 0], "b": y[:, 0], "target": signs}, margin=0.2, reduction=reduction)
        for swap in (False, True):
            loss(f"triplet_margin_loss_{reduction}{'_swap' if swap else ''}", "triplet_margin_loss",
                 {"anchor": x, "positive": y, "negative": normal(4, 5, seed="far")}, reduction=reduction, swap=swap)


def write(case):
    write_more_products(case)
    write_attention(case)
    write_more_normalisations(case)
    write_recurrent(case)
    write_losses(case)
