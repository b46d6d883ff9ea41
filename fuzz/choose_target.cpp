// One program for all targets, since each holds the whole library: its first argument names the target, and libFuzzer
// or replay_main.cpp sees the others.
#include <cstdio>
#include <cstdlib>

#include "fuzz_target.h"

static lockstep::fuzz::Target chosen = nullptr;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const auto& targets = lockstep::fuzz::targets();
  const auto target = *argc > 1 ? targets.find((*argv)[1]) : targets.end();
  if (target == targets.end()) {
    std::fprintf(stderr, "usage: %s <target> ...\n  targets:", (*argv)[0]);
    for (const auto& [name, run] : targets) std::fprintf(stderr, " %s", name.data());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  chosen = target->second;
  for (int i = 1; i < *argc; ++i) (*argv)[i] = (*argv)[i + 1];  // the last one is null
  --*argc;
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return chosen(data, size);
}
