# What runs on the Metal device of tests/metal_emulator.
# shellcheck shell=bash

# on_metal NAME VARIABLE=VALUE... COMMAND...: runs it on the emulated device; its output is in build/metal. What is compiled
# is kept and shared by all (LOCKSTEP_METAL_CACHE).
on_metal() {
  local name=$1
  shift
  if env LOCKSTEP_METAL_LIBRARY="$PWD/build/release/lib/libfakemetal.so" LOCKSTEP_TEST_DEVICES=metal:0 \
    LOCKSTEP_METAL_WORKERS=1 LOCKSTEP_METAL_LEAKS=transient "$@" >"build/metal/$name.log" 2>&1; then
    touch "build/metal/$name.ok"
  else
    tail -30 "build/metal/$name.log"
  fi
}

metal_part() {
  local bin=build/release/bin
  local check=("$bin/lockstep" check --device metal:0 --cases build/metal/cases)
  case $1 in
    brief_*) on_metal "$1" "${check[@]}" --brief --dtype "${1#brief_}" ;;
    # Computed as i64: where kernels of their own read and write it.
    u32) on_metal "$1" "${check[@]}" --brief --dtype u32 --op add --op to --op where --op sum --op matmul --op gather \
      --op scatter_add --op sort --op cumsum --op cat ;;
    # One op of each kind of kernel, on a device that runs few threads together.
    narrow) on_metal "$1" LOCKSTEP_METAL_THREADS=96 LOCKSTEP_METAL_SCHEDULE=descending "${check[@]}" --brief --dtype f32 \
      --op add --op sum --op argmax --op softmax --op matmul --op conv2d --op sort --op cumsum --op scatter_add ;;
    regression_bot) on_metal "$1" "$bin/example_regression_bot" metal:0 100 ;;
    resnet20) on_metal "$1" "$bin/example_resnet20_cifar" tiny 1 "" metal:0 ;;
    char_lm) on_metal "$1" "$bin/example_char_lm" 2 metal:0 ;;
    # Kernels of every form: these texts are compiled once more, with address spaces that do not convert.
    situations) on_metal "$1" LOCKSTEP_METAL_SCHEDULE=7 LOCKSTEP_METAL_ADDRESS_SPACES=check \
      "$bin/lockstep_models_tests" --gtest_filter='Situations*' ;;
    segment) on_metal "$1" "$bin/lockstep_models_tests" --gtest_filter='Sam.EveryDeviceGivesTheSameBits' ;;
    language) on_metal "$1" "$bin/lockstep_models_tests" --gtest_filter='*LanguageFamily*/llama:*LanguageFamily*/rwkv5' ;;
    # Random graphs, faults planted in them, and what went wrong elsewhere.
    agreement) on_metal "$1" LOCKSTEP_FUZZ_SECONDS="${LOCKSTEP_FUZZ_SECONDS:-20}" "$bin/lockstep_agreement_tests" \
      --gtest_filter='Fuzz*:RandomPlant.OfOtherDevicesIsFound:KernelCase.Kept*:*Incident*' ;;
    driver) on_metal "$1" "$bin/lockstep_backends_tests" --gtest_filter='MetalDriver*' ;;
    replay) on_metal "$1" "$bin/lockstep" replay tests/data/cases --device metal:0 ;;
    check:*) IFS=: read -r _ schedule subnormals part <<<"$1"
      on_metal "$1" "LOCKSTEP_METAL_SCHEDULE=$schedule" "LOCKSTEP_METAL_SUBNORMALS=$subnormals" "${check[@]}" \
        --part "$part/$metal_checks" ;;
    tests:*) IFS=: read -r _ room schedule part <<<"$1"
      on_metal "$1" "LOCKSTEP_METAL_SCHEDULE=$schedule" "GTEST_TOTAL_SHARDS=$metal_shards" "GTEST_SHARD_INDEX=$part" \
        "$bin/lockstep_${room}_tests" --gtest_brief=1 ;;
  esac
}

# metal_parts PART...: side by side.
metal_parts() {
  local name
  rm -rf build/metal && mkdir -p build/metal
  export -f on_metal metal_part
  export metal_checks=64 metal_shards=8  # parts of the grid, and of a room's tests
  side_by_side metal_part "$@"
  for name in "$@"; do
    if [ -e "build/metal/$name.ok" ]; then passed=$((passed + 1)); else fail "metal $name"; fi
  done
}
