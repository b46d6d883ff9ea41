#!/usr/bin/env python3
"""Writes ONNX's conformance cases into a folder, as files that lockstep_onnx_suite reads.

    pip install onnx==1.23.2
    tools/onnx_suite.py nodes FOLDER     the node cases of the package (1,884)
    tools/onnx_suite.py wheel FOLDER     the models that the wheel holds, with their data
    tools/onnx_suite.py small            tests/data/onnx: the few cases that every test run looks at
    tools/onnx_suite.py model FILE FOLDER [--size NAME=N]... [--value INPUT=N]...
                                         a case of a real model: random inputs, and what ONNX Runtime answers with its
                                         optimisations off (pip install onnxruntime==1.32.0)
    tools/onnx_suite.py nodewise CASE FOLDER
                                         a case for every node of a case's model outside of branches, with the inputs
                                         that ONNX Runtime gave it: what differs there, and what only follows from it

Each case is a folder NAME with model.onnx and test_data_set_K/{input,output}_I.pb, as ONNX's own repository has them.
The small cases are models made here; their outputs are those of ONNX's reference evaluator.
"""

import argparse
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PINNED = "1.23.2"
REPOSITORY = Path(__file__).resolve().parent.parent


def message_of(value, type_proto, name):
    """A value as the message that its type asks for."""
    if isinstance(value, TensorProto):
        return value
    kind = type_proto.WhichOneof("value")
    if kind == "map_type":
        return numpy_helper.from_dict(value, name)
    if kind == "sequence_type":
        return numpy_helper.from_list(value, name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, name)
    return numpy_helper.from_array(np.asarray(value), name)


def write_case(folder, model, data_sets):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for number, (inputs, outputs) in enumerate(data_sets):
        place = folder / f"test_data_set_{number}"
        place.mkdir(exist_ok=True)
        for what, values, stated in (("input", inputs, model.graph.input), ("output", outputs, model.graph.output)):
            for i, (value, info) in enumerate(zip(values, stated)):
                message = message_of(value, info.type, info.name)
                (place / f"{what}_{i}.pb").write_bytes(message.SerializeToString(deterministic=True))


def write_nodes(folder):
    from onnx.backend.test.loader import load_node_model_tests

    cases = load_node_model_tests()
    skipped = []
    for case in cases:
        try:
            write_case(folder / case.name, case.model, case.data_sets)
        except Exception as error:  # values that the package itself cannot write
            shutil.rmtree(folder / case.name, ignore_errors=True)
            skipped.append(f"{case.name}: {error!r:.100}")
    print(f"{len(cases) - len(skipped)} of {len(cases)} node cases in {folder}")
    for line in skipped:
        print("  left out:", line)


def write_wheel(folder):
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    count = 0
    for model in sorted(data.glob("*/*/model.onnx")):
        kind, name = model.parent.parent.name, model.parent.name
        if not any(model.parent.glob("test_data_set_*")):
            continue
        shutil.copytree(model.parent, folder / f"{kind}_{name}", dirs_exist_ok=True)
        count += 1
    print(f"{count} cases of the wheel in {folder}")


# --- the small cases ---------------------------------------------------------------------------------------------------


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def graph_of(nodes, inputs, outputs, initialisers=(), opset=17, functions=(), imports=()):
    graph = helper.make_graph(nodes, "case", inputs, outputs, list(initialisers))
    return helper.make_model(
        graph,
        ir_version=8,
        producer_name="lockstep",
        functions=list(functions),
        opset_imports=[helper.make_opsetid("", opset), *imports],
    )


