// The rules by which Whisper's decoder speaks: they are transformers' (WhisperForConditionalGeneration.generate).
#include <lockstep/models/speech.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/text/tokenizer.h>

#include "core/checked.h"
#include "io/json_fields.h"
#include "kernels/scalar.h"
#include "models/language/whisper.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// What tokens mean.
struct SpeechTokens {
  std::int64_t start = -1;
  std::int64_t end = -1;
  std::int64_t no_times = -1;  ///< those of times follow it
  std::optional<std::int64_t> transcribe, translate;
  std::map<std::string, std::int64_t> languages;  ///< "en"
  std::vector<std::int64_t> never, not_first;
  std::optional<std::int64_t> latest_first;  ///< the first time is at most so many steps late

  std::int64_t first_time() const { return no_times + 1; }
};

namespace {

constexpr std::int64_t kHopSamples = 160;
constexpr double kTimeStep = 0.02;  // seconds between two tokens of times
constexpr float kNever = -std::numeric_limits<float>::infinity();

// "<|en|>" is "en"; nothing for other tokens.
std::optional<std::string> language_of(const std::string& token) {
  if (!token.starts_with("<|") || !token.ends_with("|>") || token.size() < 6 || token.size() > 7) return std::nullopt;
  const std::string name = token.substr(2, token.size() - 4);
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return letters ? std::optional(name) : std::nullopt;
}

SpeechTokens read_tokens(const std::string& folder, const text::Tokenizer& tokenizer, std::int64_t vocabulary) {
  nlohmann::json document = nlohmann::json::object();
  const std::string path = folder + "/generation_config.json";
  if (std::filesystem::exists(path)) document = io::parse_json(os::map_file(path));
  const io::JsonFields config(document, path);
  const auto token = [&](const char* key, const char* name) {
    if (config.has(key)) return config.integer(key, 0, vocabulary - 1);
    const std::optional<std::int64_t> found = tokenizer.find(name);
    if (!found)
      throw FormatError(
          fmt::format("{}: there is neither \"{}\" in generation_config.json nor a token {}", folder, key, name));
    return *found;
  };
  const auto list = [&](const char* key) {
    std::vector<std::int64_t> result;
    if (!config.has(key)) return result;
    for (const nlohmann::json& item : config.array(key)) {
      if (!item.is_number_integer() || item.get<std::int64_t>() >= vocabulary) config.fail(key, "has what is no token");
      if (item.get<std::int64_t>() >= 0) result.push_back(item.get<std::int64_t>());
    }
    return result;
  };
  SpeechTokens result;
  result.start = token("decoder_start_token_id", "<|startoftranscript|>");
  result.end = token("eos_token_id", "<|endoftext|>");
  result.no_times = token("no_timestamps_token_id", "<|notimestamps|>");
  result.never = list("suppress_tokens");
  result.not_first = list("begin_suppress_tokens");
  if (config.has("max_initial_timestamp_index")) {
    result.latest_first = config.integer("max_initial_timestamp_index", 0, vocabulary);
  }
  if (!config.flag_or("is_multilingual", true)) return result;
  if (config.has("lang_to_id")) {
    const io::JsonFields languages = config.object("lang_to_id");
    for (const auto& [name, id] : languages.at_object().items()) {
      const std::optional<std::string> own = language_of(name);
      if (own) result.languages[*own] = languages.integer(name.c_str(), 0, vocabulary - 1);
    }
  } else {
    for (std::int64_t id = result.start + 1; id < result.no_times; ++id) {
      const std::optional<std::string> own = language_of(tokenizer.token(id).value_or(""));
      if (own) result.languages[*own] = id;
    }
  }
  if (result.languages.empty()) return result;
  if (config.has("task_to_id")) {
    const io::JsonFields tasks = config.object("task_to_id");
    result.transcribe = tasks.integer("transcribe", 0, vocabulary - 1);
    result.translate = tasks.integer("translate", 0, vocabulary - 1);
  } else {
    result.transcribe = tokenizer.find("<|transcribe|>");
    result.translate = tokenizer.find("<|translate|>");
  }
  return result;
}

void hide(std::vector<float>& logits, std::int64_t first, std::int64_t end) {
  first = std::clamp<std::int64_t>(first, 0, static_cast<std::int64_t>(logits.size()));
  end = std::clamp<std::int64_t>(end, first, static_cast<std::int64_t>(logits.size()));
  std::fill(logits.begin() + first, logits.begin() + end, kNever);
}

double log_sum(const std::vector<float>& logits, std::int64_t first, std::int64_t end) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = first; i < end; ++i)
    largest = std::max(largest, static_cast<double>(logits[static_cast<std::size_t>(i)]));
  if (largest == -std::numeric_limits<double>::infinity()) return largest;
  double sum = 0;
  for (std::int64_t i = first; i < end; ++i) {
    sum += scalar::ls_exp(static_cast<double>(logits[static_cast<std::size_t>(i)]) - largest);
  }
  return largest + scalar::ls_log(sum);
}

