# What runs on the Vulkan device in software that Mesa has, under Vulkan's validation layer. A stage sets vector_bits.
# shellcheck shell=bash

# validated NAME COMMAND...: runs it on the software device, with the validation layer in front, which must not say a
# word. The layer makes the file of its messages when it is loaded, so a missing file is a missing layer.
validated() {
  local name=$1 folder=$PWD/build/vulkan/$1
  shift
  rm -rf "$folder"
  mkdir -p "$folder"
  printf 'khronos_validation.%s\n' \
    'debug_action = VK_DBG_LAYER_ACTION_LOG_MSG' \
    'report_flags = error,warn,perf' \
    "log_filename = $folder/messages" \
    'enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT' >"$folder/vk_layer_settings.txt"
  if ! VK_DRIVER_FILES=$software_vulkan VK_ICD_FILENAMES=$software_vulkan VK_LAYER_SETTINGS_PATH=$folder \
    VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation LOCKSTEP_TEST_DEVICES=vulkan:0 \
    LP_NATIVE_VECTOR_WIDTH=$vector_bits "$@" >"$folder/output" 2>&1; then
    tail -n 40 "$folder/output"
  elif [ ! -e "$folder/messages" ]; then
    echo "$name: VK_LAYER_KHRONOS_validation was not loaded"
  elif [ -s "$folder/messages" ]; then
    head -n 40 "$folder/messages"
  else
    tail -n 1 "$folder/output"
    if grep -q '^\[  SKIPPED' "$folder/output"; then touch "$folder/skipped"; else touch "$folder/ok"; fi
  fi
}

vulkan_part() {
  local bin=build/release/bin op dtypes=()
  # Every dtype where kernels of their own read and write it.
  for op in add to where sum softmax matmul gather scatter_add sort cumsum cat; do dtypes+=(--op "$op"); done
  local check=("$bin/lockstep" check --device vulkan:0 --cases build/vulkan/cases)
  case $1 in
    ops_*) validated "$1" "${check[@]}" --brief --dtype f32 --part "${1#ops_}/4" ;;
    dtypes) validated dtypes "${check[@]}" --brief "${dtypes[@]}" ;;
    training) validated training $bin/lockstep demo --device cpu --device vulkan:0 --steps 5 --out build/vulkan/demo ;;
    network) validated network $bin/lockstep_models_tests \
      --gtest_filter='Published.EveryDeviceGivesTheSameBits:Sam.EveryDeviceGivesTheSameBits' ;;
    # One of keys and values, one of states; vulkan_full has all families.
    language) validated language $bin/lockstep_models_tests --gtest_filter='*LanguageFamily*/llama:*LanguageFamily*/rwkv5' ;;
    # By packed dot products, which the device has but is not quick at.
    blocked) validated blocked $bin/lockstep_graph_tests --gtest_filter='BlockedForms.*' ;;
    # Random graphs, faults planted in them, and what went wrong elsewhere.
    agreement) validated "$1" env LOCKSTEP_FUZZ_SECONDS="${LOCKSTEP_FUZZ_SECONDS:-20}" "$bin/lockstep_agreement_tests" \
      --gtest_filter='Fuzz*:RandomPlant.OfOtherDevicesIsFound:KernelCase.Kept*:*Incident*' ;;
    all_ops) validated all_ops "${check[@]}" ;;
    *_tests) validated "$1" "$bin/lockstep_$1" ;;
  esac
}

# run_on_software_vulkan PART...: the parts side by side.
run_on_software_vulkan() {
  local name
  software_vulkan=$(find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | head -1)
  if [ -z "$software_vulkan" ]; then
    # As with data that a test needs: a user without it sees it named, a continuous build fails.
    if [ "${CI:-}" = true ]; then fail "vulkan: no software device (mesa-vulkan-drivers)"; else skipped=$((skipped + 1)); fi
    echo "Skipped: Mesa's software device for Vulkan is not installed (mesa-vulkan-drivers)"
    return
  fi
  export -f validated vulkan_part
  export software_vulkan vector_bits
  side_by_side vulkan_part "$@"
  for name in "$@"; do
    if [ -e "build/vulkan/$name/ok" ]; then
      passed=$((passed + 1))
    elif [ -e "build/vulkan/$name/skipped" ]; then
      skipped=$((skipped + 1))
    else
      fail "vulkan $name"
    fi
  done
}
