// Speech to text by Whisper: sound to features, windows, the tokens that steer the decoder, and what was said when.
// "Robust Speech Recognition via Large-Scale Weak Supervision", Radford et al., 2022.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/device.h>
#include <lockstep/export.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// The rate of samples that speech models hear.
inline constexpr int kSpeechRate = 16'000;

/// Samples [n] or [channels, n] (channels are averaged) at another rate, f32 [n'] on the CPU: windowed sinc, on the
/// host. ValueError for rates out of range.  torchaudio: functional.resample with its defaults.
LOCKSTEP_API Tensor resample(const Tensor& samples, int from, int to = kSpeechRate);

/// Log-mel features [mels, samples / 160] of samples f32 [n] at 16 kHz, n a multiple of 160: windows of 25 ms each 10
/// ms. On the samples' device.  transformers: WhisperFeatureExtractor, without its padding to 30 s.
LOCKSTEP_API Tensor log_mel(const Tensor& samples, std::int64_t mels = 80);

struct TranscribeOptions {
  std::string language = {};  ///< "en"; empty: the most probable one, by the first window.
  bool translate = false;     ///< Into English.
  bool timestamps = true;     ///< Ask the model when things were said; windows then begin where it has stopped.
};

/// Something that was said.
struct SpeechSegment {
  double start = 0;  ///< Seconds.
  double end = 0;
  std::string text;
  std::vector<std::int64_t> tokens;  ///< With those of times.
  double log_probability = 0;        ///< Mean of its window's tokens.
};

/// What was said in a sound.
struct Transcription {
  std::string language;  ///< Empty for models of one language.
  std::vector<SpeechSegment> segments;

  std::string text() const;
  std::vector<std::int64_t> tokens() const;
};

/// A Whisper model with its tokenizer and its special tokens.
class LOCKSTEP_API SpeechModel {
 public:
  /// A folder of Hugging Face: config.json, model.safetensors, tokenizer.json, and generation_config.json, which says
  /// what special tokens there are (without it they are looked up by their names). Throws like load_language_model,
  /// ValueError for models of another family.
  static SpeechModel load(const std::string& folder, Device device = {});
  ~SpeechModel();
  SpeechModel(SpeechModel&&) noexcept;
  SpeechModel& operator=(SpeechModel&&) noexcept;

  /// Takes the most probable token each time, as transformers does without temperatures. `on_segment` (if there is one)
  /// is called with each segment; it returns false to stop. `samples` f32 [n] at 16 kHz. ValueError for a language that
  /// the model does not have, or a translation by a model of one language.
  Transcription transcribe(const Tensor& samples, const TranscribeOptions& options = {},
                           const std::function<bool(const SpeechSegment&)>& on_segment = {}) const;
  /// Languages that it has: "en", "de". Empty for a model of one.
  std::vector<std::string> languages() const;
  /// Samples of a window.
  std::int64_t window() const;

 private:
  struct Parts;
  explicit SpeechModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
