// What a model remembers of the beginnings of texts, for texts that begin alike: a conversation's next message, prompts
// with the same instructions. Reading a prompt whole, in chunks or token by token gives the same bits, so a text that
// goes on from here has those that it has without.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Pages of 64 tokens, each with what stands before it: a tree, in which texts share the pages of their common
/// beginning. When there is no room, the page goes that was not used for the longest time, of those that no other
/// needs. Not thread-safe.
class LOCKSTEP_API PrefixStore {
 public:
  static constexpr std::int64_t kPage = 64;

  /// Keeps at most `bytes`; with 0 nothing. ValueError for models that StepBatch does not support; it must outlive
  /// this.
  PrefixStore(const LanguageModel& model, std::int64_t bytes);
  ~PrefixStore();

  /// A cache that remembers the longest beginning of `tokens` that is known, but never all of them: what is told of the
  /// last one has to be computed. An empty one if nothing is known.
  std::unique_ptr<LanguageCache> find(std::span<const std::int64_t> tokens);
  /// Keeps the whole pages of what `cache`, of one row, remembers of `tokens`. Of a model with a state nothing can be
  /// found but what ended, when it was put, where a page ends. ValueError for another cache, and for fewer tokens than
  /// it remembers.
  void put(std::span<const std::int64_t> tokens, const LanguageCache& cache);

  /// Of all pages.
  std::int64_t bytes() const;
  std::int64_t pages() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
