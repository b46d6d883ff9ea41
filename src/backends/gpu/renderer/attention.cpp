// Attention in fast numerics: calls of the vendor's library, for as many batches at a time as its working memory is
// meant for, behind copies of operands that it cannot read as they lie.
#include <algorithm>

#include "backends/gpu/renderer/fast_parts.h"
#include "backends/gpu/renderer/kinds.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::int64_t kSpareBytes = std::int64_t{1} << 20;  ///< working memory beside what is accounted for

class FastAttention {
 public:
  FastAttention(const AttentionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel), parts_(limits), element_bytes_(static_cast<std::int64_t>(size_of(kernel.query.dtype))) {
    call_.gradients = kernel.gradients;
    call_.causal = kernel.causal;
    call_.behind = kernel.behind;
    call_.dtype = kernel.query.dtype;
    call_.sizes = kernel.sizes;
  }
  Rendered render();

 private:
  /// Where something begins, in bytes, and how far its batches are apart.
  struct At {
    bool in_scratch = false;
    int slot = 0;
    std::int64_t bytes = 0;
    std::int64_t step = 0;
  };
  At operand(const Input& input, LibraryAttention::Steps& steps);
  At part(int slot, std::int64_t first, std::int64_t elements) const {
    return {false, slot, first * element_bytes_, elements / kernel_.sizes.batches * element_bytes_};
  }
  std::int64_t work_bytes_of_batch() const;

  const AttentionKernel& kernel_;
  FastParts parts_;
  std::int64_t element_bytes_;
  LibraryAttention call_;
};

// As it lies: elements of a head side by side, and all else at multiples of the library's alignment.
FastAttention::At FastAttention::operand(const Input& input, LibraryAttention::Steps& steps) {
  const View& view = input.view;
  const std::int64_t unit = kLibraryAlignment / element_bytes_;
  bool lies = view.bounds.empty() && (view.strides[3] == 1 || view.shape[3] == 1) && view.offset % unit == 0;
  for (int d = 0; d < 3; ++d) lies = lies && view.strides[d] > 0 && view.strides[d] % unit == 0;
  At at{.slot = input.slot, .bytes = view.offset * element_bytes_};
  Shape strides = view.strides;
  if (!lies) {
    strides = {view.shape[1] * view.shape[2] * view.shape[3], view.shape[3], view.shape[1] * view.shape[3], 1};
    at.in_scratch = true;
    at.bytes = parts_.reserve(view.shape.numel(), input.dtype);
    parts_.append_copy(input, view, strides, at.bytes / element_bytes_, input.dtype);
  }
  steps = {strides[0], strides[1], strides[2]};
  at.step = strides[0] * element_bytes_;
  return at;
}

// In the gradients that repeat, one of the scores in the operands' dtype; where heads share keys, their gradients
// before they are added.
std::int64_t FastAttention::work_bytes_of_batch() const {
  if (!kernel_.gradients) return 0;
  const AttentionSizes& sizes = kernel_.sizes;
  const std::int64_t scores = aligned(sizes.rows, 128) * aligned(sizes.keys, 128);
  const std::int64_t shared = sizes.heads == sizes.key_heads ? 0 : 2 * sizes.keys * sizes.width;
  return sizes.heads * (4 * sizes.rows + element_bytes_ * (scores + shared));
}

Rendered FastAttention::render() {
  const AttentionSizes& sizes = kernel_.sizes;
  std::vector<At> places{operand(kernel_.query, call_.query), operand(kernel_.key, call_.key),
                         operand(kernel_.value, call_.value)};
  const int made = kernel_.gradients ? kernel_.made : kernel_.out;
  places.push_back(part(made, 0, sizes.queries()));
  places.push_back(part(made, sizes.queries(), sizes.made() - sizes.queries()));
  if (kernel_.gradients) {
    places.push_back(operand(kernel_.upstream, call_.upstream));
    places.push_back(part(kernel_.out, 0, sizes.queries()));
    places.push_back(part(kernel_.out, sizes.queries(), sizes.each_keys()));
    places.push_back(part(kernel_.out, sizes.queries() + sizes.each_keys(), sizes.each_keys()));
  }
  // Parts of about the same size.
  const std::int64_t each = work_bytes_of_batch();
  const std::int64_t most = std::max<std::int64_t>(each == 0 ? sizes.batches : kAttentionWorkBytes / each, 1);
  const std::int64_t step = over(sizes.batches, over(sizes.batches, most));
  const std::int64_t work = parts_.reserve(step * each + kSpareBytes, DType::u8);
  for (std::int64_t first = 0; first < sizes.batches; first += step) {
    call_.sizes.batches = std::min(step, sizes.batches - first);
    std::vector<Patch> words;
    for (const At& at : places) {
      const int number = static_cast<int>(words.size());
      const std::int64_t bytes = at.bytes + first * at.step;
      words.push_back(at.in_scratch ? place_in_scratch(number, bytes) : place_in_slot(number, at.slot, bytes));
    }
    words.push_back(place_in_scratch(static_cast<int>(words.size()), work));
    words.push_back({.kind = Patch::Kind::scalar, .word = 2 * static_cast<int>(words.size()), .index = kernel_.scale});
    LibraryAttention call = call_;
    call.work_bytes = step * each + kSpareBytes;
    parts_.append_call(call, std::move(words));
  }
  return parts_.take();
}

}  // namespace

Rendered render_kernel(const AttentionKernel& kernel, const RenderLimits& limits) {
  if (kernel.numerics == Numerics::exact) {
    return kernel.masked ? render_masked_attention(kernel, limits) : render_causal_attention(kernel, limits);
  }
  return kernel.numerics == Numerics::blocked ? render_blocked_attention(kernel, limits)
                                              : FastAttention(kernel, limits).render();
}

Rendered render_kernel(const RecurrenceKernel&, const RenderLimits&) {
  throw BackendError("a recurrence is composed of its steps on GPUs");
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
