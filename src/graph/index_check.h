// Whether the indices of a gather or a scatter were inside their dimension. The kernel sets a word where one was not;
// the word is read when somebody reads a value that depends on it, so that computing never waits for the device. Until
// then a check keeps what the indices are computed from, to find the first bad one for the error.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "graph/address_index.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

struct IndexCheck {
  // Guarded by the window's execute mutex.
  NodeRef index;  ///< given up when the check is settled
  const char* name = "";
  std::int64_t size = 0;  ///< of the dimension
  Failure failure = Failure::index;
  CallSite where;
  std::shared_ptr<const IndexStory> story;  ///< null where nobody tells it

  std::atomic<bool> settled{false};
  std::exception_ptr error;  ///< published by `settled`; null where all indices were good
};

/// The check of a node whose primitive checks an index.
std::shared_ptr<IndexCheck> check_of(const Node& node);
/// The error of the first bad index. `bytes`: the dense elements of what `reading` reads, the check's index.
std::exception_ptr index_error(const IndexCheck& check, const Reading& reading, std::span<const std::byte> bytes);
/// Bytes of computed values that stay in memory because a check may need them.
std::size_t bytes_kept_by(const IndexCheck& check);
/// The error of a settled check that the value of `node` depends on, null if there is none.
std::exception_ptr error_of(const Node& node);
/// Whether the value of `node` depends on a check that is not settled.
bool is_unsettled(const Node& node);

/// Which checks each of a list of values depends on, where every value is computed from earlier ones.
class CheckedValues {
 public:
  explicit CheckedValues(std::size_t values) : values_(values) {}

  /// `value` depends on `check` itself.
  void add(std::size_t value, const std::shared_ptr<IndexCheck>& check);
  bool empty() const { return checks_.empty(); }
  /// To be called in the order of the values, once all checks were added.
  void inherit(std::size_t value, std::size_t from);
  /// The checks of a value; null for none. Equal lists are shared.
  std::shared_ptr<const IndexChecks> of(std::size_t value);

 private:
  std::size_t width() const { return (checks_.size() + 63) / 64; }
  void begin();

  std::size_t values_;
  IndexChecks checks_;
  AddressIndex<IndexCheck> numbers_;                      ///< of checks_
  std::vector<std::pair<std::size_t, std::size_t>> own_;  ///< value and number of the check
  std::vector<std::uint64_t> bits_;                       ///< width() words for each value
  std::vector<std::pair<std::size_t, std::shared_ptr<const IndexChecks>>>
      lists_;  ///< a value that has it, and the list
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
