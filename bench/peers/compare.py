#!/usr/bin/env python3
"""Compares Lockstep's benchmark executables with peers on this machine, as a Markdown table and as JSON.

The programs run alternately for several rounds, never at once, so that a slow spell of the machine meets all of them. The
executables are Google Benchmark programs whose benchmarks carry the names of torch_models.py (anything after a '/' in a
name, such as '/real_time', is ignored); names without a counterpart are left out. The ratio is Lockstep's speed over that
of the fastest peer: above 1, Lockstep is faster. Beside the ratio of the medians stands that of each side's fastest round.
A name is marked "noisy" where the rounds of Lockstep or of that peer differ by more than half: other work on the machine
then decides the result (threads that wait for each other suffer most), and it should not be quoted.

The environment of peers keeps glibc from giving large results back to the system each time, which costs PyTorch several
times the work itself.

Peers: pip install -r bench/peers/requirements.txt; "compiled" is PyTorch with torch.compile, which needs a C++ compiler.

Example: compare.py build/release/bin/bench/{model,kernel}_bench --peers torch onnxruntime openblas onednn ggml --rounds 5
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PEERS = ("torch", "compiled", "onnxruntime", "openblas", "onednn", "ggml")
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


def lockstep_times(executable, names, extra, clock):
    """{name: seconds} from one run of the Google Benchmark executable; repeated results of a name give the median."""
    pattern = "^(" + "|".join(names) + ")(/.*)?$" if names else "."
    output = run([executable, "--benchmark_format=json", f"--benchmark_filter={pattern}", *extra])
    if not output.strip():
        return {}  # none of the names is one of its benchmarks
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
        times.setdefault(name, []).append(result[clock] * SECONDS[result["time_unit"]])
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def peer_times(runtime, python, threads, names, seconds, cpu):
    """{name: seconds} from one run of ggml.py, or of torch_models.py for the others."""
    program = [str(HERE / "ggml.py")] if runtime == "ggml" else [str(HERE / "torch_models.py"), "--runtime", runtime]
    command = [python, *program, "--threads", str(threads), "--seconds", str(seconds)]
    if names:
        command += ["--only", *names]
    if cpu:
        command += ["--cpu"]
    rows = [json.loads(line) for line in run(command).splitlines() if line.startswith("{")]
    return {row["name"]: row["seconds"] for row in rows}


def version(python, runtime):
    """The peer as it should be quoted."""
    script = {
        "torch": "import torch; print('PyTorch', torch.__version__)",
        "compiled": "import torch; print('torch.compile', torch.__version__)",
        "onnxruntime": "import onnxruntime; print('ONNX Runtime', onnxruntime.__version__)",
        "openblas": "import numpy; print('OpenBLAS', numpy.show_config(mode='dicts')['Build Dependencies']['blas']['version'])",
        "onednn": "import torch, re; print('oneDNN', re.search(r'MKL-DNN v([0-9.]+)', torch.__config__.show())[1])",
        "ggml": f"import sys; sys.path.insert(0, {str(HERE)!r}); import ggml; print('ggml', ggml.load().ggml_version().decode())",
    }[runtime]
    return run([python, "-W", "ignore", "-c", script]).strip()


def readable(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executables", nargs="+", help="Lockstep's benchmark programs")
    parser.add_argument("--threads", type=int, default=2, help="threads for all programs (default 2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="time a peer spends on each case per round")
    parser.add_argument("--only", nargs="*", metavar="NAME", default=[], help="compare these names only")
    parser.add_argument("--cpu", action="store_true",
                        help="processor time of one thread: for a machine on which others work, too (not of ggml)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=["torch"])
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--json", metavar="FILE", help="write all rounds there, too")
    parser.add_argument("--lockstep-args", default="", metavar="ARGS",
                        help="further arguments for the executables: --lockstep-args='--a --b'")
    options = parser.parse_args()
    if options.cpu:
        options.threads = 1
        if "ggml" in options.peers:
            parser.error("--cpu: ggml is timed by the clock on the wall alone")
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    os.environ["LOCKSTEP_NUM_THREADS"] = str(options.threads)
    os.environ["MALLOC_MMAP_THRESHOLD_"], os.environ["MALLOC_TRIM_THRESHOLD_"] = "1000000000", "4000000000"

    load = os.getloadavg()[0]  # before this program adds to it
    if load > 0.5 and not options.cpu:
        print(f"compare.py: the machine is busy (load {load:.1f}); expect wrong ratios", file=sys.stderr)
    times = {side: {} for side in ("Lockstep", *options.peers)}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for side, rows in times.items():
            results = {}
            if side == "Lockstep":
                for executable in options.executables:
                    results |= lockstep_times(executable, options.only, options.lockstep_args.split(),
                                              "cpu_time" if options.cpu else "real_time")
            else:
                results = peer_times(side, options.python, options.threads, options.only, options.seconds,
                                     options.cpu)
            for name, seconds in results.items():
                rows.setdefault(name, []).append(seconds)

    versions = {peer: version(options.python, peer) for peer in options.peers}
    print(f"{', '.join(versions.values())}; {'processor time of one thread' if options.cpu else f'CPU, {options.threads} threads'}, {platform.machine()}; "
          f"medians of {options.rounds} alternating rounds, f32; load {load:.1f} before.\n")
    print(f"| benchmark | Lockstep | {' | '.join(versions.values())} | speed, Lockstep / the fastest | of the fastest rounds | |")
    print("|---|---:|" + "---:|" * len(versions) + "---:|---:|---|")
    ours = times["Lockstep"]
    for name in ours:
        theirs = {peer: times[peer][name] for peer in options.peers if name in times[peer]}
        if not theirs:
            continue
        best = min(theirs.values(), key=statistics.median)
        ratio = statistics.median(best) / statistics.median(ours[name])
        fastest = min(min(seconds) for seconds in theirs.values()) / min(ours[name])
        noisy = any(max(seconds) > 1.5 * min(seconds) for seconds in (ours[name], best))
        cells = [readable(statistics.median(theirs[peer])) if peer in theirs else "" for peer in options.peers]
        print(f"| {name} | {readable(statistics.median(ours[name]))} | {' | '.join(cells)} | {ratio:.2f} | {fastest:.2f} | "
              f"{'noisy' if noisy else ''} |")
    if options.json:
        about = {"versions": versions, "threads": options.threads, "machine": platform.machine(), "load": load,
                 "seconds": times}
        pathlib.Path(options.json).write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
