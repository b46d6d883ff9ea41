// A tokenizer of single characters (ASCII) and of special tokens, as models mark their calls with.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lockstep/text/tokenizer.h>

namespace lockstep::test {

/// The special tokens' numbers are those behind the 96 characters', in their order.
inline constexpr std::int64_t kFirstMark = 96;

inline text::Tokenizer marked_tokenizer(const std::vector<std::string>& special) {
  nlohmann::json vocabulary = {{"\u0120", 0}, {"\u010a", 1}};  // a space and the end of a line, as GPT-2 writes them
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = vocabulary.size();
  nlohmann::json added = nlohmann::json::array();
  for (const std::string& name : special) {
    added.push_back(
        {{"id", kFirstMark + static_cast<std::int64_t>(added.size())}, {"content", name}, {"special", true}});
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}};
  return text::Tokenizer::from_json(nlohmann::json{
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}},
      {"added_tokens", added},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level}}.dump());
}

}  // namespace lockstep::test
