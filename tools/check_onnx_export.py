#!/usr/bin/env python3
"""Checks what save_onnx writes against ONNX's own checker and ONNX Runtime.

    pip install onnx==1.23.2 onnxruntime==1.32.0
    LOCKSTEP_ONNX_EXPORTS=FOLDER lockstep_io_tests --gtest_filter='OnnxExport.*BackWithTheSameBits'
    tools/check_onnx_export.py FOLDER

Each NAME.onnx of the folder has its inputs and our outputs beside it: NAME.input_I.npy, NAME.output_I.npy. onnx.checker
must accept it (full_check: with shape inference), and ONNX Runtime, its optimisations off, must give the outputs within
1e-4 of their range; integers and truths exactly. Writes a table; the exit status is 1 if anything fails.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

TOLERANCE = 1e-4


def stored(path, kind):
    """The arrays NAME.kind_0.npy, NAME.kind_1.npy, ... of a model."""
    arrays = []
    while (file := path.with_suffix(f".{kind}_{len(arrays)}.npy")).exists():
        arrays.append(np.load(file))
    return arrays


def difference(ours, theirs):
    """The largest difference as a part of the range; infinite where shapes, dtypes or exact values differ."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return np.inf
    if ours.dtype.kind != "f":
        return 0.0 if np.array_equal(ours, theirs) else np.inf
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    scale = max(np.ptp(a[finite]), np.abs(a[finite]).max(), 1e-30)
    return float(np.abs(a[finite] - b[finite]).max() / scale)


def tolerance_of(array):
    """Half a unit in the last place of the narrow floats is more than the tolerance."""
    return 2e-3 if array.dtype == np.float16 else TOLERANCE


def check(path):
    """(nodes, largest difference, what is wrong)"""
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(str(path), load_external_data=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = stored(path, "input")
    expected = stored(path, "output")
    if not expected or len(expected) != len(session.get_outputs()):
        return len(model.graph.node), np.inf, "outputs are missing"
    names = [value.name for value in session.get_inputs()]
    outputs = session.run(None, dict(zip(names, inputs, strict=True)))
    worst, wrong = 0.0, ""
    for ours, theirs in zip(expected, outputs, strict=True):
        error = difference(ours, theirs)
        worst = max(worst, error)
        if error > tolerance_of(ours):
            wrong = "differs"
    return len(model.graph.node), worst, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    files = sorted(folder.glob("*.onnx"))
    if not files:
        sys.exit(f"{folder} holds no exports")
    print(f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}\n")
    print("| export | nodes | largest difference / range |\n|---|---|---|")
    failed = 0
    for path in files:
        try:
            nodes, worst, wrong = check(path)
        except Exception as error:  # whatever the two say is the answer
            nodes, worst, wrong = 0, np.inf, f"{type(error).__name__}: {error}".splitlines()[0][:300]
        failed += bool(wrong)
        print(f"| {path.stem} | {nodes} | {worst:.1e} | {wrong}".rstrip(" |") + " |")
    print(f"\n{len(files) - failed} of {len(files)} pass")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
