// tokenizer.json of Hugging Face.
#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/end_tokens.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using io::JsonFields;
using nlohmann::json;

constexpr std::int64_t kMaxId = std::int64_t{1} << 24;

void read_vocabulary(const JsonFields& model, Vocabulary& vocabulary) {
  const json& entries = model.object("vocab").at_object();
  for (const auto& [text, id] : entries.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMaxId)) {
      model.fail("vocab", fmt::format("token {} has no id below {}", in_quotes(text), kMaxId));
    }
    vocabulary.add(model.where(), text, id.get<std::int64_t>(), entries.size());
  }
}

// As one text with a space between, or as two.
std::vector<std::pair<std::string, std::string>> read_merges(const JsonFields& model) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const json& merge : model.array("merges")) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      result.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) model.fail("merges", "holds something else than pairs of texts");
    result.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return result;
}

std::optional<std::int64_t> token_of(const JsonFields& fields, const char* key, const Vocabulary& vocabulary) {
  if (!fields.has(key)) return std::nullopt;
  const std::optional<std::int64_t> id = vocabulary.find(fields.text(key));
  if (!id) fields.fail(key, fmt::format("{} is no token", in_quotes(fields.text(key))));
  return id;
}

std::unique_ptr<TokenModel> read_bpe(const JsonFields& model, Vocabulary& vocabulary) {
  read_vocabulary(model, vocabulary);
  if (model.real_or("dropout", 0) != 0) model.fail("dropout", "is not supported");
  const BpeOptions options{.unknown = token_of(model, "unk_token", vocabulary),
                           .fuse_unknown = model.flag_or("fuse_unk", false),
                           .byte_fallback = model.flag_or("byte_fallback", false),
                           .ignore_merges = model.flag_or("ignore_merges", false),
                           .prefix = model.text_or("continuing_subword_prefix", ""),
                           .suffix = model.text_or("end_of_word_suffix", "")};
  return std::make_unique<Bpe>(model.where(), vocabulary, read_merges(model), options);
}

std::unique_ptr<TokenModel> read_unigram(const JsonFields& model, Vocabulary& vocabulary) {
  std::vector<double> scores;
  const json& entries = model.array("vocab");
  for (const json& entry : entries) {
    const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!pair || !std::isfinite(entry[1].get<double>())) {
      model.fail("vocab", "holds something else than pairs of a text and a score");
    }
    vocabulary.add(model.where(), entry[0].get<std::string>(), static_cast<std::int64_t>(scores.size()),
                   entries.size());
    scores.push_back(entry[1].get<double>());
  }
  if (scores.empty()) model.fail("vocab", "is empty");
  std::optional<std::int64_t> unknown;
  if (model.has("unk_id")) unknown = model.integer("unk_id", 0, static_cast<std::int64_t>(scores.size()) - 1);
  return std::make_unique<Unigram>(
      vocabulary, std::move(scores),
      UnigramOptions{.unknown = unknown, .byte_fallback = model.flag_or("byte_fallback", false)});
}

std::unique_ptr<TokenModel> read_word_piece(const JsonFields& model, Vocabulary& vocabulary) {
  read_vocabulary(model, vocabulary);
  WordPieceOptions options;
  options.unknown = *token_of(JsonFields(model.at_object(), model.where()), "unk_token", vocabulary);
  options.prefix = model.text_or("continuing_subword_prefix", "##");
  options.longest = model.integer_or("max_input_chars_per_word", 100, 1, 1'000'000);
  return std::make_unique<WordPiece>(vocabulary, options);
}

std::unique_ptr<TokenModel> read_word_level(const JsonFields& model, Vocabulary& vocabulary) {
  read_vocabulary(model, vocabulary);
  return std::make_unique<WordPiece>(
      vocabulary,
      WordPieceOptions{.unknown = vocabulary.find(model.text_or("unk_token", "<unk>")).value_or(-1), .whole = true});
}

std::unique_ptr<TokenModel> read_model(const JsonFields& model, Vocabulary& vocabulary) {
  // Old files do not say it.
  const std::string type = model.text_or("type", model.has("merges") ? "BPE" : "WordPiece");
  if (type == "BPE") return read_bpe(model, vocabulary);
  if (type == "Unigram") return read_unigram(model, vocabulary);
  if (type == "WordLevel") return read_word_level(model, vocabulary);
  if (type == "WordPiece") {
    if (!model.has("unk_token")) model.fail("unk_token", "is missing");
    return read_word_piece(model, vocabulary);
  }
  model.fail("type", fmt::format("the model {} is not supported", in_quotes(type)));
}

void read_added(const JsonFields& file, Tokenizer::Parts& parts) {
  if (!file.has("added_tokens")) return;
  const json& entries = file.array("added_tokens");
  const std::size_t count = static_cast<std::size_t>(parts.vocabulary.size()) + entries.size();
  for (const json& entry : entries) {
    const JsonFields fields(entry, file.where() + ": added_tokens");
    const std::string content = fields.text("content");
    AddedToken token{.id = fields.integer("id", 0, kMaxId),
                     .special = fields.flag_or("special", false),
                     .single_word = fields.flag_or("single_word", false),
                     .left_strip = fields.flag_or("lstrip", false),
                     .right_strip = fields.flag_or("rstrip", false),
                     .normalized = fields.flag_or("normalized", false)};
    const std::optional<std::u32string> characters = decode_utf8(content);
    if (!characters) fields.fail("content", "is not UTF-8");
    token.content = *characters;
    parts.vocabulary.add(fields.where(), content, token.id, count);
    parts.special.resize(std::max(parts.special.size(), static_cast<std::size_t>(token.id) + 1));
    parts.special[static_cast<std::size_t>(token.id)] = token.special;
    if (token.normalized && parts.normalizer) {
      token.content = parts.normalizer({token.content}).text;
      parts.normalized_texts[token.id] = encode_utf8(token.content);
    }
    (token.normalized ? parts.normalized : parts.raw).add(token);
  }
}

