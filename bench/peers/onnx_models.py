#!/usr/bin/env python3
"""Real ONNX models: `lockstep run --bench` beside ONNX Runtime with all of its optimisations, in alternating rounds.

    tools/onnx_models.py FOLDER
    bench/peers/onnx_models.py build/release/bin/lockstep FOLDER [--threads 2] [--rounds 3] [--only TEXT]...

Prints a line for each model: the least median of the rounds of both, and the ratio (above 1 Lockstep is faster), then the
geometric mean of the models of floats. A model that Lockstep does not run is named with its error.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def inputs_of(folder):
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    inputs = {}
    for i, info in enumerate(graph.input):
        path = folder / "test_data_set_0" / f"input_{i}.pb"
        if path.exists():
            inputs[info.name] = numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    quantised = any("Quantize" in node.op_type or "Integer" in node.op_type for node in graph.node)
    return inputs, quantised, len(graph.node)


def session_of(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def median_of_runs(session, inputs, seconds):
    """Milliseconds, and how many runs fit into the time."""
    session.run(None, inputs)
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[len(times) // 2], len(times)


def lockstep_median(command, folder, arguments, runs, threads):
    environment = os.environ | {"LOCKSTEP_NUM_THREADS": str(threads)}
    result = subprocess.run(
        [command, "run", str(folder / "model.onnx"), "--device", "cpu", "--json", "--bench", str(runs), *arguments],
        env=environment, capture_output=True, text=True,
    )
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip().splitlines()[-1][:100])
    return json.loads(result.stdout)["median_ms"]


def measure(command, folder, threads, rounds):
    inputs, quantised, nodes = inputs_of(folder)
    session = session_of(folder / "model.onnx", threads)
    ours, theirs = math.inf, math.inf
    with tempfile.TemporaryDirectory() as place:
        arguments = []
        for i, (name, value) in enumerate(inputs.items()):
            np.save(f"{place}/{i}.npy", value)
            arguments.append(f"--input={name}={place}/{i}.npy")
        for _ in range(rounds):
            median, runs = median_of_runs(session, inputs, 0.5)
            theirs = min(theirs, median)
            ours = min(ours, lockstep_median(command, folder, arguments, max(5, min(runs, 200)), threads))
    return ours, theirs, quantised, nodes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    ratios = []
    print(f"| model | nodes | Lockstep | ONNX Runtime {onnxruntime.__version__} | ratio |\n|---|---:|---:|---:|---:|")
    for path in sorted(arguments.folder.glob("*/*/model.onnx")):
        name = path.parent.name
        if not all(text in name for text in arguments.only):
            continue
        try:
            ours, theirs, quantised, nodes = measure(arguments.command, path.parent, arguments.threads, arguments.rounds)
        except RuntimeError as error:
            print(f"| {name} | | {error} | | |", flush=True)
            continue
        if not quantised:
            ratios.append(theirs / ours)
        kind = " (quantised)" if quantised else ""
        print(f"| {name}{kind} | {nodes} | {ours:.3f} ms | {theirs:.3f} ms | {theirs / ours:.2f} |", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\ngeometric mean of {len(ratios)} models of floats: {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
