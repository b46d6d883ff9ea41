#include "backends/cpu/irregular/copies.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kTile = 512;
constexpr std::int64_t kTaskElements = 1 << 14;
constexpr std::int64_t kTaskBytes = 1 << 16;
constexpr std::size_t kStreamBytes = 16 << 20;
constexpr std::int64_t kShortRun = 8;  // elements; below, a call of memcpy costs more than the loops

}  // namespace

Copy::Copy(const Input& from, const Shape& strides, std::int64_t offset, Isa isa)
    : reader_(from, 0, Form::word, isa),
      writer_(from.dtype, from.view.shape, strides, offset, 0, Form::word, isa),
      convert_(convert_table(isa)),
      elements_(from.view.shape.numel()),
      element_size_(lockstep::size_of(from.dtype)),
      run_(0) {
  const bool neighbours = reader_.access().along.back() == 1 && writer_.access().along.back() == 1;
  if (neighbours && reader_.access().checks.empty())
    run_ = std::min(reader_.access().along_dims.back(), writer_.access().along_dims.back());
  // Both spaces number the same elements, so the shorter run divides the longer one; runs of a piece suffice.
  if (run_ < kShortRun) run_ = 0;
}

void Copy::run(const Binding& binding, std::byte* to) const {
  if (elements_ == 0) return;
  const auto size = static_cast<std::int64_t>(element_size_);
  if (run_ == 0) {
    return parallel_for(elements_, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::array<std::byte, kTile * 8> buffer;
      for (std::int64_t i = begin; i < end; i += kTile) {
        const std::int64_t count = std::min(kTile, end - i);
        writer_.write(to, 0, i, count, reader_.read(binding, 0, i, count, buffer.data()));
      }
    });
  }
  const std::byte* from = slot_of(binding, reader_.access().slot);
  const std::int64_t runs = elements_ / run_;
  if (runs == 1) {
    return copy_bytes(to + writer_.access().offset * size, from + reader_.access().offset * size,
                      static_cast<std::size_t>(elements_ * size), convert_);
  }
  parallel_for(runs, std::max<std::int64_t>(1, kTaskBytes / (run_ * size)), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t source = contiguous_run(reader_.access(), 0, r * run_, run_);
      const std::int64_t place = contiguous_run(writer_.access(), 0, r * run_, run_);
      std::memcpy(to + place * size, from + source * size, static_cast<std::size_t>(run_ * size));
    }
  });
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, const ConvertTable& convert) {
  parallel_for(static_cast<std::int64_t>(bytes), kTaskBytes, [&](std::int64_t begin, std::int64_t end) {
    const auto count = static_cast<std::size_t>(end - begin);
    if (bytes >= kStreamBytes) {
      convert.stream(to + begin, from + begin, count);
    } else {
      std::memcpy(to + begin, from + begin, count);
    }
  });
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