// Times come in pairs, do not go back, and come first; where they are more probable together than any text, one comes.
void hide_by_times(const SpeechTokens& tokens, const std::vector<std::int64_t>& said, std::vector<float>& logits) {
  const auto size = static_cast<std::int64_t>(logits.size());
  const std::int64_t times = tokens.first_time();
  hide(logits, tokens.no_times, tokens.no_times + 1);
  const auto is_time = [&](std::size_t from_end) {
    return said.size() >= from_end && said[said.size() - from_end] >= times;
  };
  const bool last = is_time(1);
  const bool before_last = said.size() < 2 || is_time(2);
  if (last && before_last) hide(logits, times, size);
  if (last && !before_last) hide(logits, 0, tokens.end);
  const auto latest = std::find_if(said.rbegin(), said.rend(), [&](std::int64_t token) { return token >= times; });
  if (latest != said.rend()) hide(logits, times, last && !before_last ? *latest : *latest + 1);
  if (said.empty()) {
    hide(logits, 0, times);
    if (tokens.latest_first) hide(logits, times + *tokens.latest_first + 1, size);
  }
  const double of_times = log_sum(logits, times, size);
  const float best = *std::max_element(logits.begin(), logits.begin() + times);
  if (of_times > static_cast<double>(best)) hide(logits, 0, times);
}

}  // namespace

struct SpeechModel::Parts {
  explicit Parts(text::Tokenizer own_tokenizer) : tokenizer(std::move(own_tokenizer)) {}

  std::unique_ptr<LanguageModel> model;
  const Whisper* network = nullptr;
  text::Tokenizer tokenizer;
  SpeechTokens tokens;
  Device device;

  std::vector<float> next(WhisperMemory& memory, const std::vector<std::int64_t>& ids) const {
    const auto length = static_cast<std::int64_t>(ids.size());
    const Tensor logits = network->decode(memory, Tensor::from(ids, {1, length}, device));
    return logits.select(0, 0).select(0, length - 1).to_vector<float>();
  }

  std::string spoken_language(WhisperMemory memory) const {
    const std::vector<float> logits = next(memory, {tokens.start});
    std::string best;
    float most = kNever;
    // The lower token of equal ones.
    std::map<std::int64_t, std::string> by_token;
    for (const auto& [name, id] : tokens.languages) by_token.emplace(id, name);
    for (const auto& [id, name] : by_token) {
      if (!best.empty() && logits[static_cast<std::size_t>(id)] <= most) continue;
      most = logits[static_cast<std::size_t>(id)];
      best = name;
    }
    return best;
  }

  struct Said {
    std::vector<std::int64_t> tokens;
    double log_probability = 0;
  };
  // What is said in a window, without the end.
  Said listen(WhisperMemory& memory, const std::string& language, const TranscribeOptions& options) const {
    std::vector<std::int64_t> ids = {tokens.start};
    if (!language.empty()) {
      ids.push_back(tokens.languages.at(language));
      if (tokens.transcribe && tokens.translate)
        ids.push_back(options.translate ? *tokens.translate : *tokens.transcribe);
    }
    if (!options.timestamps) ids.push_back(tokens.no_times);
    std::int64_t left = network->config().positions - static_cast<std::int64_t>(ids.size());
    Said said;
    double sum = 0;
    while (left-- > 0) {
      std::vector<float> logits = next(memory, ids);
      const double all = log_sum(logits, 0, static_cast<std::int64_t>(logits.size()));
      const std::vector<float> given = logits;
      if (said.tokens.empty()) {
        for (const std::int64_t token : tokens.not_first) logits[static_cast<std::size_t>(token)] = kNever;
      }
      for (const std::int64_t token : tokens.never) logits[static_cast<std::size_t>(token)] = kNever;
      if (options.timestamps) hide_by_times(tokens, said.tokens, logits);
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      sum += static_cast<double>(given[static_cast<std::size_t>(best)]) - all;
      said.log_probability = sum / static_cast<double>(said.tokens.size() + 1);
      if (best == tokens.end) break;
      said.tokens.push_back(best);
      ids = {best};
    }
    return said;
  }

  SpeechSegment segment(std::vector<std::int64_t> own, double start, double end, double log_probability) const {
    std::vector<std::int64_t> words;
    for (const std::int64_t token : own) {
      if (token < tokens.end) words.push_back(token);
    }
    return {start, end, tokenizer.decode(words, {.skip_special_tokens = true}), std::move(own), log_probability};
  }

