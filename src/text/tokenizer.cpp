#include <lockstep/text/tokenizer.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/formats.h"
#include "text/end_tokens.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {

void AddedTokens::add(const AddedToken& token) {
  if (token.content.empty()) return;
  std::uint64_t node = 0;
  for (const char32_t c : token.content) {
    const auto [edge, added] = edges_.emplace(node << 21 | c, static_cast<std::uint32_t>(ends_.size()));
    if (added) ends_.push_back(-1);
    node = edge->second;
  }
  ends_[node] = static_cast<std::int64_t>(tokens_.size());
  tokens_.push_back(token);
}

const AddedToken* AddedTokens::longest_at(std::u32string_view text, std::size_t at) const {
  std::int64_t result = -1;
  std::uint64_t node = 0;
  for (; at < text.size(); ++at) {
    const auto edge = edges_.find(node << 21 | text[at]);
    if (edge == edges_.end()) break;
    node = edge->second;
    if (ends_[node] >= 0) result = ends_[node];
  }
  return result < 0 ? nullptr : &tokens_[static_cast<std::size_t>(result)];
}

std::vector<AddedTokens::Found> AddedTokens::split(std::u32string_view text) const {
  std::vector<Found> result;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    const AddedToken* token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    const bool inside = (begin > 0 && is_word(text[begin - 1])) || (end < text.size() && is_word(text[end]));
    if (token->single_word && inside) continue;
    while (token->left_strip && begin > done && is_space(text[begin - 1])) --begin;
    while (token->right_strip && end < text.size() && is_space(text[end])) ++end;
    if (begin > done) result.push_back({done, begin, -1});
    result.push_back({begin, end, token->id});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) result.push_back({done, text.size(), -1});
  return result;
}

