// A clang that stays: see preload.cpp.
#pragma once

#include <string>
#include <vector>

namespace emulator {

/// The descriptor on which the server gets its requests.
inline constexpr int kCompileServer = 3;

/// Runs `words`, a clang and its arguments, with its output in `log`; the status as waitpid gives it. False where no
/// server can be had (the compiler is a script, or linked statically): then it has to be started like any program.
bool compile_by_server(const std::vector<std::string>& words, const std::string& log, int& status);

}  // namespace emulator
