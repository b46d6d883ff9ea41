// Fault words: a kernel sets its word where an index is bad. A flush leaves them unread on the device, so that
// computing never waits for it, until somebody reads a value that depends on one (graph/index_check.h), or there are
// too many.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "backends/side_work.h"
#include "core/buffer.h"
#include "graph/describe.h"
#include "graph/index_check.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The fault words of a device's flushes that nobody has read. Guarded by the window's execute mutex.
class UnreadFaults {
 public:
  /// Zeroed words for a run with `count` checks; null for none.
  BufferRef take_words(Backend& backend, std::size_t count);
  /// Of words that nobody asks about later: whether none is set. Waits for the device, unless there are none.
  bool give_back(Backend& backend, const BufferRef& words, std::size_t count);
  /// To be called when the plan has run with these words. Returns for each value of the window that is wanted the
  /// checks that it depends on, new ones and those of given values; nothing where there are none at all.
  /// `index_of`: for checks of what stands for another index, that.
  std::vector<std::shared_ptr<const IndexChecks>> add(const Window& window, const Plan& plan, const BufferRef& words,
                                                      const std::function<NodeRef(const NodeRef&)>& index_of = {});

  /// Whether a flush should settle them first, and whether they keep so much memory that it should settle its own.
  bool are_many() const;
  bool keep_much() const;
  /// The buffer of a value that is no longer there.
  using Compute = std::function<BufferRef(const NodeRef&)>;
  /// Reads all words, and finds the errors of those that are set. Waits for the device. `released`: destroyed by the
  /// caller after the locks, like all values that are given up.
  void settle(Backend& backend, const Compute& compute, std::vector<NodeRef>& released) {
    settle(backend, compute, released, flushes_.size());
  }
  /// Begins to copy all words to the host. Then those are read that `node` depends on and those before them: waits for
  /// nothing that came later, though its words may be on their way, too.
  void begin_reading(CopiesToHost& device);
  void settle_read(Backend& backend, const Compute& compute, std::vector<NodeRef>& released, const Node& node);

 private:
  void settle(Backend& backend, const Compute& compute, std::vector<NodeRef>& released, std::size_t count);
  static void clear(Backend& backend, Buffer& words, std::size_t count);
  void keep(Backend& backend, const BufferRef& words, bool are_zeros);

  struct Flush {
    BufferRef words;
    IndexChecks checks;                       ///< what each word stands for
    std::size_t bytes = 0;                    ///< kept in memory for the checks
    std::unique_ptr<HostCopy> arriving = {};  ///< the words
  };
  std::deque<Flush> flushes_;  ///< oldest first
  std::size_t bytes_ = 0;      ///< of all
  /// Words that were read, for later flushes: zeros again. They are not given back: others would move into their
  /// memory, and steps that repeat would not find theirs again.
  std::vector<BufferRef> free_;
};

/// Marks what depends on failed values as failed; returns whether there is any.
bool spread_failures(const Window& window);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
