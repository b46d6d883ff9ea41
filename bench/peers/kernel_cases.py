"""Single kernels as peers compute them, by the names of bench/kernel_bench.cpp and of the products in model_bench.cpp.

Each peer gets its fairest form: ONNX Runtime constant weights, packed beforehand, and results bound to memory that exists;
oneDNN (inside PyTorch) its blocked layouts for pictures, results and weights; OpenBLAS (inside NumPy) an output that exists.
A case is a function that builds it and returns what to time. Peers leave out what they do not have.
"""
import io

import torch
import torch.nn.functional as F
from torch import nn

N = 4096

# name -> (inputs, weights, operation(*inputs, *weights))
CASES = {
    **{f"matmul_{n}": ([(n, n), (n, n)], [], torch.matmul) for n in (256, 512, 1024, 2048)},
    "matmul_64_batch256": ([(256, 64, 64), (256, 64, 64)], [], torch.matmul),
    "matrix_vector_4096": ([(N,)], [(N, N)], lambda x, w: torch.matmul(w, x)),
    "linear_4096_b1": ([(1, N)], [(N, N)], F.linear),
    "conv3x3_64_56": ([(1, 64, 56, 56)], [(64, 64, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
    "conv1x1_256_64_56": ([(1, 256, 56, 56)], [(64, 256, 1, 1)], F.conv2d),
    "conv3x3_512_7": ([(1, 512, 7, 7)], [(512, 512, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
    "conv7x7_stem": ([(1, 3, 224, 224)], [(64, 3, 7, 7)], lambda x, w: F.conv2d(x, w, stride=2, padding=3)),
    "depthwise3x3_144_56": ([(1, 144, 56, 56)], [(144, 1, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1, groups=144)),
    "gelu_4096": ([(N, N)], [], F.gelu),
    "gelu_add_mul_4096": ([(N, N), (N, N)], [(N,)], lambda x, r, b: F.gelu(x + b) * r),
    "layer_norm_4096": ([(N, N)], [(N,), (N,)], lambda x, w, b: F.layer_norm(x, (N,), w, b)),
    "softmax_4096": ([(N, N)], [], lambda x: torch.softmax(x, -1)),
    "sum_all_4096": ([(N, N)], [], torch.sum),
    "sum_rows_4096": ([(N, N)], [], lambda x: torch.sum(x, 1)),
    "sum_columns_4096": ([(N, N)], [], lambda x: torch.sum(x, 0)),
    "attention_8x1024x64": ([(1, 8, 1024, 64)] * 3, [], F.scaled_dot_product_attention),
    "step_of_one_op": ([(16,)], [], lambda x: x + x),
}
CONVOLUTIONS = [name for name in CASES if name.startswith(("conv", "depthwise"))]


class Kernel(nn.Module):
    """A case as a module, so that it can be exported with its weights in it."""

    def __init__(self, operation, weights):
        super().__init__()
        self.operation = operation
        self.weights = nn.ParameterList(weights)

    def forward(self, *inputs):
        return self.operation(*inputs, *self.weights)


def onnx_run(module, inputs, threads):
    """A run of the module, exported, on ONNX Runtime; inputs and outputs bound."""
    import onnxruntime

    torch.backends.mha.set_fastpath_enabled(False)  # has no counterpart in ONNX
    file = io.BytesIO()
    names = [f"x{i}" for i in range(len(inputs))]
    torch.onnx.export(module, tuple(inputs), file, dynamo=False, opset_version=17, input_names=names, output_names=["y"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in zip(names, inputs):
        binding.bind_cpu_input(name, value.numpy())
    output = onnxruntime.OrtValue.ortvalue_from_numpy(module(*inputs).detach().numpy())
    binding.bind_ortvalue_output("y", output)
    return lambda: session.run_with_iobinding(binding)


def torch_case(name, compiles=False):
    inputs, weights, operation = CASES[name]
    if compiles:
        operation = torch.compile(operation)
    values = [torch.randn(s) for s in inputs + weights]
    if name in CONVOLUTIONS:
        values = [v.to(memory_format=torch.channels_last) for v in values]
    return lambda: operation(*values)


def onnxruntime_case(name, threads):
    inputs, weights, operation = CASES[name]
    module = Kernel(operation, [torch.randn(s) for s in weights]).eval()
    return onnx_run(module, [torch.randn(s) for s in inputs], threads)


def onednn_case(name):
    from torch.utils import mkldnn

    if name in CONVOLUTIONS:
        (_, channels, *_), (out, _, size, _) = CASES[name][0][0], CASES[name][1][0]
        stem, depthwise = name == "conv7x7_stem", name.startswith("depthwise")
        layer = nn.Conv2d(channels, out, size, 2 if stem else 1, size // 2, groups=channels if depthwise else 1, bias=False)
        # What another convolution leaves lies in blocks of channels, as inside a network; the stem's picture does not.
        before = nn.Identity() if stem else mkldnn.to_mkldnn(nn.Conv2d(channels, channels, 1).eval())
        values = [before(torch.randn(CASES[name][0][0]).to_mkldnn())]
    elif name == "linear_4096_b1":
        layer, values = nn.Linear(N, N, bias=False), [torch.randn(1, N).to_mkldnn()]
    else:
        return None
    layer = mkldnn.to_mkldnn(layer.eval())
    return lambda: layer(*values)


def openblas_case(name):
    import numpy

    inputs, weights, _ = CASES[name]
    values = [numpy.random.randn(*s).astype(numpy.float32) for s in inputs + weights]
    if name.startswith("matmul"):
        out = numpy.empty(inputs[0], numpy.float32)
        return lambda: numpy.matmul(*values, out=out)
    if name in ("matrix_vector_4096", "linear_4096_b1"):
        vector, matrix, out = values[0].reshape(N), values[1], numpy.empty(N, numpy.float32)
        return lambda: numpy.matmul(matrix, vector, out=out)
    return None


def cases(runtime, threads):
    make = {
        "torch": torch_case,
        "compiled": lambda name: torch_case(name, compiles=True),
        "onnxruntime": lambda name: onnxruntime_case(name, threads),
        "onednn": onednn_case,
        "openblas": openblas_case,
    }[runtime]
    return {name: lambda name=name: make(name) for name in CASES}
