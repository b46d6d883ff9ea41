// The work of one kernel with what it read and what it made: what a shadow keeps of a difference, ls::save_case of a
// computation, and what `lockstep replay` and `lockstep minimize` run again. It is made of primitives, so that any
// device can run it, and of the bytes of the values that it began with.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/describe.h"
#include "graph/difference.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

using Bytes = std::vector<std::byte>;

struct KernelCase {
  struct Operand {
    int value = -1;            ///< an earlier one; -1: a scalar
    std::optional<View> view;  ///< through which it is read, unless as it is
  };
  struct Value {
    Primitive op;  ///< Data: its bytes are `data`
    Shape shape;
    DType dtype = DType::f32;
    Encoding encoding = Encoding::dense;
    std::vector<Operand> operands;
    Bytes data;
  };
  struct Result {
    std::size_t value = 0;
    Bytes expected;
    Bytes actual;  ///< of the device that differed; empty: none did
  };
  std::vector<Value> values;  ///< in an order in which they can be computed
  std::vector<Result> results;
  std::map<std::string, std::string> story;  ///< for people: "ops", "module", "called_at", "device", "reference"

  bool is_given(std::size_t value) const { return std::holds_alternative<Data>(values[value].op); }
};

/// What the entries `results` of a window are computed from. `given` returns the bytes of a value that is not to be
/// computed again, nothing for the others. Results are left without bytes.
KernelCase case_of(const Window& window, std::span<const int> results,
                   const std::function<std::optional<Bytes>(int entry)>& given);

/// The results on a device, in their order. Throws what the ops throw.
std::vector<Bytes> compute_case(const KernelCase& work, Device device);

/// Where two devices part; nothing where they agree. Both refusing with the same type of error is agreement.
struct CaseDifference {
  std::size_t result = 0;
  ElementDifference element;
  std::string refusal;  ///< of the one device that cannot do it; then there is no element
};
std::optional<CaseDifference> compare_results(const KernelCase& work, std::span<const Bytes> expected,
                                              std::span<const Bytes> actual);

inline constexpr const char* kCaseFormat = "lockstep-kernel-1";

/// The values without their bytes, as JSON.
std::string case_text(const KernelCase& work);
/// A safetensors file, whole or not at all: value.N, expected.N, actual.N, and the text in its metadata. IoError.
void write_case(const std::string& file, const KernelCase& work);

/// From the metadata and tensors of a file that nobody trusts: FormatError that begins with `name` unless it can be run
/// without a read or write outside of its values. `bytes` returns a tensor's, nothing if there is none of that name.
KernelCase parse_case(const std::map<std::string, std::string>& texts,
                      const std::function<std::optional<Bytes>(const std::string& tensor)>& bytes,
                      const std::string& name);
/// The last step of it, for a case from anywhere. Empty: good; else what is wrong.
std::string mistake_in(const KernelCase& work);

/// A smaller case in which `differs` still holds, of at most `tries` that it was asked for: fewer ops, sizes, values
/// that are not zero. Results of the returned case have no bytes.
KernelCase minimized(const KernelCase& work, const std::function<bool(const KernelCase&)>& differs, int tries);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
