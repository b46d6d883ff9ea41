#include "graph/index_check.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "core/assert.h"
#include "core/call.h"
#include "graph/check.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

std::string list(const std::vector<std::int64_t>& index) {
  std::string text = "[";
  for (std::size_t d = 0; d < index.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(index[d]);
  return text + "]";
}

std::vector<std::int64_t> position_in(const Shape& shape, std::int64_t ordinal) {
  std::vector<std::int64_t> position(static_cast<std::size_t>(shape.rank()), 0);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    position[static_cast<std::size_t>(d)] = ordinal % shape[d];
    ordinal /= shape[d];
  }
  return position;
}

// " at position [1, 2]" in the index as the user gave it: which may be flat here, and spread over other dimensions, along
// which its values repeat. Nothing where that is not how `view` reads it.
std::string position_text(const IndexStory* story, const View& view, std::int64_t position) {
  const std::vector<std::int64_t> here = position_in(view.shape, position);
  if (story == nullptr) return " at position " + list(here);
  std::int64_t ordinal = 0;
  std::int64_t count = 1;
  for (int d = 0; d < view.rank(); ++d) {
    if (view.strides[d] == 0) continue;
    ordinal = ordinal * view.shape[d] + here[static_cast<std::size_t>(d)];
    count *= view.shape[d];
  }
  if (count == story->given.numel()) return " at position " + list(position_in(story->given, ordinal));
  if (view.shape.numel() == story->given.numel()) return " at position " + list(position_in(story->given, position));
  return "";
}

// `number`: what the function counts, from 1.
std::exception_ptr failed_matrix(Failure failure, std::int64_t matrix, std::int64_t number) {
  const auto error = [&](const std::string& what, const char* fix) {
    const std::string message = "matrix " + std::to_string(matrix) + " of the batch " + what;
    return std::make_exception_ptr(LinalgError(error_message(message, {}, fix, {})));
  };
  switch (failure) {
    case Failure::index: break;
    case Failure::singular:
      return error("is singular: pivot " + std::to_string(number) + " is 0",
                   "use lstsq, or the _ex function, which returns this number");
    case Failure::not_positive_definite:
      return error("is not positive definite: its leading minor of order " + std::to_string(number) + " is not positive",
                   "add a multiple of the identity, or use the _ex function, which returns this number");
  }
  fail_invariant("an index is no matrix", __FILE__, __LINE__);
}

}  // namespace

std::shared_ptr<IndexCheck> check_of(const Node& node) {
  auto check = std::make_shared<IndexCheck>();
  check->index = node.inputs[1];
  check->where = node.where;
  check->name = node.name;
  check->story = node.story;
  visit_primitive(
      [&]<typename P>(const P& primitive) {
        if constexpr (P::traits.checks_index) {
          check->size = primitive.places(node.shape);
          if constexpr (requires { primitive.failure; }) check->failure = primitive.failure;
        } else {
          fail_invariant("what checks no index has no faults", __FILE__, __LINE__);
        }
      },
      node.op);
  return check;
}

std::exception_ptr index_error(const IndexCheck& check, const Reading& reading, std::span<const std::byte> bytes) {
  const DType dtype = reading.base->dtype;
  for (std::int64_t position = 0; position < reading.view.shape.numel(); ++position) {
    const std::vector<std::int64_t> index = position_in(reading.view.shape, position);
    const std::int64_t address = reading.view.address(index.data());
    const std::uint64_t word = address < 0 ? reading.view.fill : load_word(dtype, bytes.data(), address);
    const auto value = decode<std::int64_t>(dtype, word);
    if (value >= 0 && value < check.size) continue;
    const Call call{check.name, check.where};
    const CallExchange exchange(&call);
    if (check.failure != Failure::index) return failed_matrix(check.failure, index[0], value);
    // The table by its name, if it is there still: it is what the user looks for.
    std::vector<Shown> shown;
    Tensor table;
    if (check.story != nullptr) {
      if (std::shared_ptr<Handle> handle = check.story->table.lock()) table = Access::from_handle(std::move(handle));
      if (table.defined()) shown.emplace_back(check.story->label, table);
    }
    return std::make_exception_ptr(IndexError(
        error_message("index " + std::to_string(value) + position_text(check.story.get(), reading.view, position) +
                          " is outside a dimension of size " + std::to_string(check.size),
                      shown, check.size == 0 ? "" : "use indices from 0 to " + std::to_string(check.size - 1), {})));
  }
  // Whatever the device did: later values of it can be had.
  const Call call{check.name, check.where};
  const CallExchange exchange(&call);
  return std::make_exception_ptr(BackendError(error_message(
      "a kernel met an index outside a dimension of size " + std::to_string(check.size) +
          ", and there is none: a bit was wrong for a while",
      {}, "a Shadow (lockstep/shadow.h) names the kernel that makes wrong bits", {})));
}

std::size_t bytes_kept_by(const IndexCheck& check) {
  std::size_t bytes = 0;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack{reading_of(check.index).base.get()};
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->ready.load(std::memory_order_relaxed)) {
      bytes += node->bytes();
      continue;
    }
    for (const NodeRef& input : node->inputs) {
      if (input != nullptr) stack.push_back(reading_of(input).base.get());
    }
  }
  return bytes;
}

std::exception_ptr error_of(const Node& node) {
  if (node.checks == nullptr) return nullptr;
  for (const std::shared_ptr<IndexCheck>& check : *node.checks) {
    if (check->settled.load(std::memory_order_acquire) && check->error != nullptr) return check->error;
  }
  return nullptr;
}

bool is_unsettled(const Node& node) {
  return node.checks != nullptr && std::any_of(node.checks->begin(), node.checks->end(), [](const auto& check) {
           return !check->settled.load(std::memory_order_acquire);
         });
}

void CheckedValues::add(std::size_t value, const std::shared_ptr<IndexCheck>& check) {
  if (numbers_.add(check.get())) checks_.push_back(check);
  own_.emplace_back(value, static_cast<std::size_t>(numbers_[check.get()]));
}

void CheckedValues::begin() {
  if (!bits_.empty() || empty()) return;
  bits_.resize(values_ * width());
  for (const auto& [value, number] : own_) bits_[value * width() + number / 64] |= std::uint64_t{1} << number % 64;
}

void CheckedValues::inherit(std::size_t value, std::size_t from) {
  begin();
  for (std::size_t w = 0; w < width(); ++w) bits_[value * width() + w] |= bits_[from * width() + w];
}

std::shared_ptr<const IndexChecks> CheckedValues::of(std::size_t value) {
  begin();
  const auto row = [&](std::size_t v) { return std::span<const std::uint64_t>(bits_).subspan(v * width(), width()); };
  const std::span<const std::uint64_t> bits = row(value);
  if (std::all_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word == 0; })) return nullptr;
  for (const auto& [other, list] : lists_) {
    if (std::equal(bits.begin(), bits.end(), row(other).begin())) return list;
  }
  auto made = std::make_shared<IndexChecks>();
  for (std::size_t c = 0; c < checks_.size(); ++c) {
    if ((bits[c / 64] >> c % 64 & 1) != 0) made->push_back(checks_[c]);
  }
  lists_.emplace_back(value, made);
  return made;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
