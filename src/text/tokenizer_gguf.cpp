// The vocabulary of a GGUF file: SentencePiece's (tokenizer.ggml.model "llama") and byte-level ones ("gpt2").
#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/gguf.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

// Kinds of tokens in tokenizer.ggml.token_type.
constexpr std::int32_t kUnknown = 2;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;

/// How a family splits text before byte pair encoding, by its name in tokenizer.ggml.pre.
struct PreTokenization {
  std::string_view name;
  const char* pattern;         ///< Null: GPT-2's.
  bool single_digits = false;  ///< Digits are pieces of their own first.
  bool ignore_merges = false;
};
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array kPreTokenizations = {
    PreTokenization{"gpt-2", nullptr},
    PreTokenization{"llama-bpe", kLlama3, false, true},
    PreTokenization{"qwen2", kQwen2},
    PreTokenization{"smollm", nullptr, true},
    PreTokenization{"starcoder", nullptr, true},
};

class Reader {
 public:
  Reader(const std::string& path, const io::Metadata& metadata) : path_(path), metadata_(metadata) {}

  template <typename T> const T* find(const char* key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return nullptr;
    const T* value = found->second.get_if<T>();
    if (value == nullptr) fail(key, fmt::format("is {}", found->second.kind()));
    return value;
  }
  template <typename T> const T& get(const char* key) const {
    const T* value = find<T>(key);
    if (value == nullptr) fail(key, "is missing");
    return *value;
  }
  bool flag(const char* key, bool fallback) const {
    const bool* value = find<bool>(key);
    return value == nullptr ? fallback : *value;
  }
  std::optional<std::int64_t> token(const char* key, std::size_t count) const {
    const auto* id = find<std::uint32_t>(key);
    if (id == nullptr) return std::nullopt;
    if (*id >= count) fail(key, fmt::format("{} is no token (of {})", *id, count));
    return *id;
  }
  [[noreturn]] void fail(const char* key, std::string_view message) const {
    throw FormatError(fmt::format("{}: {}: {}", path_, key, message));
  }

 private:
  const std::string& path_;
  const io::Metadata& metadata_;
};

void read_tokens(const Reader& reader, const std::string& path, Tokenizer::Parts& parts) {
  const auto& tokens = reader.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  if (tokens.empty()) reader.fail("tokenizer.ggml.tokens", "is empty");
  const auto* types = reader.find<std::vector<std::int32_t>>("tokenizer.ggml.token_type");
  if (types != nullptr && types->size() != tokens.size()) {
    reader.fail("tokenizer.ggml.token_type", fmt::format("has {} entries for {} tokens", types->size(), tokens.size()));
  }
  parts.special.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    parts.vocabulary.add(path, tokens[i], id, tokens.size());
    const std::int32_t type = types == nullptr ? 1 : (*types)[i];
    parts.special[i] = type == kControl || type == kUnknown;
    if (type != kControl && type != kUserDefined) continue;
    const std::optional<std::u32string> content = decode_utf8(tokens[i]);
    if (content) parts.raw.add({.content = *content, .id = id, .special = type == kControl});
  }
}

void read_sentence_piece(const Reader& reader, Tokenizer::Parts& parts) {
  const auto& scores = reader.get<std::vector<float>>("tokenizer.ggml.scores");
  const auto count = static_cast<std::size_t>(parts.vocabulary.size());
  if (scores.size() != count) {
    reader.fail("tokenizer.ggml.scores", fmt::format("has {} entries for {} tokens", scores.size(), count));
  }
  for (const float score : scores) {
    if (score != score) reader.fail("tokenizer.ggml.scores", "holds NaN");
  }
  parts.model =
      std::make_unique<ScoredBpe>(parts.vocabulary, scores, reader.token("tokenizer.ggml.unknown_token_id", count));
  const bool prefix = reader.flag("tokenizer.ggml.add_space_prefix", true);
  // Only the beginning of the text gets the space, not what follows a special token.
  parts.pre_tokenizer = [prefix](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      if (prefix && piece.first) piece.text.insert(0, 1, U' ');
      for (char32_t& c : piece.text) {
        if (c == U' ') c = U'\u2581';
      }
    }
    return pieces;
  };
  const Decoder bytes = byte_fallback_decoder();
  parts.decoder = [bytes, prefix](std::vector<std::string> tokens) {
    std::string all;
    for (const std::string& token : bytes(std::move(tokens))) all += token;
    std::string result;
    for (const char32_t c : decode_utf8_lossy(all)) result += encode_utf8(c == U'\u2581' ? U' ' : c);
    if (prefix && result.starts_with(' ')) result.erase(0, 1);
    return std::vector<std::string>{result};
  };
}

void read_byte_level(const Reader& reader, const std::string& path, Tokenizer::Parts& parts) {
  const auto& pre = reader.get<std::string>("tokenizer.ggml.pre");
  const PreTokenization* row = nullptr;
  std::string known;
  for (const PreTokenization& candidate : kPreTokenizations) {
    if (candidate.name == pre) row = &candidate;
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  if (row == nullptr) reader.fail("tokenizer.ggml.pre", fmt::format("{} is not supported ({})", in_quotes(pre), known));
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& merge : reader.get<std::vector<std::string>>("tokenizer.ggml.merges")) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos)
      reader.fail("tokenizer.ggml.merges", fmt::format("{} is no pair", in_quotes(merge)));
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  parts.model = std::make_unique<Bpe>(path, parts.vocabulary, merges, BpeOptions{.ignore_merges = row->ignore_merges});
  const PreTokenizer digits = row->single_digits ? split_by(R"(\p{N})") : nullptr;
  const PreTokenizer words = row->pattern == nullptr ? nullptr : split_by(row->pattern);
  const PreTokenizer bytes = byte_level(false, words == nullptr);
  parts.pre_tokenizer = [=](std::vector<Piece> pieces) {
    if (digits) pieces = digits(std::move(pieces));
    if (words) pieces = words(std::move(pieces));
    return bytes(std::move(pieces));
  };
  parts.decoder = byte_level_decoder();
}

}  // namespace

std::shared_ptr<const Tokenizer::Parts> parts_of_gguf(const os::FileBytes& file) {
  const io::GgufHeader header = io::parse_gguf(file);
  const Reader reader(file.path, header.metadata);
  auto parts = std::make_shared<Tokenizer::Parts>();
  const std::string model = reader.get<std::string>("tokenizer.ggml.model");
  if (model != "llama" && model != "gpt2") {
    reader.fail("tokenizer.ggml.model", fmt::format("{} is not supported (llama, gpt2)", in_quotes(model)));
  }
  read_tokens(reader, file.path, *parts);
  const auto count = static_cast<std::size_t>(parts->vocabulary.size());
  if (model == "llama") {
    read_sentence_piece(reader, *parts);
  } else {
    read_byte_level(reader, file.path, *parts);
  }
  const auto first = reader.token("tokenizer.ggml.bos_token_id", count);
  parts->end = reader.token("tokenizer.ggml.eos_token_id", count);
  if (first && reader.flag("tokenizer.ggml.add_bos_token", model == "llama")) parts->before.push_back(*first);
  if (parts->end && reader.flag("tokenizer.ggml.add_eos_token", false)) parts->after.push_back(*parts->end);
  return parts;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
