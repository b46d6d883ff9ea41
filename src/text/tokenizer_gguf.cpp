// The vocabulary of a GGUF file: SentencePiece's (tokenizer.ggml.model "llama": byte pair encoding, "t5": unigram),
// byte-level ones ("gpt2"), WordPiece ("bert") and RWKV's.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/gguf.h"
#include "text/end_tokens.h"
#include "text/sentence_piece.h"
#include "text/split_patterns.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

/// How families split text before byte pair encoding, by their names in tokenizer.ggml.pre, as llama.cpp has them: by
/// one pattern after the other.
struct PreTokenization {
  std::string_view names;
  std::array<const char*, 5> patterns;
  bool ignore_merges = false;
  bool begins = false;  ///< With a token, unless tokenizer.ggml.add_bos_token says no.
};
constexpr const char* kDigit = R"(\p{N})";
constexpr std::array kPreTokenizations = {
    PreTokenization{
        "gpt-2 phi-2 olmo modern-bert jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum mpt jais "
        "trillion granite-docling exaone4",
        {kGpt2Pattern}},
    PreTokenization{"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", {kDigit, kGpt2Pattern}},
    PreTokenization{"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {kLlama3Pattern}, true, true},
    PreTokenization{"glm4 glm5", {kLlama3Pattern}, true},
    PreTokenization{"dbrx smaug-bpe chatglm-bpe", {kLlama3Pattern}},
    PreTokenization{"qwen2 deepseek-r1-qwen stablelm2 kormo f2llmv2 megrez hunyuan solar-open", {kQwen2Pattern}},
    PreTokenization{"qwen35", {kQwen35Pattern}},
    PreTokenization{"tekken", {kTekkenPattern}, true, true},
    PreTokenization{"gpt-4o llama4 kanana2 talkie minimax-m2", {kGpt4oPattern}},
    PreTokenization{"deepseek-coder",
                    {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", kDigit}},
    PreTokenization{"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
                    {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)", kDeepSeek3Pattern}},
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

std::vector<TokenKind> read_kinds(const Reader& reader, std::size_t count) {
  const auto* types = reader.find<std::vector<std::int32_t>>("tokenizer.ggml.token_type");
  if (types == nullptr) return std::vector<TokenKind>(count, TokenKind::normal);
  if (types->size() != count) {
    reader.fail("tokenizer.ggml.token_type", fmt::format("has {} entries for {} tokens", types->size(), count));
  }
  std::vector<TokenKind> kinds;
  for (const std::int32_t type : *types) {
    if (type < 1 || type > static_cast<std::int32_t>(TokenKind::byte)) {
      reader.fail("tokenizer.ggml.token_type", fmt::format("{} is no type of a token", type));
    }
    kinds.push_back(static_cast<TokenKind>(type));
  }
  return kinds;
}

// `user_defined`: whether such tokens are looked for before a text is normalised, as control tokens are.
void read_tokens(const std::string& path, const std::vector<std::string>& tokens, const std::vector<TokenKind>& kinds,
                 bool user_defined, Tokenizer::Parts& parts) {
  parts.special.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    parts.vocabulary.add(path, tokens[i], id, tokens.size());
    const bool control = kinds[i] == TokenKind::control;
    parts.special[i] = control || kinds[i] == TokenKind::unknown;
    if (!control && !(user_defined && kinds[i] == TokenKind::user_defined)) continue;
    const std::optional<std::u32string> content = decode_utf8(tokens[i]);
    if (content) parts.raw.add({.content = *content, .id = id, .special = control});
  }
}

void read_sentence_piece(const Reader& reader, const std::string& path, bool unigram, std::vector<TokenKind> kinds,
                         Tokenizer::Parts& parts) {
  SentencePieceSpec spec{.unigram = unigram};
  spec.scores = reader.get<std::vector<float>>("tokenizer.ggml.scores");
  const auto count = static_cast<std::size_t>(parts.vocabulary.size());
  if (spec.scores.size() != count) {
    reader.fail("tokenizer.ggml.scores", fmt::format("has {} entries for {} tokens", spec.scores.size(), count));
  }
  for (const float score : spec.scores) {
    if (score != score) reader.fail("tokenizer.ggml.scores", "holds NaN");
  }
  if (const auto unknown = reader.token("tokenizer.ggml.unknown_token_id", count)) {
    kinds[static_cast<std::size_t>(*unknown)] = TokenKind::unknown;
  }
  spec.byte_fallback = std::find(kinds.begin(), kinds.end(), TokenKind::byte) != kinds.end();
  spec.kinds = std::move(kinds);
  spec.prefix = reader.flag("tokenizer.ggml.add_space_prefix", true);
  spec.remove_extra_spaces = reader.flag("tokenizer.ggml.remove_extra_whitespaces", unigram);
  if (const auto* table = reader.find<std::vector<std::uint8_t>>("tokenizer.ggml.precompiled_charsmap")) {
    spec.replacements = CharsMap(path, {reinterpret_cast<const char*>(table->data()), table->size()});
  }
  use_sentence_piece(path, std::move(spec), parts);
}

// The converter marks words instead of what continues them: "▁word" and "piece" were "word" and "##piece". Special
// tokens stay as they are.
std::vector<std::string> word_pieces(const std::vector<std::string>& tokens, const std::vector<TokenKind>& kinds) {
  constexpr std::string_view kMarkOfWords = "\u2581";
  std::vector<std::string> result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i];
    const bool as_it_is = kinds[i] == TokenKind::control || kinds[i] == TokenKind::unknown ||
                          (text.starts_with('[') && text.ends_with(']'));
    if (as_it_is) {
      result.emplace_back(text);
    } else if (text.starts_with(kMarkOfWords)) {
      result.emplace_back(text.substr(kMarkOfWords.size()));
    } else {
      result.push_back("##" + std::string(text));
    }
  }
  return result;
}

void read_word_piece(const Reader& reader, const std::vector<TokenKind>& kinds, Tokenizer::Parts& parts) {
  const auto count = static_cast<std::size_t>(parts.vocabulary.size());
  const auto token = [&](const char* key, const char* usual) {
    const auto named = reader.token(key, count);
    const auto found = named ? named : parts.vocabulary.find(usual);
    if (!found) reader.fail(key, "is missing");
    return *found;
  };
  // Files do not say whether texts are brought to lower case: they are where no token has upper case.
  bool lower = true;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& text = *parts.vocabulary.text(static_cast<std::int64_t>(i));
    if (kinds[i] != TokenKind::normal || text.starts_with('[')) continue;
    const std::u32string characters = decode_utf8_lossy(text);
    lower = lower && to_lower(characters) == characters;
  }
  parts.normalizer = bert_normalizer({.strip_accents = lower, .lower = lower});
  parts.pre_tokenizer = bert_pre_tokenizer();
  parts.model = std::make_unique<WordPiece>(
      parts.vocabulary, WordPieceOptions{.unknown = token("tokenizer.ggml.unknown_token_id", "[UNK]")});
  parts.decoder = word_piece_decoder("##", true);
  parts.before.push_back(token("tokenizer.ggml.bos_token_id", "[CLS]"));
  parts.after.push_back(token("tokenizer.ggml.seperator_token_id", "[SEP]"));  // so spelled in the files
  parts.pair = pair_of(parts.before, parts.after, parts.after, 1);
}

const PreTokenization& pre_tokenization(const Reader& reader) {
  const auto& pre = reader.get<std::string>("tokenizer.ggml.pre");
  std::string known;
  for (const PreTokenization& row : kPreTokenizations) {
    const std::string names = fmt::format(" {} ", row.names);
    if (pre.find(' ') == std::string::npos && names.find(fmt::format(" {} ", pre)) != std::string::npos) return row;
    known += names.substr(0, names.size() - 1);
  }
  reader.fail("tokenizer.ggml.pre", fmt::format("{} is not supported (known are{})", in_quotes(pre), known));
}

void read_byte_level(const Reader& reader, const std::string& path, const PreTokenization& pre,
                     Tokenizer::Parts& parts) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& merge : reader.get<std::vector<std::string>>("tokenizer.ggml.merges")) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos)
      reader.fail("tokenizer.ggml.merges", fmt::format("{} is no pair", in_quotes(merge)));
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  parts.model = std::make_unique<Bpe>(path, parts.vocabulary, merges, BpeOptions{.ignore_merges = pre.ignore_merges});
  std::vector<PreTokenizer> steps;
  for (const char* pattern : pre.patterns) {
    if (pattern != nullptr) steps.push_back(split_by(pattern));
  }
  steps.push_back(byte_level(false, false));
  parts.pre_tokenizer = [steps](std::vector<Piece> pieces) {
    for (const PreTokenizer& step : steps) pieces = step(std::move(pieces));
    return pieces;
  };
  parts.decoder = byte_level_decoder();
}

}  // namespace

