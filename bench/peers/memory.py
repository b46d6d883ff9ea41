#!/usr/bin/env python3
"""Compares the largest resident memory of processes that classify a picture: Lockstep's command, ONNX Runtime and PyTorch.

Each process reads the same random weights from a file (safetensors, ONNX, .pth), runs the network five times, so that
whatever is kept from run to run is there, and ends; interpreters and libraries are counted, and given apart for the peers,
as what the process had before it opened the file. Peers: pip install -r bench/peers/requirements.txt

Example: memory.py build/release/bin/lockstep
"""
import argparse
import json
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile

NETWORKS = ("resnet18", "resnet50", "squeezenet1_1", "mobilenet_v3_large", "vit_b_16")
RUNS = 5
SHAPE = (1, 3, 224, 224)


def peak():
    """The largest resident set of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def write_safetensors(tensors, file):
    header, begin = {}, 0
    for name, tensor in tensors.items():
        end = begin + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            out.write(tensor.contiguous().numpy().tobytes())


def make(folder, network):
    """The network's files for all three, and a picture."""
    import torch
    import torchvision

    model = getattr(torchvision.models, network)().eval()
    floats = {name: value for name, value in model.state_dict().items() if value.dtype == torch.float32}
    write_safetensors(floats, folder / "weights.safetensors")
    torch.save(model.state_dict(), folder / "weights.pth")
    torch.onnx.export(model, (torch.zeros(SHAPE),), folder / "model.onnx", dynamo=False, opset_version=17,
                      input_names=["x"], output_names=["y"])
    torchvision.io.write_png(torch.randint(256, SHAPE[1:], dtype=torch.uint8), str(folder / "picture.png"))


def run_torch(folder, network, threads):
    import torch
    import torchvision

    torch.set_num_threads(threads)
    before = peak()
    model = getattr(torchvision.models, network)(weights=None).eval()
    model.load_state_dict(torch.load(folder / "weights.pth", mmap=True), assign=True)
    model, x = model.to(memory_format=torch.channels_last), torch.rand(SHAPE).to(memory_format=torch.channels_last)
    with torch.no_grad():
        for _ in range(RUNS):
            model(x)
    return before


def run_onnxruntime(folder, _, threads):
    import numpy
    import onnxruntime

    before = peak()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    x = numpy.random.rand(*SHAPE).astype(numpy.float32)
    for _ in range(RUNS):
        session.run(None, {"x": x})
    return before


PEERS = {"PyTorch": run_torch, "ONNX Runtime": run_onnxruntime}


def in_child(options, action, folder, network):
    """What a process of its own, which does this action alone, prints."""
    command = [sys.executable, __file__, options.lockstep, "--threads", str(options.threads), "--child", action,
               str(folder), network]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def lockstep_peak(options, folder, network):
    """In MB, by the system's count for a process that has ended."""
    command = [options.lockstep, "classify", "--device", "cpu", "--arch", network, "--weights",
               folder / "weights.safetensors", "--batch", "1", *[folder / "picture.png"] * RUNS]
    measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000)")
    done = subprocess.run([sys.executable, "-c", measure, *command], stdout=subprocess.PIPE, text=True, check=True,
                          env={"LOCKSTEP_NUM_THREADS": str(options.threads)})
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep", help="the command")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        action, folder, network = options.child
        folder = pathlib.Path(folder)
        if action == "make":
            make(folder, network)
        else:
            before = PEERS[action](folder, network, options.threads)
            print(json.dumps([peak(), before]))
        return
    columns = ["network, one picture", "weights", "Lockstep", *[f"{peer} (without libraries)" for peer in PEERS]]
    print(f"| {' | '.join(columns)} |")
    print("|---|---:|---:|" + "---:|" * len(PEERS))
    for network in options.only:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            in_child(options, "make", folder, network)
            weights = (folder / "weights.safetensors").stat().st_size / 1e6
            cells = [f"{weights:.0f} MB", f"{lockstep_peak(options, folder, network):.0f} MB"]
            for peer in PEERS:
                whole, before = json.loads(in_child(options, peer, folder, network))
                cells.append(f"{whole:.0f} MB ({whole - before:.0f})")
            print(f"| {network} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
