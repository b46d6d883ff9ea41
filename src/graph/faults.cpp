#include "graph/faults.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/backend.h"
#include "core/call.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::size_t kMostFlushes = 16;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kLeastWords = 64;  ///< of a buffer

}  // namespace

bool UnreadFaults::are_many() const {
  return flushes_.size() >= kMostFlushes;
}
bool UnreadFaults::keep_much() const {
  return bytes_ > kMostBytes;
}

BufferRef UnreadFaults::take_words(Backend& backend, std::size_t count) {
  if (count == 0) return nullptr;
  if (count <= kLeastWords && !free_.empty()) {
    BufferRef words = std::move(free_.back());
    free_.pop_back();
    return words;
  }
  BufferRef words = backend.allocate(4 * std::max(count, kLeastWords));
  clear(backend, *words, std::max(count, kLeastWords));
  return words;
}

void UnreadFaults::clear(Backend& backend, Buffer& words, std::size_t count) {
  const std::vector<std::uint32_t> zeros(count);
  backend.upload(words, zeros.data(), 4 * count);
}

// Kernels write nothing where indices are good: most words are zeros still.
void UnreadFaults::keep(Backend& backend, const BufferRef& words, bool are_zeros) {
  if (free_.size() > kMostFlushes) return;
  if (!are_zeros) clear(backend, *words, kLeastWords);
  free_.push_back(words);
}

bool UnreadFaults::give_back(Backend& backend, const BufferRef& words, std::size_t count) {
  if (words == nullptr) return true;
  std::vector<std::uint32_t> faults(count);
  backend.download(faults.data(), *words, 4 * count);
  const bool are_zeros = std::all_of(faults.begin(), faults.end(), [](std::uint32_t fault) { return fault == 0; });
  keep(backend, words, are_zeros);
  return are_zeros;
}

std::vector<std::shared_ptr<const IndexChecks>> UnreadFaults::add(
    const Window& window, const Plan& plan, const BufferRef& words,
    const std::function<NodeRef(const NodeRef&)>& index_of) {
  CheckedValues values(window.nodes.size());
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    if (!window.values[e].given || !is_unsettled(*window.nodes[e])) continue;
    for (const std::shared_ptr<IndexCheck>& check : *window.nodes[e]->checks) {
      if (!check->settled.load(std::memory_order_relaxed)) values.add(e, check);
    }
  }
  if (words != nullptr) {
    Flush flush{words, {}, 0, {}};
    for (const int entry : plan.checked) {
      const auto e = static_cast<std::size_t>(entry);
      flush.checks.push_back(check_of(*window.nodes[e]));
      if (index_of) {
        IndexCheck& check = *flush.checks.back();
        check.index = index_of(check.index);
        if (current_call != nullptr) check.where = current_call->site;
      }
      flush.bytes += bytes_kept_by(*flush.checks.back());
      values.add(e, flush.checks.back());
    }
    bytes_ += flush.bytes;
    flushes_.push_back(std::move(flush));
  }
  if (values.empty()) return {};
  std::vector<std::shared_ptr<const IndexChecks>> lists(window.nodes.size());
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    for (const int operand : window.operands(e)) {
      if (operand >= 0) values.inherit(e, static_cast<std::size_t>(operand));
    }
    if (window.values[e].wanted) lists[e] = values.of(e);
  }
  return lists;
}

void UnreadFaults::begin_reading(CopiesToHost& device) {
  for (Flush& flush : flushes_) {
    if (flush.arriving == nullptr) flush.arriving = device.begin_download(*flush.words, 4 * flush.checks.size(), 0);
  }
}

void UnreadFaults::settle_read(Backend& backend, const Compute& compute, std::vector<NodeRef>& released,
                               const Node& node) {
  while (is_unsettled(node) && !flushes_.empty() && flushes_.front().arriving != nullptr) {
    settle(backend, compute, released, 1);
  }
}

void UnreadFaults::settle(Backend& backend, const Compute& compute, std::vector<NodeRef>& released, std::size_t count) {
  for (; count > 0; --count) {
    const Flush& oldest = flushes_.front();
    std::vector<std::uint32_t> faults(oldest.checks.size());
    if (oldest.arriving != nullptr) {
      std::memcpy(faults.data(), oldest.arriving->bytes().data(), 4 * faults.size());
    } else {
      backend.download(faults.data(), *oldest.words, 4 * faults.size());
    }
    for (std::size_t i = 0; i < faults.size(); ++i) {
      IndexCheck& check = *oldest.checks[i];
      if (check.settled.load(std::memory_order_relaxed)) continue;
      if (faults[i] != 0) {
        const Reading reading = reading_of(check.index);
        BufferRef buffer = reading.base->buffer;
        if (buffer == nullptr) buffer = compute(reading.base);
        std::vector<std::byte> bytes(reading.base->bytes());
        backend.download(bytes.data(), *buffer, bytes.size());
        check.error = index_error(check, reading, bytes);
      }
      check.settled.store(true, std::memory_order_release);
      released.push_back(std::move(check.index));
    }
    bytes_ -= oldest.bytes;
    keep(backend, oldest.words,
         std::all_of(faults.begin(), faults.end(), [](std::uint32_t fault) { return fault == 0; }));
    flushes_.pop_front();
  }
}

bool spread_failures(const Window& window) {
  bool any = false;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    Node& node = *window.nodes[e];
    if (node.failure == nullptr) node.failure = error_of(node);
    for (const int operand : window.operands(e)) {
      if (operand < 0 || node.failure != nullptr) continue;
      node.failure = window.nodes[static_cast<std::size_t>(operand)]->failure;
    }
    any = any || node.failure != nullptr;
  }
  return any;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
