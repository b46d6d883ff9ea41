// tiktoken's files: a token and its rank a line, the token in base64. How texts are split, and which special tokens
// there are, stands in the programs that use them; known by the file's name here.
#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/base64.h"
#include "core/checked.h"
#include "text/end_tokens.h"
#include "text/split_patterns.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

// Ranks are scores of f32, which holds them exactly.
constexpr std::size_t kMaxRanks = std::size_t{1} << 24;

constexpr const char* kR50kPattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)";
constexpr const char* kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";

struct FixedToken {
  const char* text;
  std::int64_t id;
};
/// A published encoding: the file's name without its ending, or the number of its ranks where it has a common one.
struct KnownEncoding {
  std::string_view name;
  std::size_t ranks;
  const char* pattern;
  std::array<FixedToken, 7> special;  ///< The first one ends texts.
  std::int64_t before = -1;
};
constexpr std::array kEncodings = {
    KnownEncoding{"r50k_base", 50256, kR50kPattern, {{{"<|endoftext|>", 50256}}}},
    KnownEncoding{"p50k_base", 50280, kR50kPattern, {{{"<|endoftext|>", 50256}}}},
    KnownEncoding{"cl100k_base",
                  100256,
                  kCl100kPattern,
                  {{{"<|endoftext|>", 100257},
                    {"<|fim_prefix|>", 100258},
                    {"<|fim_middle|>", 100259},
                    {"<|fim_suffix|>", 100260},
                    {"<|endofprompt|>", 100276}}}},
    KnownEncoding{"o200k_base", 199998, kGpt4oPattern, {{{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}}},
    KnownEncoding{
        "qwen", 151643, kQwen2Pattern, {{{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}}},
    KnownEncoding{"llama3",
                  128000,
                  kLlama3Pattern,
                  {{{"<|end_of_text|>", 128001},
                    {"<|begin_of_text|>", 128000},
                    {"<|start_header_id|>", 128006},
                    {"<|end_header_id|>", 128007},
                    {"<|eom_id|>", 128008},
                    {"<|eot_id|>", 128009},
                    {"<|python_tag|>", 128010}}},
                  128000},
};

std::string in_alphabet(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) result += encode_utf8(character_of_byte(static_cast<unsigned char>(byte)));
  return result;
}

// The next line, without its end; false where there is none.
bool take_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const std::size_t end = std::min(text.find('\n'), text.size());
  line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

struct Rank {
  std::string bytes;
  std::int64_t rank = 0;
};
std::optional<Rank> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  std::optional<std::string> bytes = bytes_of_base64(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool number = error == std::errc() && end == digits.data() + digits.size();
  if (!bytes || bytes->empty() || !number || rank < 0) return std::nullopt;
  return Rank{std::move(*bytes), rank};
}

}  // namespace

bool is_tiktoken_file(std::string_view text) {
  std::string_view line;
  return take_line(text, line) && line.size() < 4096 && parse_line(line).has_value();
}

std::shared_ptr<Tokenizer::Parts> parts_of_tiktoken(const std::string& file, std::string_view text,
                                                    std::string_view pattern,
                                                    const std::vector<SpecialToken>& special) {
  auto parts = std::make_shared<Tokenizer::Parts>();
  std::vector<Rank> ranks;
  std::string_view line;
  for (std::size_t number = 1; take_line(text, line); ++number) {
    if (line.empty()) continue;
    std::optional<Rank> rank = parse_line(line);
    if (!rank) throw FormatError(fmt::format("{}: line {} is no token in base64 and its rank", file, number));
    if (ranks.size() == kMaxRanks) throw FormatError(fmt::format("{}: more than {} tokens", file, kMaxRanks));
    ranks.push_back(std::move(*rank));
  }
  const std::size_t count = ranks.size() + special.size();
  std::vector<float> scores;
  const auto add = [&](const std::string& token, std::int64_t id, bool is_special) {
    if (parts->vocabulary.find(token)) {
      throw FormatError(fmt::format("{}: the token {} is there twice", file, in_quotes(token)));
    }
    parts->vocabulary.add(file, token, id, count);
    const auto size = static_cast<std::size_t>(parts->vocabulary.size());
    scores.resize(size);
    parts->special.resize(size);
    scores[static_cast<std::size_t>(id)] = -static_cast<float>(id);
    parts->special[static_cast<std::size_t>(id)] = is_special;
  };
  for (const Rank& rank : ranks) add(in_alphabet(rank.bytes), rank.rank, false);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string own(1, static_cast<char>(static_cast<unsigned char>(byte)));
    if (parts->vocabulary.find(in_alphabet(own))) continue;
    throw FormatError(fmt::format("{}: there is no token for the byte {:#04x}", file, byte));
  }
  for (const auto& [token, id] : special) {
    const std::optional<std::u32string> content = decode_utf8(token);
    if (!content || content->empty())
      throw FormatError(fmt::format("{}: a special token is empty, or not UTF-8", file));
    add(token, id, true);
    parts->raw.add({.content = *content, .id = id, .special = true});
  }
  std::vector<TokenKind> kinds;
  for (const bool is_special : parts->special) kinds.push_back(is_special ? TokenKind::control : TokenKind::normal);
  // The pair of the lowest rank first, of several the leftmost: byte pair encoding by scores.
  parts->model = std::make_unique<ScoredBpe>(parts->vocabulary, std::move(scores),
                                             ScoredBpeOptions{.whole_pieces = true, .kinds = std::move(kinds)});
  const PreTokenizer words = split_by(pattern);
  const PreTokenizer bytes = byte_level(false, false);
  parts->pre_tokenizer = [=](std::vector<Piece> pieces) { return bytes(words(std::move(pieces))); };
  parts->decoder = byte_level_decoder();
  return parts;
}

std::shared_ptr<Tokenizer::Parts> parts_of_tiktoken(const std::string& file, std::string_view text) {
  const std::string name = file.substr(file.find_last_of("/\\") + 1);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + !text.ends_with('\n');
  const KnownEncoding* found = nullptr;
  std::string known;
  for (const KnownEncoding& encoding : kEncodings) {
    const bool named = name == fmt::format("{}.tiktoken", encoding.name);
    if (named || (name == "tokenizer.model" && lines == encoding.ranks)) found = &encoding;
    known += (known.empty() ? "" : ", ") + std::string(encoding.name);
  }
  if (found == nullptr) {
    throw FormatError(fmt::format(
        "{}: a file of tiktoken does not say how texts are split, and this name tells no known encoding ({})\n"
        "  fix: name it <encoding>.tiktoken, or use text::Tokenizer::from_tiktoken with a pattern",
        file, known));
  }
  std::vector<SpecialToken> special;
  for (const auto& [token, id] : found->special) {
    if (token != nullptr) special.push_back({token, id});
  }
  const auto parts = parts_of_tiktoken(file, text, found->pattern, special);
  parts->end = found->special.front().id;
  add_known_ends(*parts);
  if (found->before >= 0) parts->before.push_back(found->before);
  return parts;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
