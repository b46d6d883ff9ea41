// What every kernel's text is put together with: indented lines, and the parameter words that the text refers to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/source.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Lines of a body.
class Lines {
 public:
  template <typename... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<std::size_t>(2 * depth_), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  /// A line that ends with an opening brace, and what closes it.
  template <typename... Args> void open(fmt::format_string<Args...> format, Args&&... args) {
    add(format, std::forward<Args>(args)...);
    ++depth_;
  }
  void close() {
    --depth_;
    add("}}");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 1;
};

/// Parameter words in the order in which the text first names them. Their values never enter the text.
class Words {
 public:
  /// A word as UINT, int or LONG.
  std::string uint32(std::uint64_t value) {
    words_.push_back(static_cast<std::uint32_t>(value));
    return fmt::format("P({})", words_.size() - 1);
  }
  std::string int32(std::int64_t value) { return fmt::format("int({})", uint32(static_cast<std::uint64_t>(value))); }
  std::string int64(std::int64_t value) { return fmt::format("LONG({})", uint64(static_cast<std::uint64_t>(value))); }
  std::string uint64(std::uint64_t value) {
    const std::size_t at = words_.size();
    words_.push_back(static_cast<std::uint32_t>(value));
    words_.push_back(static_cast<std::uint32_t>(value >> 32));
    return fmt::format("((ULONG(P({})) << 32) | ULONG(P({})))", at + 1, at);
  }
  /// An integer in the index type.
  std::string index(std::int64_t value, bool wide) { return wide ? int64(value) : int32(value); }
  /// Two words that are filled in with a scalar parameter at each launch.
  std::string scalar(int index) {
    patches_.push_back({Patch::Kind::scalar, static_cast<int>(words_.size()), index, 0});
    return uint64(0);
  }
  /// Memory of a buffer, of faults or of scratch (MEMORY), from `offset` bytes on. What is named twice is one address.
  std::string memory(Patch::Kind kind, int index, std::int64_t offset = 0) {
    const auto same = [&](int word) {
      return std::any_of(patches_.begin(), patches_.end(), [&](const Patch& patch) {
        return patch.word == word && patch.kind == kind && patch.index == index;
      });
    };
    const auto known = std::find_if(addresses_.begin(), addresses_.end(), same);
    const auto number = known - addresses_.begin();
    if (known == addresses_.end()) {
      addresses_.push_back(static_cast<int>(words_.size()));
      patches_.push_back({kind, static_cast<int>(words_.size()), index, 0});
      words_.insert(words_.end(), 2, 0);
    }
    const std::string at = fmt::format("MEMORY_AT({}, {})", number, addresses_[static_cast<std::size_t>(number)]);
    return offset == 0 ? at : fmt::format("{} + {}", at, uint64(static_cast<std::uint64_t>(offset)));
  }

  /// The same of a buffer that is read before AFTER_EARLIER, and that nothing else names.
  std::string early_memory(Patch::Kind kind, int index) {
    const std::string at = "EARLY_" + memory(kind, index);
    early_.push_back(addresses_.back());
    return at;
  }

  /// The same for ASK_FOR, whoever writes it.
  std::string asked_memory(Patch::Kind kind, int index) { return "EARLY_" + memory(kind, index); }

  /// Completes a launch with all that was named.
  void move_to(Launch& launch) const {
    launch.text.words = static_cast<int>(words_.size());
    launch.text.addresses = addresses_;
    launch.words = words_;
    launch.patches = patches_;
    launch.early = early_;
  }

 private:
  std::vector<std::uint32_t> words_;
  std::vector<Patch> patches_;
  std::vector<int> addresses_;  ///< their first words
  std::vector<int> early_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
