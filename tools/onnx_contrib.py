#!/usr/bin/env python3
"""Small cases of operators of com.microsoft (and a few that the node cases lack), answered by ONNX Runtime with its
optimisations off: the folders in tests/data/onnx_contrib.zip.

    pip install onnx==1.23.2 onnxruntime==1.32.0
    tools/onnx_contrib.py
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))
from onnx_suite import write_case  # noqa: E402

draw = np.random.default_rng(7)


def f32(*shape, scale=1.0):
    return (draw.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape, low=0, high=256):
    return draw.integers(low, high, shape).astype(np.uint8)


def i8(*shape):
    return draw.integers(-128, 128, shape).astype(np.int8)


def number(value, dtype=np.float32):
    return np.array(value, dtype)


def stated_outputs(answers):
    types = [(helper.np_dtype_to_tensor_dtype(answer.dtype), answer.shape) for answer in answers]
    return [helper.make_tensor_value_info(f"y{i}", *type) for i, type in enumerate(types)]


def case(name, op, inputs, weights=(), outputs=1, domain="com.microsoft", version=17, answers=None, **attributes):
    """One node: `inputs` are (name, array or None) in its order; those named in `weights` are initialisers. `answers` are
    given for what ONNX Runtime has no kernel for."""
    names = [key if value is not None else "" for key, value in inputs]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    stated, initialisers, feeds = [], [], {}
    for key, value in inputs:
        if value is None:
            continue
        if key in weights:
            initialisers.append(numpy_helper.from_array(value, key))
        else:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            stated.append(helper.make_tensor_value_info(key, kind, value.shape))
            feeds[key] = value
    imports = [helper.make_opsetid("", version)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))

    def model_with(results):
        graph = helper.make_graph([node], name, stated, results, initialisers)
        return helper.make_model(graph, ir_version=8, producer_name="lockstep", opset_imports=imports)

    if answers is not None:
        return name, model_with(stated_outputs(answers)), [feeds[info.name] for info in stated], answers
    unknown = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model_with(unknown).SerializeToString(), options, providers=["CPUExecutionProvider"])
    answers = session.run(None, feeds)
    return name, model_with(stated_outputs(answers)), [feeds[info.name] for info in stated], answers


def cases():
    # --- attention ---
    n, length, width, heads = 2, 3, 8, 2
    x = f32(n, length, width)
    qkv = [("x", x), ("w", f32(width, 3 * width, scale=0.5)), ("b", f32(3 * width))]
    mask = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    yield case("attention_mask", "Attention", [*qkv, ("mask", mask)], ("w", "b"), num_heads=heads)
    yield case("attention_lengths", "Attention", [*qkv, ("mask", np.array([3, 2], np.int32))], ("w", "b"), num_heads=heads)
    past = f32(2, n, heads, 2, width // heads)
    yield case(
        "attention_causal_past", "Attention", [*qkv, ("mask", None), ("past", past)],
        ("w", "b"), outputs=2, num_heads=heads, unidirectional=1, scale=0.7,
    )
    yield case(
        "attention_bias", "Attention", [*qkv, ("mask", mask), ("past", None), ("bias", f32(1, heads, length, length))],
        ("w", "b"), num_heads=heads,
    )
    sizes = [("x", x), ("w", f32(width, 8 + 8 + 12, scale=0.5)), ("b", f32(28))]
    yield case("attention_sizes", "Attention", sizes, ("w", "b"), num_heads=heads, qkv_hidden_sizes=[8, 8, 12])
    integers = [
        ("x", u8(n, length, width)), ("w", i8(width, 3 * width)), ("b", f32(3 * width)), ("xs", number(0.02)),
        ("ws", number(0.01)), ("mask", mask), ("xz", number(120, np.uint8)), ("wz", number(3, np.int8)),
    ]
    yield case("qattention", "QAttention", integers, ("w", "b", "xs", "ws", "xz", "wz"), num_heads=heads)
    q, k, v = f32(n, length, width), f32(n, 5, width), f32(n, 5, width)
    mha = [("q", q), ("k", k), ("v", v)]
    yield case("mha_plain", "MultiHeadAttention", mha, num_heads=heads)
    keys = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
    yield case(
        "mha_bias_mask", "MultiHeadAttention",
        [*mha, ("bias", f32(3 * width)), ("mask", keys), ("scores", f32(1, heads, length, 5))], ("bias",), num_heads=heads,
    )
    same = [f32(n, length, width) for _ in range(3)]
    plain = case("", "MultiHeadAttention", list(zip("qkv", same)), num_heads=heads)
    parts = [part.reshape(n, length, heads, -1) for part in same]
    yield case("mha_packed", "MultiHeadAttention", [("q", np.stack(parts, 3))], num_heads=heads, answers=plain[3])
    yield case("mha_packed_keys", "MultiHeadAttention", [("q", same[0]), ("k", np.stack(parts[1:], 3))], num_heads=heads, answers=plain[3])
    yield case(
        "mha_cross_heads", "MultiHeadAttention", [("q", q), ("k", f32(n, heads, 5, 4)), ("v", f32(n, heads, 5, 4))], num_heads=heads
    )
    pasts = [("pk", f32(n, heads, 4, 4)), ("pv", f32(n, heads, 4, 4))]
    yield case(
        "mha_past", "MultiHeadAttention",
        [("q", q), ("k", f32(n, length, width)), ("v", f32(n, length, width)), ("bias", None), ("mask", None), ("scores", None), *pasts],
        outputs=3, num_heads=heads, unidirectional=1,
    )
    # --- grouped queries, as language models have them ---
    angles = np.outer(np.arange(16), 1.0 / 100 ** (np.arange(8) / 8)).astype(np.float32)
    tables = [("cos", np.cos(angles)), ("sin", np.sin(angles))]

    def grouped(past_length, new, lengths, total, extra=(), packed=False):
        gq = f32(len(lengths), new, 4 * 16 + (2 * 2 * 16 if packed else 0))
        gk, gv = (None, None) if packed else (f32(len(lengths), new, 2 * 16), f32(len(lengths), new, 2 * 16))
        caches = (None, None) if past_length == 0 else (f32(len(lengths), 2, past_length, 16), f32(len(lengths), 2, past_length, 16))
        return [
            ("q", gq), ("k", gk), ("v", gv), ("pk", caches[0]), ("pv", caches[1]),
            ("last", np.array(lengths, np.int32) - 1), ("total", number(total, np.int32)), *extra,
        ]

    weights = ("cos", "sin")
    yield case("gqa_prompt", "GroupQueryAttention", grouped(0, 5, [5, 5], 5, tables), weights, 3, num_heads=4, kv_num_heads=2, do_rotary=1)
    yield case("gqa_token", "GroupQueryAttention", grouped(6, 1, [7], 7, tables), weights, 3, num_heads=4, kv_num_heads=2, do_rotary=1)
    yield case(
        "gqa_window_softcap", "GroupQueryAttention", grouped(6, 1, [7], 7), (), 3, num_heads=4, kv_num_heads=2, local_window_size=3, softcap=5.0
    )
    yield case(
        "gqa_packed_interleaved", "GroupQueryAttention", grouped(0, 4, [4], 4, tables, packed=True), weights, 3,
        num_heads=4, kv_num_heads=2, do_rotary=1, rotary_interleaved=1,
    )
    yield case("gqa_ragged_cache", "GroupQueryAttention", grouped(6, 1, [3, 7], 7, tables), weights, 3, num_heads=4, kv_num_heads=2, do_rotary=1)
    positions = np.array([[1, 2, 3], [4, 5, 6]], np.int64)
    for interleaved in (0, 1):
        yield case(
            f"rotary_{interleaved}", "RotaryEmbedding", [("x", f32(2, 3, 32)), ("p", positions), *tables], weights, interleaved=interleaved
        )
    yield case("rotary_offset", "RotaryEmbedding", [("x", f32(2, 2, 3, 16)), ("p", np.array([5], np.int64)), *tables], weights)
    ids = draw.integers(0, 6, (2, 3)).astype(np.int32)
    embed = [
        ("ids", ids), ("segments", draw.integers(0, 2, (2, 3)).astype(np.int32)), ("words", f32(6, 4)), ("places", f32(5, 4)),
        ("kinds", f32(2, 4)), ("gamma", f32(4)), ("beta", f32(4)), ("mask", mask),
    ]
    yield case("embed_layer_norm", "EmbedLayerNormalization", embed, ("words", "places", "kinds", "gamma", "beta"), 2, epsilon=1e-5)
    yield case("embed_layer_norm_words", "EmbedLayerNormalization", [(k, v if k not in ("segments", "kinds", "mask") else None) for k, v in embed], ("words", "places", "gamma", "beta"), 2)
    # --- quantised products ---
    zero, one = number(5, np.uint8), number(0.03)
    for name, weight, scale, point in (
        ("per_tensor", i8(6, 4), number(0.02), number(1, np.int8)),
        ("per_column", u8(6, 4), np.abs(f32(4)) + 0.01, u8(4)),
    ):
        inputs = [("a", f32(3, 6)), ("b", weight), ("bs", scale), ("bz", point), ("bias", f32(4))]
        yield case(f"dynamic_matmul_{name}", "DynamicQuantizeMatMul", inputs, ("b", "bs", "bz", "bias"))
        inputs = [("a", u8(3, 6)), ("b", weight), ("as", one), ("bs", scale), ("az", zero), ("bz", point), ("bias", f32(4))]
        yield case(f"integer_matmul_{name}", "MatMulIntegerToFloat", inputs, ("b", "as", "bs", "az", "bz", "bias"))
    gemm = [
        ("a", u8(3, 6)), ("as", one), ("az", zero), ("b", i8(4, 6)), ("bs", number(0.02)), ("bz", number(0, np.int8)),
        ("c", draw.integers(-500, 500, 4).astype(np.int32)), ("ys", number(0.9)), ("yz", number(100, np.uint8)),
    ]
    yield case("qgemm", "QGemm", gemm, ("as", "az", "b", "bs", "bz", "c", "ys", "yz"), transB=1)
    yield case("qgemm_floats", "QGemm", gemm[:7], ("as", "az", "b", "bs", "bz", "c"), transB=1, alpha=0.5)
    pair = [("a", u8(3, 4)), ("as", one), ("az", zero), ("b", u8(4)), ("bs", number(0.05)), ("bz", number(9, np.uint8))]
    for op, scale in (("QLinearAdd", 0.08), ("QLinearMul", 0.4)):
        yield case(op.lower(), op, [*pair, ("ys", number(scale)), ("yz", number(60, np.uint8))], ("as", "az", "bs", "bz", "ys", "yz"))
    given = [("a", u8(2, 3, 4, 4)), ("as", one), ("az", number(128, np.uint8))]
    fixed = ("as", "az", "ys", "yz")
    yield case("qlinearsigmoid", "QLinearSigmoid", [*given, ("ys", number(1 / 256)), ("yz", number(0, np.uint8))], fixed)
    yield case("qlinearleakyrelu", "QLinearLeakyRelu", [*given, ("ys", number(0.02)), ("yz", number(30, np.uint8))], fixed, alpha=0.2)
    yield case("qlinearsoftmax", "QLinearSoftmax", [*given, ("ys", number(1 / 256)), ("yz", number(0, np.uint8))], fixed, axis=-1, opset=13)
    yield case("qlinearglobal", "QLinearGlobalAveragePool", [*given, ("ys", number(0.01)), ("yz", number(128, np.uint8))], fixed)
    parts = [("ys", number(0.04)), ("yz", number(7, np.uint8)), *pair[:3], ("b", u8(2, 4)), ("bs", number(0.05)), ("bz", number(9, np.uint8))]
    yield case("qlinearconcat", "QLinearConcat", parts, ("as", "az", "bs", "bz", "ys", "yz"), axis=0)
    convolution = [
        ("x", u8(1, 2, 5, 5)), ("xs", one), ("xz", zero), ("w", i8(3, 2, 3, 3)), ("ws", np.array([0.01, 0.02, 0.03], np.float32)),
        ("wz", np.zeros(3, np.int8)), ("ys", number(0.5)), ("yz", number(90, np.uint8)), ("b", draw.integers(-900, 900, 3).astype(np.int32)),
    ]
    yield case("qlinearconv_bias", "QLinearConv", convolution, ("xs", "xz", "w", "ws", "wz", "ys", "yz", "b"), domain="", pads=[1, 1, 1, 1], strides=[2, 2])
    for bits in (4, 8):
        for name, zeros in (("symmetric", None), ("zeros", u8(3, 3 * bits // 8 + (bits == 4)))):
            inputs = [("a", f32(2, 40)), ("b", u8(3, 3, 16 * bits // 8)), ("s", np.abs(f32(9)) + 0.01), ("z", zeros)]
            yield case(f"matmul_{bits}bits_{name}", "MatMulNBits", inputs, ("b", "s", "z"), K=40, N=3, bits=bits, block_size=16)
    # --- recurrent ---
    def lstm(batch, directions, per_column, length=4):
        features, hidden = 3, 5
        scale = (lambda: np.abs(f32(directions, 4 * hidden, scale=0.01)) + 0.005) if per_column else lambda: np.full(directions, 0.01, np.float32)
        zeros = np.zeros((directions, 4 * hidden) if per_column else directions, np.int8)
        return [
            ("x", f32(length, batch, features)), ("w", i8(directions, features, 4 * hidden)), ("r", i8(directions, hidden, 4 * hidden)),
            ("b", f32(directions, 8 * hidden)), ("lens", None), ("h", None), ("c", None), ("p", None),
            ("ws", scale()), ("wz", zeros), ("rs", scale()), ("rz", zeros),
        ]

    fixed = ("w", "r", "b", "ws", "wz", "rs", "rz")
    yield case("lstm_int8", "DynamicQuantizeLSTM", lstm(1, 1, False), fixed, 3, hidden_size=5)
    yield case("lstm_int8_both_ways", "DynamicQuantizeLSTM", lstm(1, 2, True), fixed, 3, hidden_size=5, direction="bidirectional")
    yield case("lstm_int8_batch", "DynamicQuantizeLSTM", lstm(3, 2, False), fixed, 3, hidden_size=5, direction="bidirectional")
    # --- what the node cases lack ---
    rois = np.array([[0, 0, 0, 5, 5], [1, 1, 2, 6, 4], [0, 3, 3, 3, 3], [1, 2, 6, 12, 14]], np.float32)
    yield case("max_roi_pool", "MaxRoiPool", [("x", f32(2, 3, 7, 8)), ("rois", rois)], domain="", pooled_shape=[2, 3], spatial_scale=0.75)
    boxes = np.array([[0.5, 0.2, 5.3, 4.1], [1, 2, 6.5, 3.25], [2, 2, 2.2, 2.1]], np.float32)
    align = [("x", f32(2, 2, 6, 7)), ("rois", boxes), ("which", np.array([0, 1, 0], np.int64))]
    for mode in ("avg", "max"):
        yield case(f"roi_align_adaptive_{mode}", "RoiAlign", align, domain="", mode=mode, output_height=2, output_width=2)
    rows, scale, bias, mean, variance = f32(4, 3, 2), f32(3), f32(3), f32(3), np.abs(f32(3)) + 1
    of_batch = (rows.mean((0, 2)), rows.var((0, 2)))
    by_channel = [array.reshape(1, 3, 1) for array in (scale, bias, *of_batch)]
    y = by_channel[0] * (rows - by_channel[2]) / np.sqrt(by_channel[3] + np.float32(1e-5)) + by_channel[1]
    moved = [np.float32(0.9) * old + np.float32(0.1) * new for old, new in zip((mean, variance), of_batch)]
    norm = [("x", rows), ("s", scale), ("b", bias), ("mean", mean), ("var", variance)]
    yield case("batch_norm_training_9", "BatchNormalization", norm, outputs=5, domain="", version=9, answers=[y, *moved, *of_batch])
    certain = np.full((2, 4), -np.inf, np.float32)
    certain[0, 2] = certain[1, 1] = -3
    draws = np.array([[2] * 5, [1] * 5], np.int64)
    yield case("multinomial_certain", "Multinomial", [("x", certain)], domain="", answers=[draws], sample_size=5, dtype=TensorProto.INT64, seed=1.0)
    fused = [("x", f32(1, 2, 5, 5)), ("w", f32(3, 2, 3, 3)), ("b", f32(3)), ("z", f32(1, 3, 3, 3))]
    yield case("fused_conv", "FusedConv", fused, ("w", "b"), activation="Relu")


def main():
    target = REPOSITORY / "tests" / "data" / "onnx_contrib.zip"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for name, model, inputs, answers in cases():
            write_case(folder / name, model, [(inputs, answers)])
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        with zipfile.ZipFile(target, "w") as archive:  # neither compressed nor dated: the same bytes whenever it is made
            for path in files:
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes())
        print(f"{sum(1 for _ in folder.iterdir())} cases in {target}")


if __name__ == "__main__":
    main()
