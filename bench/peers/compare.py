#!/usr/bin/env python3
"""Compares a Lockstep benchmark executable with PyTorch or ONNX Runtime on this machine, as a Markdown table.

The two programs run alternately for several rounds, never at once, so that a slow spell of the machine meets both.
The executable is a Google Benchmark program whose benchmarks carry the names of torch_models.py (anything after a
'/' in a name, such as '/real_time', is ignored). Names that only one side knows are listed below the table. The
ratio is Lockstep's speed over the peer's: above 1, Lockstep is faster. Beside the ratio of the medians stands that of
each side's fastest round. A name is marked "noisy" where the rounds of a side differ by more than half: other work on
the machine then decides the result (threads that wait for each other suffer most), and it should not be quoted.

Example: compare.py build/bench/peer_bench --threads 2 --rounds 5
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

PEER = pathlib.Path(__file__).with_name("torch_models.py")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def run(command):
    """Standard output of the command; standard error passes through. Stops this program if the command fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        sys.exit(f"compare.py: cannot run {command[0]}: {error.strerror}")
    if done.returncode != 0:
        sys.exit(f"compare.py: exit status {done.returncode} from: {' '.join(command)}")
    return done.stdout


def lockstep_times(executable, names, extra):
    """{name: seconds} from one run of the Google Benchmark executable; repeated results of a name give the median."""
    pattern = "^(" + "|".join(names) + ")(/.*)?$" if names else "."
    output = run([executable, "--benchmark_format=json", f"--benchmark_filter={pattern}", *extra])
    try:
        results = json.loads(output)["benchmarks"]
    except (json.JSONDecodeError, KeyError) as error:
        sys.exit(f"compare.py: {executable} printed no Google Benchmark JSON ({error})")
    times = {}
    for result in results:
        if result.get("run_type") == "aggregate":
            continue
        name = result.get("run_name", result["name"]).split("/")[0]
        if result.get("error_occurred") or result.get("skipped"):
            message = result.get("error_message") or result.get("skip_message")
            print(f"compare.py: {name}: {message}", file=sys.stderr)
            continue
        times.setdefault(name, []).append(result["real_time"] * SECONDS[result["time_unit"]])
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def peer_times(runtime, python, threads, names, seconds):
    """{name: seconds} from one run of torch_models.py."""
    command = [python, str(PEER), "--threads", str(threads), "--seconds", str(seconds), "--runtime", runtime]
    if names:
        command += ["--only", *names]
    rows = [json.loads(line) for line in run(command).splitlines() if line.startswith("{")]
    return {row["name"]: row["seconds"] for row in rows}


def readable(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executable", help="Lockstep's benchmark program")
    parser.add_argument("--threads", type=int, default=2, help="threads for both programs (default 2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="time the peer spends on each case per round")
    parser.add_argument("--only", nargs="*", metavar="NAME", default=[], help="compare these names only")
    parser.add_argument("--peer", choices=("torch", "onnxruntime"), default="torch")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has PyTorch")
    parser.add_argument("--lockstep-args", default="", metavar="ARGS",
                        help="further arguments for the executable: --lockstep-args='--a --b'")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)

    load = os.getloadavg()[0]  # before this program adds to it
    if load > 0.5:
        print(f"compare.py: the machine is busy (load {load:.1f}); expect wrong ratios", file=sys.stderr)
    ours, theirs = {}, {}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for times, result in (
                (ours, lockstep_times(options.executable, options.only, options.lockstep_args.split())),
                (theirs, peer_times(options.peer, options.python, options.threads, options.only, options.seconds))):
            for name, seconds in result.items():
                times.setdefault(name, []).append(seconds)

    peer = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}[options.peer]
    version = run([options.python, "-c", f"import {options.peer} as peer; print(peer.__version__)"]).strip()
    print(f"{peer} {version}, CPU, {options.threads} threads, {platform.machine()}; "
          f"medians of {options.rounds} alternating rounds, f32; load {load:.1f} before.\n")
    print(f"| benchmark | Lockstep | {peer} | speed, Lockstep / {peer} | of the fastest rounds | |")
    print("|---|---:|---:|---:|---:|---|")
    for name in theirs:
        if name in ours:
            mine, other = statistics.median(ours[name]), statistics.median(theirs[name])
            fastest = min(theirs[name]) / min(ours[name])
            noisy = any(max(times[name]) > 1.5 * min(times[name]) for times in (ours, theirs))
            print(f"| {name} | {readable(mine)} | {readable(other)} | {other / mine:.2f} | {fastest:.2f} | "
                  f"{'noisy' if noisy else ''} |")
    for label, names in (("Lockstep", ours.keys() - theirs.keys()), (peer, theirs.keys() - ours.keys())):
        if names:
            print(f"\nOnly in {label}: {', '.join(sorted(names))}.")


if __name__ == "__main__":
    main()
