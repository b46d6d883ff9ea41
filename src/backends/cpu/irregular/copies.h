// Elements moved bit for bit from one layout to another, by all threads.
#pragma once

#include "backends/cpu/irregular/elements.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

/// The elements of a view to places of a dense buffer.
class Copy {
 public:
  /// To offset + sum strides[d] * i[d], over the view's shape.
  Copy(const Input& from, const Shape& strides, std::int64_t offset, Isa isa);
  void run(const Binding& binding, std::byte* to) const;

 private:
  Reader reader_;
  Writer writer_;
  const ConvertTable& convert_;
  std::int64_t elements_;
  std::size_t element_size_;
  std::int64_t run_;  ///< elements that are neighbours on both sides, at every multiple of it; 0 if there are none
};

/// memcpy, in parallel where it pays, past the caches where they are too small.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, const ConvertTable& convert);

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
