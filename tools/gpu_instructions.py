#!/usr/bin/env python3
"""Counts the instructions of the row kernels of docs/performance/gpu.md: compiled by NVRTC, disassembled by nvdisasm (both
come with CUDA; no GPU is needed).

    gpu_instructions.py [ROW_KERNELS] [--architecture sm_90] [--only NAME] [--opcodes]

Instructions as they stand in the machine code: loops count once, slow paths of divisions in full. "per element" divides
by the elements that a thread has at hand. --opcodes lists what the instructions are.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import tempfile


def opcodes(cubin):
    text = subprocess.run(["nvdisasm", "-c", cubin], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^\s*/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)", text, re.M)
    return collections.Counter(code for code in found if code != "NOP")


def elements(text):
    """Of a thread: groups of neighbours, times vectors."""
    width = re.search(r"for \(int q = 0; q < (\d+)", text)
    groups = re.search(r"for \(int s = 0; s < (\d+)", text)
    return int(width[1]) * (int(groups[1]) if groups else 1) if width else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row_kernels", nargs="?", default="build/release/bin/bench/row_kernels")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--opcodes", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.row_kernels, folder, options.architecture], check=True)
        print(f"{'kernel':28} {'instructions':>12} {'elements':>9} {'per element':>12}")
        for cubin in sorted(pathlib.Path(folder).glob("*.cubin")):
            if options.only not in cubin.stem:
                continue
            codes = opcodes(cubin)
            total, count = sum(codes.values()), elements(cubin.with_suffix(".cu").read_text())
            print(f"{cubin.stem:28} {total:12} {count:9} {total / count:12.1f}")
            if options.opcodes:
                for code, times in codes.most_common():
                    print(f"    {times:5} {code}")


if __name__ == "__main__":
    main()
