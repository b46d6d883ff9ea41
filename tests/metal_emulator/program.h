// A Metal text, compiled by clang and loaded. What was compiled once is kept on disk by its content, the compiler and
// the emulator's headers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rewriter.h"
#include "threadgroup.h"

namespace emulator {

struct Kernel {
  KernelInfo info;
  ThreadFunction thread = nullptr;  ///< of a kernel with barriers or simdgroup functions,
  GroupFunction group = nullptr;    ///< of every other
  std::vector<Variable> variables;  ///< in threadgroup memory, by offset
  std::size_t variable_bytes = 0;   ///< as Metal counts them: packed
};

class Program {
 public:
  /// Throws std::runtime_error with the compiler's words. `version`: 240 is Metal 2.4.
  static std::shared_ptr<const Program> compile(const std::string& text, int version);

  const std::vector<Kernel>& kernels() const { return kernels_; }
  const Kernel* find(const std::string& name) const;

 private:
  std::vector<Kernel> kernels_;
};

struct CompileCounts {
  std::size_t texts = 0, compiled = 0, checked = 0;
};
CompileCounts compile_counts();

}  // namespace emulator
