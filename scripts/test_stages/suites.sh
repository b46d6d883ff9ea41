# Tests of one suite in one process. A sanitized program takes 55 ms of a processor to start and to look for leaks when it
# ends, which is more than most of 2,500 tests take.
# shellcheck shell=bash

# Not where tests mostly start programs themselves, or take seconds each.
suite_rooms='backends|core|dataset|fft|graph|io|kernels|linalg|nn|optim'

# suite_part NAME ROOM FILTER
suite_part() {
  local log=$suites/$2.$1.log
  # Long forms together take longer.
  (cd "$suites/../tests" && exec timeout "${LOCKSTEP_LONG_TESTS:+3}600" "../bin/lockstep_$2_tests" --gtest_filter="$3") >"$log" 2>&1 ||
    mv "$log" "${log%.log}.failed"
}

# run_in_suites PRESET ARGUMENT...: what run_tests does. Tests of a suite, twelve at most, share a process. What such a process
# does not pass, ctest runs, each by itself: it names what failed, was skipped or took too long. A process that fails is a
# failure even if each of its tests passes alone.
run_in_suites() {
  local preset=$1 log left
  shift
  export suites=$PWD/build/$preset/suites
  rm -rf "$suites" && mkdir -p "$suites"
  ctest --preset "$preset" -N "$@" | sed -n 's/^ *Test *#[0-9]*: \([^ ]*\).*/\1/p' >"$suites/selected"
  awk -v rooms="^($suite_rooms)\$" '
    function flush() { if (count) { name = suite; gsub(/\//, "_", name); print ++parts "." name, room, filter }; count = 0 }
    {
      test = $1; sub(/^[^.]*\./, "", test)
      its_room = $1; sub(/\..*/, "", its_room)
      its_suite = test; sub(/\..*/, "", its_suite)
      if (its_room != room || its_suite != suite || count == 12) flush()
      if (its_room !~ rooms) next
      filter = count ? filter ":" test : test
      room = its_room; suite = its_suite; ++count
    }
    END { flush() }' "$suites/selected" >"$suites/parts"
  export -f suite_part
  "${launcher[@]}" xargs -r -a "$suites/parts" -P "$((jobs + 1))" -L 1 bash -c 'suite_part "$@"' suite_part
  for log in "$suites"/*.failed; do
    [ -e "$log" ] || continue
    tail -n 60 "$log"
    log=${log##*/}
    fail "${log%.failed}, in one process ($preset)"
  done
  find "$suites" -name '*.log' -exec awk '/^\[       OK \] / {
    room = FILENAME; sub(/.*\//, "", room); sub(/\..*/, "", room); print room "." $4 }' {} + >"$suites/passed"
  passed=$((passed + $(wc -l <"$suites/passed")))
  echo "$(wc -l <"$suites/passed") of $(wc -l <"$suites/selected") tests passed in $(wc -l <"$suites/parts") processes"
  # By their places among the selected.
  left=$(awk -v passed="$suites/passed" 'BEGIN { while ((getline name <passed) > 0) ok[name] } !($1 in ok) { printf ",%s", NR }' \
    "$suites/selected")
  if [ -n "$left" ] || [ ! -s "$suites/selected" ]; then run_tests "$preset" "$@" -I "0,0,0$left"; fi
}
