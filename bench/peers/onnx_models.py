#!/usr/bin/env python3
"""Real ONNX models: `lockstep run --bench` beside ONNX Runtime with all of its optimisations, in alternating rounds.

    tools/onnx_models.py FOLDER
    bench/peers/onnx_models.py build/release/bin/lockstep FOLDER [--threads 2] [--rounds 3] [--only TEXT]... [--memory]

Prints a line for each model: the least median of the rounds of both, and the ratio (above 1 Lockstep is faster), then the
geometric mean of the models of floats. A model that Lockstep does not run is named with its error.

With --memory instead the peak memory in MB of a process that loads a model and runs it five times, on Linux: Lockstep's
whole process; ONNX Runtime's above Python and numpy, so with its libraries, and above its own import, so without; and
both above what they take for a model of one node.
"""

import argparse
import json
import math
import os
import subprocess
import sys
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


def run_lockstep(command, folder, arguments, runs, threads, launcher=()):
    environment = os.environ | {"LOCKSTEP_NUM_THREADS": str(threads)}
    line = [command, "run", str(folder / "model.onnx"), "--device", "cpu", "--json", "--bench", str(runs), *arguments]
    result = subprocess.run([*launcher, *line], env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip().splitlines()[-1][:100])
    return result.stdout


def lockstep_median(command, folder, arguments, runs, threads):
    return json.loads(run_lockstep(command, folder, arguments, runs, threads))["median_ms"]


def arguments_of(inputs, place):
    arguments = []
    for i, (name, value) in enumerate(inputs.items()):
        np.save(f"{place}/{i}.npy", value)
        arguments.append(f"--input={name}={place}/{i}.npy")
    return arguments


def measure(command, folder, threads, rounds):
    inputs, quantised, nodes = inputs_of(folder)
    session = session_of(folder / "model.onnx", threads)
    ours, theirs = math.inf, math.inf
    with tempfile.TemporaryDirectory() as place:
        arguments = arguments_of(inputs, place)
        for _ in range(rounds):
            median, runs = median_of_runs(session, inputs, 0.5)
            theirs = min(theirs, median)
            ours = min(ours, lockstep_median(command, folder, arguments, max(5, min(runs, 200)), threads))
    return ours, theirs, quantised, nodes


# --- memory ---

RUNS = 5

# A process's peak counts what its parent had when it was started, so a small one starts the command.
PEAK_OF_CHILD = """
import os, resource, sys
status = os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""

PEAK_OF_ONNX_RUNTIME = """
import sys
import numpy as np

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

path, threads, runs, *inputs = sys.argv[1:]
bare = peak()
import onnxruntime
imported = peak()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
options.inter_op_num_threads = 1
options.log_severity_level = 3
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
inputs = {name: np.load(file) for name, file in (text.removeprefix("--input=").split("=", 1) for text in inputs)}
for _ in range(int(runs)):
    session.run(None, inputs)
print(peak() - bare, peak() - imported)
"""


def peaks(command, folder, inputs, threads):
    """MB: Lockstep's process, ONNX Runtime's above numpy, and above its import."""
    with tempfile.TemporaryDirectory() as place:
        arguments = arguments_of(inputs, place)
        launcher = [sys.executable, "-S", "-E", "-c", PEAK_OF_CHILD]
        ours = run_lockstep(command, folder, arguments, RUNS - 1, threads, launcher).splitlines()[-1]
        line = [sys.executable, "-c", PEAK_OF_ONNX_RUNTIME, folder / "model.onnx", str(threads), str(RUNS), *arguments]
        theirs = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
        return [int(kilobytes) * 1024 / 1e6 for kilobytes in (ours, *theirs)]


def peaks_of_one_node(command, threads):
    value = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "one_node", value[:1], value[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory() as place:
        onnx.save(model, f"{place}/model.onnx")
        return peaks(command, Path(place), {"x": np.ones(4, np.float32)}, threads)


def compare_memory(arguments, models):
    base = peaks_of_one_node(arguments.command, arguments.threads)
    print("MB; a model of one node: Lockstep %.1f, ONNX Runtime %.1f, %.1f above its import\n" % tuple(base))
    print(f"| model | Lockstep | ONNX Runtime {onnxruntime.__version__} | above its import | both above one node |")
    print("|---|---:|---:|---:|---:|")
    for path in models:
        inputs, _, _ = inputs_of(path.parent)
        try:
            ours, theirs, above = peaks(arguments.command, path.parent, inputs, arguments.threads)
        except RuntimeError as error:
            print(f"| {path.parent.name} | {error} | | | |", flush=True)
            continue
        both = f"{ours - base[0]:.0f} / {theirs - base[1]:.0f}"
        print(f"| {path.parent.name} | {ours:.0f} | {theirs:.0f} | {above:.0f} | {both} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    found = sorted(arguments.folder.glob("*/*/model.onnx"))
    models = [path for path in found if all(text in path.parent.name for text in arguments.only)]
    if arguments.memory:
        return compare_memory(arguments, models)
    ratios = []
    print(f"| model | nodes | Lockstep | ONNX Runtime {onnxruntime.__version__} | ratio |\n|---|---:|---:|---:|---:|")
    for path in models:
        name = path.parent.name
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
