// Every character, step by step, as the Python package tokenizers has it (tools/test_data/unicode_steps.py).
#include <algorithm>
#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/data.h"
#include "support/files.h"
#include "support/long_forms.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace lockstep::text {
namespace {

using nlohmann::json;

constexpr char32_t kBlock = 32'768;

// CRC-32, as zip files have it.
std::uint32_t hash_of(std::string_view text) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> result{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      result[i] = i;
      for (int bit = 0; bit < 8; ++bit) result[i] = result[i] >> 1 ^ ((result[i] & 1) != 0 ? 0xedb88320 : 0);
    }
    return result;
  }();
  std::uint32_t value = 0xffffffff;
  for (const char c : text) value = value >> 8 ^ table[(value ^ static_cast<unsigned char>(c)) & 255];
  return ~value;
}

std::string result_of(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer, std::u32string text) {
  if (normalizer) return encode_utf8(normalizer({std::move(text), 1}).text);
  std::string result;
  bool first = true;
  for (const Piece& piece : pre_tokenizer({{std::move(text), 1}})) {
    if (!std::exchange(first, false)) result += '\x1f';
    result += encode_utf8(piece.text);
  }
  return result;
}

TEST(UnicodeSteps, EveryCharacterIsWhatTokenizersTakesItFor) {
  const json rows = json::parse(test::read_whole_file(test::repository_data("unicode_steps.json")));
  ASSERT_GE(rows.size(), 60u);
  for (const json& row : rows) {
    const auto step = [&](const char* name) { return row.contains(name) ? &row.at(name) : nullptr; };
    const Normalizer normalizer = read_normalizer(step("normalizer"), "test");
    const PreTokenizer pre_tokenizer = read_pre_tokenizer(step("pre_tokenizer"), "test");
    const std::u32string form = decode_utf8(row.at("text").get<std::string>()).value();
    const auto hashes = row.at("hashes").get<std::vector<std::uint32_t>>();
    ASSERT_EQ(hashes.size(), 0x110000 / kBlock);
    // Sanitized, each step takes one block and the last, whose characters are the largest.
    const std::size_t drawn = drawn_index(hashes.size());
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (takes_long_here() && i != drawn && i + 1 != hashes.size()) continue;
      std::string results;
      const char32_t begin = static_cast<char32_t>(i) * kBlock;
      // Planes without characters, or with private ones.
      const bool alike = (begin >= 0x40000 && begin < 0xe0000) || begin >= 0xf0000;
      for (char32_t c = begin; c < begin + kBlock; c += alike ? 61 : 1) {
        if (c >= 0xd800 && c < 0xe000) continue;
        std::u32string text = form;
        std::replace(text.begin(), text.end(), U'?', c);
        results += result_of(normalizer, pre_tokenizer, std::move(text)) + "\n";
      }
      EXPECT_EQ(hash_of(results), hashes[i]) << row.dump().substr(0, 200) << " from " << i * kBlock;
    }
  }
}

}  // namespace
}  // namespace lockstep::text
