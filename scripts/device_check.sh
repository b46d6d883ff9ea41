#!/usr/bin/env bash
# What this machine computes: the hash of a fixed workload on every device and instruction set that Lockstep finds here,
# recorded cases, agreement tests, speed. The table comes last; equal hashes on two machines mean equal bits.
#
#   scripts/device_check.sh [folder of built programs]      default: build/release/bin, built first
#
# For macOS, too: bash 3.2, and none of GNU's extensions.
set -uo pipefail
export LC_ALL=C  # numbers have points
cd "$(dirname "$0")/.." || exit

bin=${1:-}
if [ -z "$bin" ]; then
  make build || exit
  bin=build/release/bin
fi
export LOCKSTEP_ASSETS=$PWD/assets/demo

status=0
rows=()
row() { rows+=("$(printf '| %-22s | %-16s | %-8s | %s' "$@")"); }

# Device and instruction set, then the hash of the demonstration's logits and the seconds it took.
demo() {
  local isa=$1 line
  while read -r line; do
    case $line in
      *'"device"'*)
        local device hash seconds
        device=$(sed 's/.*"device":"\([^"]*\)".*/\1/' <<<"$line")
        hash=$(sed 's/.*"logits_hash":"\([^"]*\)".*/\1/' <<<"$line")
        seconds=$(sed 's/.*"seconds":\([0-9.e-]*\).*/\1/' <<<"$line")
        # The reference does not depend on the instruction set: once is enough.
        [ "$device" != ref ] || [ "$isa" = "${isas[0]}" ] || continue
        [ "$device" != cpu ] || device="cpu $isa"
        row "$device" "$hash" "$(printf '%.3f s' "$seconds")" "demo"
        ;;
      *'"equal":false'*) status=1 ;;
    esac
  done < <(LOCKSTEP_CPU_ISA=$isa "$bin/lockstep" demo --pictures-only --json)
}

"$bin/lockstep" info || exit
info=$("$bin/lockstep" info --json)
# No mapfile: macOS has an old bash.
isas=() devices=()
while read -r name; do isas+=("$name"); done < <(grep -oE '"available_isas":\[[^]]*\]' <<<"$info" | grep -oE '"(scalar|neon|neon_dot|neon_i8mm|avx2|avx512|amx)"' | tr -d '"')
while read -r name; do devices+=("$name"); done < <(grep -oE '[{]"device":"[^"]*","description"' <<<"$info" | sed 's/.*"device":"\([^"]*\)".*/\1/')

for isa in "${isas[@]}"; do demo "$isa"; done
for device in "${devices[@]}"; do
  cases=$("$bin/lockstep" replay tests/data/cases --device "$device" | tail -1) || status=1
  row "$device" "-" "-" "cases: ${cases%%;*}"
done
for tests in backends graph; do
  [ -x "$bin/lockstep_${tests}_tests" ] || continue
  result=$("$bin/lockstep_${tests}_tests" --gtest_brief=1 2>&1 | grep -E '^\[  (PASSED|FAILED)  \] [0-9]+ test' | tr -s ' ' | tr '\n' ' ')
  case $result in *FAILED*) status=1 ;; esac
  row "all, against ref" "-" "-" "lockstep_${tests}_tests: $result"
done
# GPUs: every op and every form of kernel against the reference, and speed beside PyTorch where it is installed.
for device in "${devices[@]}"; do
  case $device in cuda:* | vulkan:* | metal:*) ;; *) continue ;; esac
  result=$("$bin/lockstep" check --brief --device "$device" | tail -1) || status=1
  row "$device" "-" "-" "every op: $result"
  [ -x "$bin/lockstep_graph_tests" ] || continue
  result=$(LOCKSTEP_TEST_DEVICES=$device "$bin/lockstep_graph_tests" --gtest_brief=1 \
    --gtest_filter='ContractionForms*:RowForms*:TinySums*:DeviceThreads*' 2>&1 |
    grep -E '^\[  (PASSED|FAILED)  \] [0-9]+ test' | tr -s ' ' | tr '\n' ' ')
  case $result in *PASSED*) ;; *) status=1 ;; esac
  case $result in *FAILED*) status=1 ;; esac
  row "$device" "-" "-" "forms of kernels: $result"
  bench=$bin/gpu_bench
  [ -x "$bench" ] || bench=$bin/bench/gpu_bench
  case $device in cuda:*) ;; *) continue ;; esac
  if [ -x "$bench" ] && python3 -c 'import torch' 2>/dev/null; then
    python3 bench/peers/gpu_compare.py "$bench" --device "$device"
  fi
done
if [ -x "$bin/bench/model_bench" ]; then
  while IFS=, read -r name _ time _ unit _; do
    row "cpu" "-" "-" "$(awk -v name="$name" -v time="$time" 'BEGIN { printf "%s: %.3f ms", name, time / 1e6 }')"
  done < <("$bin/bench/model_bench" --benchmark_format=csv 2>/dev/null | grep -E '^"(resnet|matmul|layer_norm)' | tr -d '"')
fi

printf '\n| %-22s | %-16s | %-8s | %s\n|---|---|---|---\n' device "logits hash" time what
printf '%s\n' "${rows[@]}"
[ "$status" = 0 ] || echo "NOT equal, or failed: see above"
exit "$status"