std::shared_ptr<const Tokenizer::Parts> parts_of_gguf(const os::FileBytes& file) {
  const io::GgufHeader header = io::parse_gguf(file);
  const Reader reader(file.path, header.metadata);
  auto parts = std::make_shared<Tokenizer::Parts>();
  const std::string model = reader.get<std::string>("tokenizer.ggml.model");
  if (model != "llama" && model != "t5" && model != "gpt2" && model != "bert" && model != "rwkv") {
    reader.fail("tokenizer.ggml.model",
                fmt::format("{} is not supported (llama, t5, gpt2, bert, rwkv)", in_quotes(model)));
  }
  const auto& tokens = reader.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  if (tokens.empty()) reader.fail("tokenizer.ggml.tokens", "is empty");
  const std::size_t count = tokens.size();
  const std::vector<TokenKind> kinds = read_kinds(reader, count);
  const auto first = reader.token("tokenizer.ggml.bos_token_id", count);
  parts->end = reader.token("tokenizer.ggml.eos_token_id", count);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = reader.token(key, count)) parts->ends.push_back(*id);
  }
  if (model == "bert") {
    read_tokens(file.path, word_pieces(tokens, kinds), kinds, true, *parts);
    read_word_piece(reader, kinds, *parts);
    return parts;
  }
  if (model == "rwkv") {
    read_rwkv(file.path, tokens, kinds, *parts);
    return parts;
  }
  read_tokens(file.path, tokens, kinds, model != "t5", *parts);
  bool begins = model == "llama";
  if (model == "gpt2") {
    const PreTokenization& pre = pre_tokenization(reader);
    begins = pre.begins;
    read_byte_level(reader, file.path, pre, *parts);
  } else {
    read_sentence_piece(reader, file.path, model == "t5", kinds, *parts);
  }
  if (first && reader.flag("tokenizer.ggml.add_bos_token", begins)) parts->before.push_back(*first);
  if (parts->end && reader.flag("tokenizer.ggml.add_eos_token", model == "t5")) parts->after.push_back(*parts->end);
  // RoBERTa's are two; what the converter calls add_sep_token is missing in older files.
  std::vector<std::int64_t> between = parts->after;
  const auto separator = reader.token("tokenizer.ggml.seperator_token_id", count);
  const bool modern = model == "gpt2" && reader.get<std::string>("tokenizer.ggml.pre") == "modern-bert";
  if (separator && reader.flag("tokenizer.ggml.add_sep_token", !modern)) between.push_back(*separator);
  parts->pair = pair_of(parts->before, between, parts->after, 0);
  add_known_ends(*parts);
  return parts;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
