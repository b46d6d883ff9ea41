// Many texts in one step: each pass of the model draws a token of every text that goes on, and texts come and go
// between passes (continuous batching; Yu et al., "Orca", 2022). Every text gets the bits that it gets alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/models/generate.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// The keys and values of several texts, and a pass for all of them. Texts that have room for equally many tokens (256,
/// 512, 1,024 ...) lie side by side, so that none takes, or reads, as much as the longest. Not thread-safe.
class LOCKSTEP_API StepBatch {
 public:
  /// Whether a model can do that: decoders, and models with a state.
  static bool supports(const LanguageModel& model);
  /// ValueError for a model that cannot; it must outlive this.
  explicit StepBatch(const LanguageModel& model, Device device = {});
  ~StepBatch();

  /// Takes what `cache` (of this model and one row) remembers as a further text; returns its number. ValueError for
  /// another cache.
  std::int64_t join(const LanguageCache& cache);
  /// What is remembered of a text, for others to go on from. IndexError if there is none of that number.
  std::unique_ptr<LanguageCache> cache_of(std::int64_t text) const;
  /// Forgets a text. IndexError if there is none of that number.
  void leave(std::int64_t text);
  /// How many there are.
  std::int64_t size() const;
  /// Tokens of a text that are remembered. IndexError if there is none of that number.
  std::int64_t length(std::int64_t text) const;
  /// What is remembered takes on the device: of keys and values at most twice what a text's own tokens need, and 256 of
  /// them; rows of texts that left for a few steps more.
  std::int64_t bytes() const;

  /// The next token of each of some texts, (text, token), each text once; returns the logits behind each. The others
  /// stay as they are. IndexError for a text that is not there, or a token that is none; ValueError for a text twice.
  std::vector<std::vector<float>> step(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// generate() for each of the prompts, at most `at_once` of them in a pass; further ones begin where others have ended.
/// Each result is that of generate() alone, with the same seed. `on_token` (if there is one) is called with the
/// prompt's number and each token; it returns false to end that text. Without speculation, a cache and a constraint
/// (ValueError): those are one text's. Models that StepBatch does not support are run one prompt after the other.
LOCKSTEP_API std::vector<std::vector<SampledToken>> generate_together(
    const LanguageModel& model, const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options = {}, std::int64_t at_once = 16,
    const std::function<bool(std::size_t prompt, const SampledToken&)>& on_token = {}, Device device = {});

}  // namespace models
}  // namespace v0
}  // namespace lockstep