def small_cases():
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    draw = np.random.default_rng(1)
    node = helper.make_node
    array = numpy_helper.from_array

    def floats(*shape):
        return draw.standard_normal(shape).astype(np.float32)

    x = tensor("x", f32, ["n", 4])
    y = tensor("y", f32, [None, None])
    weights = [array(floats(3, 4), "fc.weight"), array(floats(3), "fc.bias")]
    yield "linear", graph_of([node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1)], [x], [y], weights), [floats(2, 4)]
    # Sizes computed from the input's shape, as exporters write x.view(x.size(0), -1, 2).
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"], axis=0),
        node("Unsqueeze", ["rows", "axes"], ["rows_1"]),
        node("Concat", ["rows_1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    sizes = [array(np.int64(0), "zero"), array(np.array([0], np.int64), "axes"), array(np.array([-1, 2], np.int64), "rest")]
    yield "shape_arithmetic", graph_of(nodes, [x], [tensor("y", f32, [None] * 3)], sizes), [floats(3, 4)]
    # A branch that captures values from outside.
    then_graph = helper.make_graph([node("Add", ["x", "one"], ["t"])], "then", [], [tensor("t", f32, None)])
    else_graph = helper.make_graph([node("Mul", ["x", "two"], ["e"])], "else", [], [tensor("e", f32, None)])
    flag = tensor("flag", TensorProto.BOOL, [])
    numbers = [array(np.float32(1), "one"), array(np.float32(2), "two")]
    branch = node("If", ["flag"], ["y"], then_branch=then_graph, else_branch=else_graph)
    for value in (True, False):
        yield f"if_{str(value).lower()}", graph_of([branch], [flag, x], [y], numbers), [np.bool_(value), floats(1, 4)]
    # A loop that carries a value and collects another.
    body = helper.make_graph(
        [
            node("Add", ["carried", "one"], ["next"]),
            node("Identity", ["going"], ["on"]),
            node("Mul", ["next", "two"], ["collected"]),
        ],
        "body",
        [tensor("trip", i64, []), tensor("going", TensorProto.BOOL, []), tensor("carried", f32, [4])],
        [tensor("on", TensorProto.BOOL, []), tensor("next", f32, [4]), tensor("collected", f32, [4])],
    )
    start = tensor("start", f32, [4])
    loop = node("Loop", ["trips", "yes", "start"], ["last", "all"], body=body)
    outputs = [tensor("last", f32, [4]), tensor("all", f32, [None, 4])]
    yield "loop", graph_of([loop], [start], outputs, [*numbers, array(np.int64(3), "trips"), array(np.bool_(True), "yes")]), [floats(4)]
    # A running sum along a dimension.
    body = helper.make_graph(
        [node("Add", ["state", "item"], ["total"]), node("Identity", ["total"], ["copy"])],
        "body",
        [tensor("state", f32, [4]), tensor("item", f32, [4])],
        [tensor("total", f32, [4]), tensor("copy", f32, [4])],
    )
    scan = node("Scan", ["start", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    yield "scan", graph_of([scan], [start, x], outputs), [floats(4), floats(3, 4)]
    # Sequences.
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=0),
        node("SequenceAt", ["parts", "last"], ["part"]),
        node("SequenceInsert", ["parts", "part"], ["more"]),
        node("ConcatFromSequence", ["more"], ["y"], axis=0),
    ]
    yield "sequence", graph_of(nodes, [x], [y], [array(np.int64(-1), "last")]), [floats(3, 4)]
    # A function of the file, with an attribute.
    constant = node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute_ref("value_float", onnx.AttributeProto.FLOAT, ref_attr_name="by"))
    function = helper.make_function(
        "own", "AddBy", ["a"], ["b"], [constant, node("Add", ["a", "c"], ["b"])], [helper.make_opsetid("", 17)], ["by"]
    )
    call = node("AddBy", ["x"], ["y"], domain="own", by=2.5)
    own = helper.make_opsetid("own", 1)
    yield "function", graph_of([call], [x], [y], functions=[function], imports=[own]), [floats(2, 4)]
    # A small convolutional network with a batch norm.
    picture = tensor("x", f32, ["n", 2, 6, 6])
    nodes = [
        node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("BatchNormalization", ["a", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["b"]),
        node("Relu", ["b"], ["c"]),
        node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["d"], ["e"]),
        node("MatMul", ["e", "fc.weight"], ["f"]),
        node("Softmax", ["f"], ["y"], axis=-1),
    ]
    weights = [
        array(floats(3, 2, 3, 3), "conv.weight"),
        array(floats(3), "conv.bias"),
        array(floats(3), "bn.weight"),
        array(floats(3), "bn.bias"),
        array(floats(3), "bn.mean"),
        array(np.abs(floats(3)) + 0.5, "bn.var"),
        array(floats(27, 5), "fc.weight"),
    ]
    yield "convolution", graph_of(nodes, [picture], [y], weights), [floats(2, 2, 6, 6)]
    # Numbers that are not stored as raw bytes.
    typed = [
        helper.make_tensor("floats", f32, [2], [1.5, -2.5]),
        helper.make_tensor("integers", i64, [2], [3, -4]),
        helper.make_tensor("halves", TensorProto.FLOAT16, [2], [0.5, -1.0]),
    ]
    nodes = [
        node("Cast", ["integers"], ["i"], to=f32),
        node("Cast", ["halves"], ["h"], to=f32),
        node("Add", ["floats", "i"], ["s"]),
        node("Add", ["s", "h"], ["c"]),
        node("Add", ["x", "c"], ["y"]),
    ]
    yield "typed_data", graph_of(nodes, [tensor("x", f32, [2])], [tensor("y", f32, [2])], typed), [floats(2)]


def write_small():
    from onnx.reference import ReferenceEvaluator

    folder = REPOSITORY / "tests" / "data" / "onnx"
    shutil.rmtree(folder, ignore_errors=True)
    for name, model, inputs in small_cases():
        onnx.checker.check_model(model)
        feeds = {info.name: value for info, value in zip(model.graph.input, inputs)}
        write_case(folder / name, model, [(inputs, ReferenceEvaluator(model).run(None, feeds))])
    print(f"{sum(1 for _ in folder.iterdir())} small cases in {folder}")


def write_model(path, folder, sizes, values):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(1)
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
    feeds = {}
    for info in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(size or "?", 1) for size in info.shape]
        if info.name in values:
            kind = types.get(info.type, np.int32 if info.type == "tensor(int32)" else np.int64)
            feeds[info.name] = np.full(shape, values[info.name], kind)
        elif info.type in types:
            feeds[info.name] = (draw.standard_normal(shape) * 0.1).astype(types[info.type])
        else:
            feeds[info.name] = draw.integers(0, 4, shape).astype(np.int32 if info.type == "tensor(int32)" else np.int64)
    outputs = session.run(None, feeds)
    model = onnx.load(path)
    given = [info for info in model.graph.input if info.name in feeds]
    place = folder / path.stem
    (place / "test_data_set_0").mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place / "model.onnx")
    for i, info in enumerate(model.graph.input):
        if info in given:
            message = numpy_helper.from_array(np.asarray(feeds[info.name]), info.name)
            (place / "test_data_set_0" / f"input_{i}.pb").write_bytes(message.SerializeToString())
    for i, (info, value) in enumerate(zip(model.graph.output, outputs)):
        message = numpy_helper.from_array(np.asarray(value), info.name)
        (place / "test_data_set_0" / f"output_{i}.pb").write_bytes(message.SerializeToString())
    print(f"{place}: {len(feeds)} inputs, {len(outputs)} outputs")