namespace {

// The names under which folders hold one, the first that is there.
constexpr std::array kFileNames = {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                   "qwen.tiktoken"};

bool holds(const std::string& folder, std::string_view name) {
  const std::vector<os::DirectoryEntry> entries = os::list_directory(folder);
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
}

// A .model file is a message that begins with the field 1, a piece, which begins with the field 1, its text: "\n", a
// length, "\n". No piece is as long as a brace says.
bool is_model_file(std::string_view content) {
  return content.size() > 2 && content[0] == '\n' && content[1] != '{' && content[2] == '\n';
}

// A text whose first sign is a brace, as far as one can see without reading it.
bool may_be_json(std::string_view content) {
  if (content.starts_with("\xef\xbb\xbf")) content.remove_prefix(3);
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != content.npos && content[first] == '{';
}

// What transformers puts around texts, as far as a .model file is concerned.
void put_around(const std::string& folder, Tokenizer::Parts& parts) {
  if (!holds(folder, "tokenizer_config.json")) return;
  const std::string path = folder + "/tokenizer_config.json";
  const os::FileBytes bytes = os::map_file(path);
  const nlohmann::json document = io::parse_json(bytes);
  const io::JsonFields config(document, path);
  std::string name = config.text_or("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const bool first = name == "LlamaTokenizer" || name == "GemmaTokenizer";
  const bool end = name == "T5Tokenizer";
  if (parts.first && config.flag_or("add_bos_token", first)) parts.before.push_back(*parts.first);
  if (parts.end && config.flag_or("add_eos_token", end)) parts.after.push_back(*parts.end);
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path) {
  std::string file = path;
  if (os::is_directory(path)) {
    const auto found =
        std::find_if(kFileNames.begin(), kFileNames.end(), [&](const char* name) { return holds(path, name); });
    if (found == kFileNames.end()) {
      std::string names;
      for (const char* name : kFileNames) names += (names.empty() ? "" : ", ") + std::string(name);
      throw FormatError(
          fmt::format("{}: the folder has no tokenizer\n  looked for: {}\n  fix: give the folder that a model was "
                      "published as, a GGUF file, or the tokenizer's own file",
                      path, names));
    }
    file += std::string("/") + *found;
  }
  const os::FileBytes bytes = os::map_file(file);
  const std::string_view content = text_of(bytes.bytes);
  if (content.starts_with("GGUF")) return Tokenizer(parts_of_gguf(bytes));
  const bool is_model = is_model_file(content);
  const bool is_tiktoken = !is_model && is_tiktoken_file(content);
  if (!is_model && !is_tiktoken && !may_be_json(content)) {
    throw FormatError(
        fmt::format("{}: is no tokenizer (tokenizer.json, a GGUF file, SentencePiece's .model or tiktoken's): {}", file,
                    io::describe_start(bytes.bytes)));
  }
  const auto parts = is_model      ? parts_of_model_file(file, content)
                     : is_tiktoken ? parts_of_tiktoken(file, content)
                                   : parts_of_json(file, content);
  if (file != path && is_model) put_around(path, *parts);
  if (file != path) read_ends(path, *parts);
  return Tokenizer(parts);
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view file) {
  return Tokenizer(parts_of_json(file, json));
}

Tokenizer Tokenizer::from_sentencepiece(std::string_view bytes, std::string_view file) {
  return Tokenizer(parts_of_model_file(std::string(file), bytes));
}

Tokenizer Tokenizer::from_tiktoken(std::string_view text, std::string_view pattern,
                                   const std::vector<SpecialToken>& special, std::string_view file) {
  return Tokenizer(parts_of_tiktoken(std::string(file), text, pattern, special));
}

namespace {

// The text's own tokens, behind those that are there.
void append_tokens(const Tokenizer::Parts& parts, std::string_view text, std::vector<std::int64_t>& tokens) {
  const std::optional<std::u32string> characters = decode_utf8(text);
  if (!characters) throw ValueError("Tokenizer: the text is not valid UTF-8");
  for (const AddedTokens::Found& part : parts.raw.split(*characters)) {
    if (part.id >= 0) {
      tokens.push_back(part.id);
      continue;
    }
    Piece own = {characters->substr(part.begin, part.end - part.begin), part.begin == 0 ? std::size_t{1} : 0};
    if (parts.normalizer) own = parts.normalizer(std::move(own));
    for (const AddedTokens::Found& inner : parts.normalized.split(own.text)) {
      if (inner.id >= 0) {
        tokens.push_back(inner.id);
        continue;
      }
      std::vector<Piece> pieces = {part_of(own, inner.begin, inner.end)};
      if (parts.pre_tokenizer) pieces = parts.pre_tokenizer(std::move(pieces));
      for (const Piece& piece : pieces) {
        if (!piece.text.empty()) parts.model->encode(piece.text, tokens);
      }
    }
  }
}

// How many of `first` and `second` tokens are kept in so much room.
std::pair<std::size_t, std::size_t> kept_of(std::size_t first, std::size_t second, std::size_t room) {
  if (first > second) {
    const auto [shorter, longer] = kept_of(second, first, room);
    return {longer, shorter};
  }
  if (first + second <= room) return {first, second};
  const std::size_t shorter = std::min(first, room / 2);
  return {shorter, room - shorter};
}

}  // namespace

std::vector<PairPart> pair_of(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& between,
                              const std::vector<std::int64_t>& after, std::int64_t second) {
  std::vector<PairPart> parts;
  const auto add = [&](const std::vector<std::int64_t>& ids, std::int64_t type) {
    for (const std::int64_t id : ids) parts.push_back({.type = type, .id = id});
  };
  add(before, 0);
  parts.push_back({.kind = PairPart::Kind::first});
  add(between, 0);
  parts.push_back({.kind = PairPart::Kind::second, .type = second});
  add(after, second);
  return parts;
}

TokenPair Tokenizer::encode_pair(std::string_view first, std::string_view second, std::int64_t most) const {
  const std::vector<PairPart>& parts = parts_->pair;
  if (parts.empty()) {
    throw ValueError("Tokenizer: its file does not say how two texts are put together; tokenizer.json does");
  }
  std::vector<std::int64_t> own[2];
  append_tokens(*parts_, first, own[0]);
  append_tokens(*parts_, second, own[1]);
  const auto special = static_cast<std::int64_t>(parts.size()) - 2;
  if (most > 0) {
    if (most <= special) {
      throw ValueError(
          fmt::format("Tokenizer: {} tokens leave no room for texts beside {} special ones", most, special));
    }
    const auto [kept_first, kept_second] =
        kept_of(own[0].size(), own[1].size(), static_cast<std::size_t>(most - special));
    own[0].resize(kept_first);
    own[1].resize(kept_second);
  }
  TokenPair result;
  for (const PairPart& part : parts) {
    if (part.kind == PairPart::Kind::special) {
      result.ids.push_back(part.id);
    } else {
      const std::vector<std::int64_t>& text = own[part.kind == PairPart::Kind::first ? 0 : 1];
      result.ids.insert(result.ids.end(), text.begin(), text.end());
    }
    result.types.resize(result.ids.size(), part.type);
  }
  return result;
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<std::int64_t> tokens;
  if (options.add_special_tokens) tokens = parts_->before;
  append_tokens(*parts_, text, tokens);
  if (options.add_special_tokens) tokens.insert(tokens.end(), parts_->after.begin(), parts_->after.end());
  return tokens;
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& ids, DecodeOptions options) const {
  std::vector<std::string> texts;
  for (const std::int64_t id : ids) {
    const std::string* text = parts_->vocabulary.text(id);
    if (text == nullptr) throw IndexError(fmt::format("Tokenizer: there is no token {} (of {})", id, size()));
    if (options.skip_special_tokens && parts_->special[static_cast<std::size_t>(id)]) continue;
    const auto normalized = parts_->normalized_texts.find(id);
    texts.push_back(normalized == parts_->normalized_texts.end() ? *text : normalized->second);
  }
  std::string result;
  if (parts_->decoder) {
    for (const std::string& text : parts_->decoder(std::move(texts))) result += text;
  } else {
    for (std::size_t i = 0; i < texts.size(); ++i) result += (i > 0 ? " " : "") + texts[i];
  }
  return encode_utf8(decode_utf8_lossy(result));
}

std::int64_t Tokenizer::size() const {
  return parts_->vocabulary.size();
}

std::optional<std::string> Tokenizer::token(std::int64_t id) const {
  const std::string* text = parts_->vocabulary.text(id);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

std::string Tokenizer::bytes(std::int64_t id) const {
  const std::string* text = parts_->vocabulary.text(id);
  if (text == nullptr || parts_->special[static_cast<std::size_t>(id)]) return "";
  const auto normalized = parts_->normalized_texts.find(id);
  if (normalized != parts_->normalized_texts.end()) return normalized->second;
  if (!parts_->decoder) return " " + *text;
  const auto decoded = [&](std::vector<std::string> tokens) {
    std::string all;
    for (const std::string& part : parts_->decoder(std::move(tokens))) all += part;
    return all;
  };
  // The first token of a text may lose its space: another one stands in front.
  const std::string front = decoded({"a"});
  const std::string both = decoded({"a", *text});
  const std::string own = both.size() < front.size() ? "" : both.substr(front.size());
  const int byte = byte_of_token(*text);
  // Decoders that know tokens of bytes make such a text something else.
  return byte >= 0 && own != *text ? std::string(1, static_cast<char>(byte)) : own;
}

std::optional<std::int64_t> Tokenizer::find(std::string_view token) const {
  return parts_->vocabulary.find(token);
}

std::optional<std::int64_t> Tokenizer::end_token() const {
  return parts_->end;
}

std::vector<std::int64_t> Tokenizer::end_tokens() const {
  std::vector<std::int64_t> result;
  if (parts_->end) result.push_back(*parts_->end);
  for (const std::int64_t id : parts_->ends) {
    if (std::find(result.begin(), result.end(), id) == result.end()) result.push_back(id);
  }
  return result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
