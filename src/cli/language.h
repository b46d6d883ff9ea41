// What the commands of language models share: lists of tokens, and how a model is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/dist.h>
#include <lockstep/models/language.h>
#include <lockstep/numerics.h>
#include <lockstep/text/tokenizer.h>

#include "cli/command_line.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "1,2,3". Throws UsageError.
std::vector<std::int64_t> parse_tokens(const std::string& text);

/// `--numerics`, of products with quantised weights: q8 or exact (docs/numerics.md sections 14 and 6).
struct ProductOptions {
  std::string numerics = "q8";

  void add_to(Subcommand& command);
  /// For the scope that the model computes in.
  Numerics chosen() const { return numerics_from_name(numerics); }
};

/// How a model is loaded, beside where it is.
struct ModelOptions {
  std::string adapter;
  std::string cache_type = "f32";
  std::int64_t context = 0;
  std::optional<dist::Group> group;  ///< whose ranks have a part of the model each

  void add_to(Subcommand& command);
  /// UsageError for a cache type that is none.
  models::LanguageLoadOptions load() const;
  /// `path` is local. `seen` (if there is one) is shown the model before it is divided among ranks.
  std::unique_ptr<models::LanguageModel> load_model(
      const std::string& path, Device device,
      const std::function<void(const models::LanguageModel& whole)>& seen = {}) const;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
