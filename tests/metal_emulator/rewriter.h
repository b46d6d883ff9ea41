// Metal Shading Language to C++ for include/metal_stdlib: attributes become argument binding, threadgroup variables
// become places in the threadgroup's memory, and every kernel gets an entry that the emulator can call.
#pragma once

#include <string>
#include <vector>

namespace emulator {

struct Parameter {
  enum class Kind { buffer, threadgroup, number };
  Kind kind = Kind::buffer;
  int index = -1;           ///< of a buffer or a threadgroup memory
  bool reference = false;   ///< T&, not T*
  bool constant = false;    ///< to what is only read
  std::size_t bytes = 0;    ///< of what a reference refers to: known once it is compiled
  std::string declaration;  ///< for messages
  std::string number;       ///< the attribute of a built-in number
};

struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  int max_threads = 1024;  ///< per threadgroup, by its attribute
};

struct Rewritten {
  std::string run;    ///< to be executed
  std::string check;  ///< to be compiled with address spaces (EMULATOR_CHECK)
  std::vector<KernelInfo> kernels;
  bool synchronises = false;  ///< has barriers or simdgroup functions: threads need stacks of their own
  bool contracts = true;      ///< a * b + c may be fused: there is no pragma against it
  std::string error;          ///< in the manner of the compiler; empty when the text can be compiled
};

/// `version`: __METAL_VERSION__, e.g. 240.
Rewritten rewrite(const std::string& text, int version);

}  // namespace emulator