  // Segments of a window that begins at `at` seconds and has `seconds` of sound; returns after how many seconds the
  // next one begins. What is not said to its end is heard again.
  double cut(const Said& said, bool times, double at, double seconds, std::vector<SpeechSegment>& segments) const {
    // A model that was not asked for times may name some nevertheless, which mean nothing.
    const auto is_time = [&](std::size_t i) { return times && said.tokens[i] >= tokens.first_time(); };
    const auto time = [&](std::size_t i) {
      return kTimeStep * static_cast<double>(said.tokens[i] - tokens.first_time());
    };
    const std::size_t size = said.tokens.size();
    const bool ends_with_one = size >= 2 && is_time(size - 1) && !is_time(size - 2);
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i < size; ++i) {
      if (is_time(i - 1) && is_time(i)) ends.push_back(i);
    }
    const auto part = [&](std::size_t first, std::size_t last) {
      return std::vector(said.tokens.begin() + static_cast<std::ptrdiff_t>(first),
                         said.tokens.begin() + static_cast<std::ptrdiff_t>(last));
    };
    if (ends.empty()) {
      double end = seconds;
      for (std::size_t i = 0; i < size; ++i) {
        if (is_time(i) && said.tokens[i] != tokens.first_time()) end = time(i);
      }
      if (size > 0) segments.push_back(segment(part(0, size), at, at + end, said.log_probability));
      return seconds;
    }
    if (ends_with_one) ends.push_back(size);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      segments.push_back(segment(part(begin, end), at + time(begin), at + time(end - 1), said.log_probability));
      begin = end;
    }
    return ends_with_one ? seconds : time(begin - 1);
  }
};

SpeechModel::SpeechModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SpeechModel::~SpeechModel() = default;
SpeechModel::SpeechModel(SpeechModel&&) noexcept = default;
SpeechModel& SpeechModel::operator=(SpeechModel&&) noexcept = default;

SpeechModel SpeechModel::load(const std::string& folder, Device device) {
  auto model = load_language_model(folder, device);
  const auto* network = dynamic_cast<const Whisper*>(model.get());
  if (network == nullptr) {
    throw ValueError(fmt::format("{}: a model of the family {} hears nothing; speech models are whisper's", folder,
                                 model->family()));
  }
  auto parts = std::make_unique<Parts>(text::Tokenizer::load(folder));
  parts->tokens = read_tokens(folder, parts->tokenizer, model->vocabulary());
  parts->network = network;
  parts->model = std::move(model);
  parts->device = device;
  return SpeechModel(std::move(parts));
}

std::vector<std::string> SpeechModel::languages() const {
  std::vector<std::string> result;
  for (const auto& [name, id] : parts_->tokens.languages) result.push_back(name);
  return result;
}

std::int64_t SpeechModel::window() const {
  return 2 * kHopSamples * parts_->network->config().frames;
}

Transcription SpeechModel::transcribe(const Tensor& samples, const TranscribeOptions& options,
                                      const std::function<bool(const SpeechSegment&)>& on_segment) const {
  if (samples.rank() != 1) {
    throw ShapeError(fmt::format("transcribe: samples have the shape {}, not [n]", samples.shape().to_string()));
  }
  const SpeechTokens& tokens = parts_->tokens;
  if (!options.language.empty() && !tokens.languages.contains(options.language)) {
    throw ValueError(
        fmt::format("transcribe: the model has no language {} (it has {})", in_quotes(options.language),
                    tokens.languages.empty() ? "one alone" : fmt::to_string(fmt::join(languages(), ", "))));
  }
  if (options.translate && !tokens.translate)
    throw ValueError("transcribe: the model of one language does not translate");
  const NoGrad no_grad;
  Transcription result{.language = options.language};
  const std::int64_t count = samples.size(0);
  const std::int64_t whole = window();
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t heard = std::min(whole, count - at);
    Tensor part = samples.narrow(0, at, heard).to(DType::f32).to(parts_->device);
    if (heard < whole) part = pad(part, {0, whole - heard});
    WhisperMemory memory = parts_->network->encode(log_mel(part, parts_->network->config().mels).unsqueeze(0));
    if (result.language.empty() && !tokens.languages.empty()) result.language = parts_->spoken_language(memory);
    const Parts::Said said = parts_->listen(memory, result.language, options);
    const double rate = kSpeechRate;
    std::vector<SpeechSegment> segments;
    const double next = parts_->cut(said, options.timestamps, static_cast<double>(at) / rate,
                                    static_cast<double>(heard) / rate, segments);
    for (SpeechSegment& segment : segments) {
      result.segments.push_back(std::move(segment));
      if (on_segment && !on_segment(result.segments.back())) return result;
    }
    const auto step = static_cast<std::int64_t>(next * rate + 0.5);
    at += step > 0 ? std::min(step, heard) : heard;
  }
  return result;
}

std::string Transcription::text() const {
  std::string result;
  for (const SpeechSegment& segment : segments) result += segment.text;
  return result;
}

std::vector<std::int64_t> Transcription::tokens() const {
  std::vector<std::int64_t> result;
  for (const SpeechSegment& segment : segments) {
    result.insert(result.end(), segment.tokens.begin(), segment.tokens.end());
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
