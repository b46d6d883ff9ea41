// What updates, sorts, scans and scatters share. Their results are defined by an order of the elements, so that any
// algorithm that keeps it gives the same bits.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// That a sort, scan or scatter may have.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;

/// The strides of a dense tensor.
Shape dense_strides(const Shape& shape);
/// A shape with one more dimension, the last.
Shape joined(const Shape& rows, std::int64_t n);

/// A program that moves words from an input to an output.
RowKernel move_kernel(const Input& input, int out, const Shape& strides, std::int64_t offset = 0);

/// Statements that read elements of inputs at an index of their common shape; all irregular kernels use it.
class Reader {
 public:
  /// `bits`: as words.
  Reader(const std::vector<Input>& inputs, Words& words, bool bits = false);
  void declare(Lines& lines);
  /// Declares v<number> of an input, read at the linear position `at`. In a scope of its own.
  void read(Lines& lines, int number, const std::string& at);

 private:
  Words& words_;
  Program program_;
  Space space_;
};

/// A launch of what was written: a thread per item, or several items per thread.
Launch launch_of(Lines& lines, const Words& words, std::int64_t items, const RenderLimits& limits);
/// Opens the loop over this thread's items e, of `total` ones.
void open_loop(Lines& lines, Words& words, std::int64_t items, const RenderLimits& limits);
/// Throws BackendError for more elements than positions of 32 bits are for.
void check_size(const Kernel& kernel, std::int64_t elements);

/// What sums and products begin with, and a step of them, in ADD_EXACT's or MUL_EXACT's arithmetic.
std::string identity(bool product, ComputeType type);
std::string combined(bool product, ComputeType type, const std::string& a, const std::string& b);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
