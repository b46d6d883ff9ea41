#include <lockstep/models/rerank.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/os.h"
#include "io/gguf.h"
#include "io/json_fields.h"
#include "models/language/decoder.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

const Decoder& with_head(const char* what, const LanguageModel& model) {
  const auto* transformer = dynamic_cast<const Decoder*>(&model);
  if (transformer != nullptr && transformer->config().classifier.labels > 0) return *transformer;
  throw ValueError(fmt::format(
      "{}: this {} has no head for scores (a folder of …ForSequenceClassification, or a GGUF file with cls)", what,
      model.family()));
}

// Tokens that a text may have; 0: any number.
std::int64_t positions_of(const DecoderConfig& config) {
  return config.position_count > 0 ? config.position_count - config.position_offset : config.context;
}

std::int64_t shorter_of(std::int64_t a, std::int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

// 0: the file says nothing, or a number that means so.
std::int64_t length_of_tokenizer(const std::string& folder) {
  for (const os::DirectoryEntry& entry : os::list_directory(folder)) {
    if (entry.name != "tokenizer_config.json") continue;
    const nlohmann::json document = io::parse_json(os::map_file(folder + "/tokenizer_config.json"));
    const auto found = document.find("model_max_length");
    if (found == document.end() || !found->is_number()) return 0;
    const double length = found->get<double>();
    constexpr double kNone = 1e9;
    return length >= 1 && length < kNone ? static_cast<std::int64_t>(length) : 0;
  }
  return 0;
}

// "… {query} … {document} …", filled in: neither text is searched for places.
std::string filled_in(const std::string& prompt, std::string_view query, std::string_view document) {
  constexpr std::string_view kQuery = "{query}";
  constexpr std::string_view kDocument = "{document}";
  const std::size_t first = prompt.find(kQuery);
  const std::size_t second = first == std::string::npos ? first : prompt.find(kDocument, first);
  if (second == std::string::npos) throw ValueError("rerank: the model's template has no {query} before a {document}");
  const std::size_t behind = first + kQuery.size();
  std::string text = prompt.substr(0, first);
  text.append(query).append(prompt, behind, second - behind).append(document);
  return text.append(prompt, second + kDocument.size());
}

}  // namespace

std::int64_t label_count(const LanguageModel& model) {
  const auto* transformer = dynamic_cast<const Decoder*>(&model);
  return transformer == nullptr ? 0 : transformer->config().classifier.labels;
}

RerankForm rerank_form_of(const std::string& path, const LanguageModel& model) {
  const DecoderConfig& config = with_head("rerank", model).config();
  RerankForm form{.most_tokens = positions_of(config), .sigmoid = !config.classifier.identity};
  if (os::is_directory(path)) {
    form.most_tokens = shorter_of(form.most_tokens, length_of_tokenizer(path));
  } else {
    const io::GgufHeader header = io::parse_gguf(os::map_file(path));
    const auto found = header.metadata.find("tokenizer.chat_template.rerank");
    const auto* prompt = found == header.metadata.end() ? nullptr : found->second.get_if<std::string>();
    if (prompt != nullptr) form.prompt = *prompt;
    form.difference = prompt != nullptr && config.classifier.labels == 2;
  }
  if (config.classifier.labels != 1 && !form.difference) {
    throw ValueError(
        fmt::format("rerank: this {} gives {} labels, not one score", model.family(), config.classifier.labels));
  }
  return form;
}

text::TokenPair rerank_tokens(const text::Tokenizer& tokenizer, const RerankForm& form, std::string_view query,
                              std::string_view document) {
  if (tokenizer.encode(query, {.add_special_tokens = false}).empty()) {
    throw ValueError("rerank: the query has no tokens");
  }
  if (form.prompt.empty()) return tokenizer.encode_pair(query, document, form.most_tokens);
  text::TokenPair tokens{
      .ids = tokenizer.encode(filled_in(form.prompt, query, document), {.add_special_tokens = false}), .types = {}};
  const auto length = static_cast<std::int64_t>(tokens.ids.size());
  if (form.most_tokens > 0 && length > form.most_tokens) {
    throw ValueError(
        fmt::format("rerank: a query and a document have {} tokens, the model reads {}", length, form.most_tokens));
  }
  return tokens;
}

Tensor label_logits(const LanguageModel& model, const text::TokenPair& tokens, Device device) {
  const Decoder& transformer = with_head("label_logits", model);
  const auto length = static_cast<std::int64_t>(tokens.ids.size());
  if (length == 0) throw ValueError("label_logits: the text has no tokens");
  if (!tokens.types.empty() && tokens.types.size() != tokens.ids.size()) {
    throw ValueError(fmt::format("label_logits: {} types of {} tokens", tokens.types.size(), length));
  }
  const std::int64_t most = positions_of(transformer.config());
  if (most > 0 && length > most) {
    throw ValueError(fmt::format("label_logits: the text has {} tokens, the model reads {}", length, most));
  }
  const std::int64_t known = transformer.config().token_types;
  for (const std::int64_t type : tokens.types) {
    if (known > 0 && (type < 0 || type >= known)) {
      throw ValueError(fmt::format("label_logits: a token is of type {}, the model knows {} types", type, known));
    }
  }
  const NoGrad no_grad;
  const std::vector<std::int64_t> types =
      tokens.types.empty() ? std::vector<std::int64_t>(tokens.ids.size(), 0) : tokens.types;
  return transformer
      .label_logits(Tensor::from(tokens.ids, {1, length}, device), Tensor::from(types, {1, length}, device))
      .select(0, 0);
}

float rerank_score(const Tensor& logits, const RerankForm& form) {
  if (logits.numel() != (form.difference ? 2 : 1)) {
    throw ValueError(fmt::format("rerank: {} labels are not one score", logits.numel()));
  }
  const NoGrad no_grad;
  const Tensor first = logits.flatten().select(0, 0);
  const Tensor logit = form.difference ? first - logits.flatten().select(0, 1) : first;
  return (form.sigmoid ? sigmoid(logit) : logit).item<float>();
}

std::vector<float> rerank(const LanguageModel& model, const text::Tokenizer& tokenizer, std::string_view query,
                          const std::vector<std::string>& documents, const RerankForm& form, Device device) {
  std::vector<float> scores;
  for (const std::string& document : documents) {
    const Tensor logits = label_logits(model, rerank_tokens(tokenizer, form, query, document), device);
    scores.push_back(rerank_score(logits, form));
  }
  return scores;
}

std::vector<std::size_t> best_first(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Without a number there is no place but the last.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return scores[a] > scores[b] || (!std::isnan(scores[a]) && std::isnan(scores[b]));
  });
  return order;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
