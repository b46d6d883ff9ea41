// Preprocessing as the texts that a file of weights carries. Files are untrusted: every number is checked.
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/models/preprocessing.h>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using Fit = Preprocessing::Fit;

constexpr std::string_view kPrefix = "picture.";
constexpr std::string_view kBicubic = "bicubic";
constexpr int kLargestSide = 16'384;

struct FitName {
  Fit fit;
  std::string_view name;
};
constexpr std::array kFits = {FitName{Fit::stretch, "stretch"}, FitName{Fit::crop, "crop"},
                              FitName{Fit::crop_if_needed, "crop_if_needed"}};

// Takes the values out of the metadata, each as a text: texts are all that safetensors have, other formats keep
// numbers.
class Fields {
 public:
  explicit Fields(const io::Metadata& metadata) : metadata_(metadata) {}

  std::string text(const char* field) const {
    const auto found = metadata_.find(std::string(kPrefix) + field);
    if (found == metadata_.end()) fail(field, "is missing");
    return found->second.to_string();
  }
  int integer(const char* field, int least, int most) const {
    const std::string value = text(field);
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least || result > most) {
      fail(field, fmt::format("is {}, no number from {} to {}", in_quotes(value), least, most));
    }
    return result;
  }
  int channels() const {
    const int result = integer("channels", 1, 3);
    if (result == 2) fail("channels", "is 2; there are gray pictures (1) and colours (3)");
    return result;
  }
  bool boolean(const char* field) const {
    const std::string value = text(field);
    if (value != "true" && value != "false") fail(field, fmt::format("is {}, not true or false", in_quotes(value)));
    return value == "true";
  }
  // `count` finite numbers, separated by ", ".
  std::array<float, 3> reals(const char* field, int count, std::array<float, 3> result, bool positive) const {
    const std::string value = text(field);
    const char* at = value.data();
    const char* const end = value.data() + value.size();
    bool good = true;
    for (int i = 0; i < count && good; ++i) {
      if (i > 0) good = std::string_view(at, static_cast<std::size_t>(end - at)).starts_with(", ");
      if (i > 0 && good) at += 2;
      float& number = result[static_cast<std::size_t>(i)];
      const auto [next, error] = std::from_chars(at, end, number);
      good = good && error == std::errc() && std::isfinite(number) && (!positive || number > 0);
      at = next;
    }
    if (!good || at != end) {
      fail(field, fmt::format("is {}, not {} finite{} {}", in_quotes(value), count, positive ? " positive" : "",
                              count == 1 ? "number" : "numbers"));
    }
    return result;
  }
  // Absent from files of older versions, which knew one filter.
  io::ResizeFilter filter() const {
    if (metadata_.find(std::string(kPrefix) + "filter") == metadata_.end()) return io::ResizeFilter::bilinear;
    const std::string value = text("filter");
    if (value != kBicubic) fail("filter", fmt::format("is {}; the other filter is {}", in_quotes(value), kBicubic));
    return io::ResizeFilter::bicubic;
  }
  Fit fit() const {
    const std::string value = text("fit");
    for (const FitName& row : kFits) {
      if (row.name == value) return row.fit;
    }
    fail("fit", fmt::format("is {}, none of stretch, crop, crop_if_needed", in_quotes(value)));
  }

 private:
  [[noreturn]] static void fail(const char* field, const std::string& what) {
    throw FormatError(fmt::format("the metadata of the weights: \"{}{}\" {}", kPrefix, field, what));
  }

  const io::Metadata& metadata_;
};

}  // namespace

std::map<std::string, std::string> to_metadata(const Preprocessing& preprocessing) {
  std::map<std::string, std::string> result;
  const auto add = [&](const char* field, std::string text) {
    result.emplace(std::string(kPrefix) + field, std::move(text));
  };
  const auto reals = [&](const std::array<float, 3>& values) {
    return fmt::format("{}", fmt::join(values.begin(), values.begin() + preprocessing.channels, ", "));
  };
  for (const FitName& row : kFits) {
    if (row.fit == preprocessing.fit) add("fit", std::string(row.name));
  }
  add("shorter_side", std::to_string(preprocessing.shorter_side));
  add("width", std::to_string(preprocessing.width));
  add("height", std::to_string(preprocessing.height));
  add("channels", std::to_string(preprocessing.channels));
  if (preprocessing.filter == io::ResizeFilter::bicubic) add("filter", std::string(kBicubic));
  add("bgr", preprocessing.bgr ? "true" : "false");
  add("scale", fmt::format("{}", preprocessing.scale));
  add("mean", reals(preprocessing.mean));
  add("deviation", reals(preprocessing.deviation));
  return result;
}

std::optional<Preprocessing> preprocessing_of(const io::Metadata& metadata) {
  const auto first = metadata.lower_bound(kPrefix);
  if (first == metadata.end() || !first->first.starts_with(kPrefix)) return std::nullopt;
  const Fields fields(metadata);
  Preprocessing result{.fit = fields.fit()};
  result.width = fields.integer("width", 1, kLargestSide);
  result.height = fields.integer("height", 1, kLargestSide);
  const int least = result.fit == Fit::stretch ? 0 : std::max(result.width, result.height);
  result.shorter_side = fields.integer("shorter_side", least, kLargestSide);
  result.channels = fields.channels();
  result.filter = fields.filter();
  result.bgr = fields.boolean("bgr");
  result.scale = fields.reals("scale", 1, {}, true)[0];
  result.mean = fields.reals("mean", result.channels, result.mean, false);
  result.deviation = fields.reals("deviation", result.channels, result.deviation, true);
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