def write_nodewise(case, folder):
    import onnxruntime

    model = onnx.load(case / "model.onnx")
    graph = model.graph
    feeds = {}
    for i, info in enumerate(graph.input):
        stored = case / "test_data_set_0" / f"input_{i}.pb"
        if stored.exists():
            feeds[info.name] = numpy_helper.to_array(TensorProto.FromString(stored.read_bytes()))
    every = onnx.ModelProto.FromString(model.SerializeToString())
    stated = {info.name for info in graph.output}
    for name in (name for node in graph.node for name in node.output if name and name not in stated):
        every.graph.output.append(helper.make_empty_tensor_value_info(name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(every.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [info.name for info in every.graph.output]
    values = dict(zip(names, session.run(names, feeds))) | feeds
    weights = {tensor.name: tensor for tensor in graph.initializer}

    def info_of(name):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape)

    count = 0
    for number, node in enumerate(graph.node):
        inputs = [name for name in dict.fromkeys(node.input) if name and name not in weights]
        outputs = [name for name in node.output if name]
        if not all(isinstance(values.get(name), np.ndarray) for name in inputs + outputs) or node.op_type in ("If", "Loop", "Scan"):
            continue
        own = [weights[name] for name in dict.fromkeys(node.input) if name in weights]
        alone = helper.make_graph([node], "node", [info_of(i) for i in inputs], [info_of(o) for o in outputs], own)
        whole = helper.make_model(alone, ir_version=model.ir_version, opset_imports=model.opset_import)
        write_case(folder / f"{number:04}_{node.op_type}", whole, [([values[i] for i in inputs], [values[o] for o in outputs])])
        count += 1
    print(f"{count} of {len(graph.node)} nodes in {folder}")


def assignments(words):
    return {word.split("=")[0]: float(word.split("=")[1]) for word in words}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("nodes", "wheel", "small", "model", "nodewise"))
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--size", action="append", default=[])
    parser.add_argument("--value", action="append", default=[])
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if onnx.__version__ != PINNED:
        sys.exit(f"the cases are those of onnx {PINNED}, and this is {onnx.__version__}: pip install onnx=={PINNED}")
    if len(arguments.paths) != {"small": 0, "model": 2, "nodewise": 2}.get(arguments.what, 1):
        parser.error("which folder?")
    if arguments.what == "small":
        write_small()
    elif arguments.what == "nodes":
        write_nodes(*arguments.paths)
    elif arguments.what == "wheel":
        write_wheel(*arguments.paths)
    elif arguments.what == "nodewise":
        write_nodewise(*arguments.paths)
    else:
        sizes = {name: int(size) for name, size in assignments(arguments.size).items()}
        write_model(*arguments.paths, sizes, assignments(arguments.value))


if __name__ == "__main__":
    main()
