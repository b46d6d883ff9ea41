#!/usr/bin/env bash
# Copies what was built into one folder that runs on another machine of the same architecture: the command, test programs
# and benchmarks, and the libraries that they need (not the C and C++ libraries, nor GPU drivers).
#
#   scripts/device_pack.sh FOLDER [PROGRAM]...     default: lockstep and the graph, backends and models tests
#
# There: export LD_LIBRARY_PATH=FOLDER/lib; FOLDER/bin/lockstep info
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?usage: scripts/device_pack.sh FOLDER [PROGRAM]...}
shift
[ $# -gt 0 ] || set -- lockstep lockstep_graph_tests lockstep_backends_tests lockstep_models_tests
mkdir -p "$target/bin" "$target/lib"
programs=()
for program in "$@"; do
  [ -x "build/release/bin/$program" ] || continue
  strip -o "$target/bin/${program##*/}" "build/release/bin/$program"
  programs+=("build/release/bin/$program")
done
mapfile -t libraries < <(ldd "${programs[@]}" build/release/lib/*.so 2>/dev/null | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libgcc_s|libstdc\+\+|libpthread|libdl|librt|ld-linux[^/]*)\.so')
for library in "${libraries[@]}" build/release/lib/liblockstep_shaderc.so /usr/lib/*/libvulkan.so.1; do
  [ -e "$library" ] && strip -o "$target/lib/${library##*/}" "$(readlink -f "$library")"
done
du -sh "$target"