// The ids of a special token of a template.
std::vector<std::int64_t> template_ids(const JsonFields& step, const JsonFields& special,
                                       const Tokenizer::Parts& parts) {
  std::vector<std::int64_t> result;
  const std::string name = step.object("SpecialToken").text("id");
  for (const json& id : special.object(name.c_str()).array("ids")) {
    const auto value = id.is_number_unsigned() ? id.get<std::uint64_t>() : ~std::uint64_t{0};
    if (parts.vocabulary.text(static_cast<std::int64_t>(value)) == nullptr) special.fail(name, "names no token");
    result.push_back(static_cast<std::int64_t>(value));
  }
  return result;
}

void read_pair_template(const JsonFields& fields, const JsonFields& special, Tokenizer::Parts& parts) {
  parts.pair.clear();
  int texts[2] = {0, 0};
  for (const json& item : fields.array("pair")) {
    const JsonFields step(item, fields.where() + ": pair");
    const bool is_text = step.has("Sequence");
    const std::int64_t type = step.object(is_text ? "Sequence" : "SpecialToken").integer_or("type_id", 0, 0, kMaxId);
    if (!is_text) {
      for (const std::int64_t id : template_ids(step, special, parts)) parts.pair.push_back({.type = type, .id = id});
      continue;
    }
    const bool first = step.object("Sequence").text("id") == "A";
    ++texts[first ? 0 : 1];
    parts.pair.push_back({.kind = first ? PairPart::Kind::first : PairPart::Kind::second, .type = type});
  }
  if (texts[0] != 1 || texts[1] != 1) fields.fail("pair", "does not have each of two texts once");
}

void read_template(const JsonFields& fields, Tokenizer::Parts& parts) {
  const JsonFields special = fields.object("special_tokens");
  bool behind = false;
  for (const json& item : fields.array("single")) {
    const JsonFields step(item, fields.where() + ": single");
    if (step.has("Sequence")) {
      behind = true;
      continue;
    }
    std::vector<std::int64_t>& around = behind ? parts.after : parts.before;
    for (const std::int64_t id : template_ids(step, special, parts)) around.push_back(id);
  }
  if (fields.has("pair")) read_pair_template(fields, special, parts);
}

// BertProcessing and RobertaProcessing: one token before and one behind; between two texts one, or two.
void read_bert_processing(const JsonFields& fields, bool roberta, Tokenizer::Parts& parts) {
  for (const char* key : {"cls", "sep"}) {
    const json& pair = fields.array(key);
    const bool good = pair.size() == 2 && pair[1].is_number_unsigned() &&
                      parts.vocabulary.text(static_cast<std::int64_t>(pair[1].get<std::uint64_t>())) != nullptr;
    if (!good) fields.fail(key, "is no pair of a text and a token");
    (key[0] == 'c' ? parts.before : parts.after).push_back(pair[1].get<std::int64_t>());
  }
  const std::vector<std::int64_t> end = {parts.after.back()};
  parts.pair = pair_of({parts.before.back()}, roberta ? std::vector{end[0], end[0]} : end, end, roberta ? 0 : 1);
}

void read_post_processor(const json* value, const std::string& where, Tokenizer::Parts& parts) {
  if (value == nullptr) return;
  const JsonFields fields(*value, where);
  const std::string type = fields.text("type");
  if (type == "TemplateProcessing") return read_template(fields, parts);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return read_bert_processing(fields, type == "RobertaProcessing", parts);
  }
  if (type == "ByteLevel") return;  // it trims offsets, which there are none of here
  if (type == "Sequence") {
    for (const json& step : fields.array("processors")) read_post_processor(&step, where, parts);
    return;
  }
  fields.fail("type", fmt::format("the post-processor {} is not supported", in_quotes(type)));
}

}  // namespace

std::shared_ptr<Tokenizer::Parts> parts_of_json(std::string_view file, std::string_view text) {
  const json document = io::parse_json(file, text);
  const JsonFields fields(document, std::string(file));
  auto parts = std::make_shared<Tokenizer::Parts>();
  const std::string where = fields.where() + ": ";
  parts->normalizer = read_normalizer(fields.find("normalizer"), where + "normalizer");
  parts->pre_tokenizer = read_pre_tokenizer(fields.find("pre_tokenizer"), where + "pre_tokenizer");
  parts->decoder = read_decoder(fields.find("decoder"), where + "decoder");
  parts->model = read_model(fields.object("model"), parts->vocabulary);
  read_added(fields, *parts);
  parts->pair = pair_of({}, {}, {}, 1);
  read_post_processor(fields.find("post_processor"), where + "post_processor", *parts);
  parts->special.resize(static_cast<std::size_t>(parts->vocabulary.size()));
  add_known_ends(*parts);
  return parts;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
