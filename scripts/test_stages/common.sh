# What the stages of scripts/test share: the counts, building, ctest, and parts that run side by side.
# shellcheck shell=bash

jobs=${JOBS:-$(nproc)}
passed=0 failed=0 skipped=0
failures=()
launcher=(env)

fail() {
  failed=$((failed + 1))
  failures+=("$1")
}

# launch_with COMMAND...: what ctest is run by.
launch_with() {
  launcher=("$@")
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  cmake --preset "$preset" >"build/$preset-configure.log" 2>&1 || {
    cat "build/$preset-configure.log"
    fail "configure $preset"
    return 1
  }
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} || {
    fail "build $preset"
    return 1
  }
}

# Runs ctest in a build and adds its counts to ours.
run_tests() {
  local preset=$1 report=$PWD/build/$1/ctest.xml before=$failed
  shift
  rm -f "$report"
  # A selection that selects nothing is a mistake in it.
  # Passing tests go without a line each: there are thousands.
  # One more than there are processors: some wait for other processes or for a deadline.
  "${launcher[@]}" ctest --preset "$preset" -j "$((jobs + 1))" --no-tests=error --output-junit "$report" "$@" |
    grep -vE '^ *Start +[0-9]+: | Passed +[0-9.]+ sec$' || fail "ctest $preset"
  [ -f "$report" ] || return
  count() { sed -n "s/.*\<$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -1; }
  local all bad skip off
  all=$(count tests) bad=$(count failures) skip=$(count skipped) off=$(count disabled)
  passed=$((passed + all - bad - skip - off))
  skipped=$((skipped + skip))
  # The failed tests by name, in place of the one failure of ctest.
  if [ "$bad" != 0 ]; then
    failed=$((before + bad))
    unset 'failures[-1]'
    mapfile -t -O ${#failures[@]} failures < <(
      sed -n "s/.*<testcase name=\"\([^\"]*\)\".*status=\"fail\".*/\1 ($preset)/p" "$report")
  fi
}

# side_by_side FUNCTION PART...: runs `FUNCTION PART` for each, in processes that see exported functions and variables only.
side_by_side() {
  local function=$1
  shift
  printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c "$function {}"
}
