#include "models/language/classifier.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/ops.h>

#include "core/checked.h"
#include "models/language/families.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using io::JsonFields;

/// What an encoder's head is called, and the prefix of all else beside it.
struct Head {
  std::string_view family;
  const char* prefix;
  const char* dense;
  const char* norm;
  const char* output;
  Activation activation;
};
constexpr std::array kHeads = {
    Head{"bert", "bert.", "bert.pooler.dense", "", "classifier", Activation::tanh},
    Head{"camembert", "roberta.", "classifier.dense", "", "classifier.out_proj", Activation::tanh},
    Head{"distilbert", "distilbert.", "pre_classifier", "", "classifier", Activation::relu},
    Head{"modernbert", "model.", "head.dense", "head.norm", "classifier", Activation::gelu},
    Head{"roberta", "roberta.", "classifier.dense", "", "classifier.out_proj", Activation::tanh},
    Head{"xlm-roberta", "roberta.", "classifier.dense", "", "classifier.out_proj", Activation::tanh},
};

std::string architecture_of(const JsonFields& config) {
  if (!config.has("architectures")) return "";
  for (const std::string& name : config.texts("architectures")) {
    if (name.ends_with("ForSequenceClassification")) return name;
  }
  return "";
}

// By sentence-transformers' word, in either of its places; its models for one label have a sigmoid otherwise.
bool scores_are_logits(const JsonFields& config) {
  constexpr const char* kOld = "sbert_ce_default_activation_function";
  std::string name = config.text_or(kOld, "");
  if (config.has("sentence_transformers")) name = config.object("sentence_transformers").text_or("activation_fn", name);
  if (name.empty() || name.ends_with("Sigmoid")) return false;
  if (name.ends_with("Identity")) return true;
  config.fail("sentence_transformers", fmt::format("the activation {} is not supported", in_quotes(name)));
}

void put_in_front(const std::string& prefix, ModelNames& names) {
  for (std::string* name :
       {&names.embedding, &names.embedding_norm, &names.positions, &names.token_types, &names.layers, &names.norm}) {
    if (!name->empty()) name->insert(0, prefix);
  }
}

ClassifierConfig::Pooling pooling_of_word(const JsonFields& config) {
  const std::string word = config.text_or("classifier_pooling", "cls");
  if (word == "cls") return ClassifierConfig::Pooling::first;
  if (word == "mean") return ClassifierConfig::Pooling::mean;
  config.fail("classifier_pooling", fmt::format("{} is neither cls nor mean", in_quotes(word)));
}

}  // namespace

void read_classifier(const JsonFields& config, DecoderConfig& result) {
  const std::string architecture = architecture_of(config);
  if (architecture.empty()) return;
  ClassifierConfig& classifier = result.classifier;
  constexpr std::int64_t kMostLabels = 65'536;
  if (config.has("id2label")) {
    classifier.labels = static_cast<std::int64_t>(config.object("id2label").at_object().size());
    if (classifier.labels < 1 || classifier.labels > kMostLabels) config.fail("id2label", "has no labels, or too many");
  } else {
    classifier.labels = config.integer_or("num_labels", 2, 1, kMostLabels);
  }
  classifier.identity = scores_are_logits(config);
  if (!result.encoder) {
    classifier.pooling = ClassifierConfig::Pooling::last;
    classifier.bias = false;
    result.names.classifier = "score";
    result.encoder = true;
    return;
  }
  const auto* head =
      std::find_if(kHeads.begin(), kHeads.end(), [&](const Head& row) { return row.family == result.family; });
  if (head == kHeads.end()) {
    config.fail("architectures", fmt::format("the head of {} is not supported", in_quotes(architecture)));
  }
  result.names.dense = head->dense;
  result.names.dense_norm = head->norm;
  result.names.classifier = head->output;
  put_in_front(head->prefix, result.names);
  classifier.activation = head->activation;
  if (result.family == "modernbert") {
    classifier.pooling = pooling_of_word(config);
    classifier.activation = read_activation(config, "classifier_activation", "gelu");
    classifier.dense_bias = config.flag_or("classifier_bias", false);
  }
}

// llama.cpp's names are "cls", "cls.norm" and "cls.output"; models may have the first or the last alone.
void read_gguf_classifier(const GgufSource& source, DecoderConfig& result) {
  const auto rows_of = [&](const std::string& name) -> std::int64_t {
    const auto found = source.tensors.find(name + ".weight");
    return found == source.tensors.end() || found->second.rank() != 2 ? 0 : found->second.size(0);
  };
  const std::int64_t dense = rows_of("cls");
  const std::int64_t output = rows_of("cls.output");
  if (dense == 0 && output == 0) return;
  ClassifierConfig& classifier = result.classifier;
  const bool modern = result.family == "modern-bert";
  const bool causal = result.attention.causal;
  if (dense > 0) result.names.dense = modern ? "head.dense" : "classifier.dense";
  if (source.tensors.contains("cls.norm.weight")) result.names.dense_norm = "head.norm";
  if (output > 0) result.names.classifier = causal ? "score" : modern ? "classifier" : "classifier.out_proj";
  classifier.labels = output > 0 ? output : dense;
  classifier.dense_bias = source.tensors.contains("cls.bias");
  classifier.bias = source.tensors.contains("cls.output.bias");
  // DistilBERT's files are BERT's, but for the types of tokens.
  if (result.family == "bert" && result.token_types == 0) classifier.activation = Activation::relu;
  if (modern) classifier.activation = Activation::gelu;
  using Pooling = ClassifierConfig::Pooling;
  constexpr std::int64_t kMean = 1;
  constexpr std::int64_t kFirst = 2;
  constexpr std::int64_t kLast = 3;
  const std::int64_t usual = modern ? kMean : causal ? kLast : kFirst;
  switch (source.fields.integer_or("classifier.pooling_type", usual, kMean, kLast)) {
    case kMean: classifier.pooling = Pooling::mean; break;
    case kFirst: classifier.pooling = Pooling::first; break;
    default: classifier.pooling = Pooling::last; break;
  }
  result.encoder = true;
}

Classifier::Classifier(ParameterTree& tree, const DecoderConfig& config)
    : config_(config.classifier),
      has_dense_(!config.names.dense.empty()),
      has_output_(!config.names.classifier.empty()) {
  if (config_.labels == 0) return;
  if (has_dense_) {
    dense_ = Projection(tree, config.names.dense, config.hidden, has_output_ ? config.hidden : config_.labels,
                        config_.dense_bias);
  }
  norm_ = Norm(tree, config.names.dense_norm, config.hidden, config.norm);
  if (has_output_) output_ = Projection(tree, config.names.classifier, config.hidden, config_.labels, config_.bias);
}

Tensor Classifier::operator()(const Tensor& states) const {
  Tensor x;
  switch (config_.pooling) {
    case ClassifierConfig::Pooling::first: x = states.select(1, 0); break;
    case ClassifierConfig::Pooling::mean: x = states.mean(1); break;
    case ClassifierConfig::Pooling::last: x = states.select(1, states.size(1) - 1); break;
  }
  if (has_dense_) x = norm_(activate(config_.activation, dense_(x)));
  return has_output_ ? output_(x) : x;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
