#include <lockstep/models/speech.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/wav.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/language.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

using test::message_of;
using testing::HasSubstr;

// Made by tools/make_whisper_goldens.py.
const std::filesystem::path kWhisperGoldens =
    std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/language/whisper";

std::filesystem::path whisper_weights() {
  return test::test_data("lm") / "whisper";
}

// The tiny random model with a tokenizer and its special tokens.
SpeechModel tiny_whisper(const test::TemporaryFolder& folder) {
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(whisper_weights() / name, folder.path(name));
  }
  for (const char* name : {"tokenizer.json", "generation_config.json"}) {
    std::filesystem::copy_file(kWhisperGoldens / name, folder.path(name));
  }
  return SpeechModel::load(folder.path(""));
}

Tensor sound_samples() {
  return resample(io::load_wav((kWhisperGoldens / "sound.wav").string()).samples, 16'000);
}

TEST(LogMel, IsThatOfTransformers) {
  // Its two ways of computing them, by NumPy and by PyTorch, are 2.1e-5 apart for this sound.
  constexpr float kClose = 4e-5F;
  const io::TensorMap golden = io::load_weights((kWhisperGoldens / "features.safetensors").string());
  const Tensor samples = sound_samples();
  const auto farthest = [](const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item<float>(); };
  const Tensor window = samples.narrow(0, 0, 16'000);
  EXPECT_LE(farthest(log_mel(window), golden.at("window")), kClose);
  EXPECT_LE(farthest(log_mel(window, 128), golden.at("window_128")), kClose);
  EXPECT_LE(farthest(log_mel(pad(samples.narrow(0, 16'000, 8'000), {0, 8'000})), golden.at("rest")), kClose);
  EXPECT_EQ(log_mel(window.to(Device::parse("ref"))).hash(), log_mel(window).hash());
  EXPECT_THROW(log_mel(samples.narrow(0, 0, 161)), ShapeError);
  EXPECT_THROW(log_mel(window, 0), ValueError);
}

TEST(Resample, KeepsATone) {
  for (const auto& [from, to] : {std::pair(8'000, 16'000), std::pair(44'100, 16'000), std::pair(48'000, 16'000),
                                 std::pair(22'050, 16'000), std::pair(22'051, 16'000)}) {
    const auto tone = [](int rate, double hertz) {
      std::vector<float> values;
      for (int i = 0; i < rate / 4; ++i)
        values.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * hertz * i / rate)));
      return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
    };
    const Tensor result = resample(tone(from, 440), from, to);
    const Tensor expected = tone(to, 440);
    EXPECT_NEAR(static_cast<double>(result.size(0)), to / 4.0, 1);
    const auto middle = [](const Tensor& x) { return x.narrow(0, 200, 3'500); };
    EXPECT_LE(amax(abs(middle(result) - middle(expected))).item<float>(), 2e-3F) << from;
    // What the new rate cannot hold is gone.
    if (from > to) {
      EXPECT_LE(amax(abs(middle(resample(tone(from, 9'500), from, to)))).item<float>(), 6e-2F) << from;
    }
  }
  // Rates without a common divisor: as many kernels as there are results, each as long as it has to be.
  EXPECT_EQ(resample(ones(1'000), 999'983, 16'000).size(0), 17);
  EXPECT_EQ(resample(ones(2), 7, 999'983).size(0), 285'710);
  const Tensor stereo = Tensor::from(std::vector<float>{1, 2, 3, 5}, {2, 2});
  EXPECT_EQ(resample(stereo, 16'000, 16'000).to_vector<float>(), (std::vector<float>{2, 3.5F}));
  EXPECT_THROW(resample(stereo, 0, 1), ValueError);
}

TEST(Speech, SaysTheTokensOfTransformers) {
  LOCKSTEP_REQUIRE_DATA(whisper_weights());
  const test::TemporaryFolder folder;
  const SpeechModel model = tiny_whisper(folder);
  EXPECT_EQ(model.window(), 16'000);
  EXPECT_EQ(model.languages(), (std::vector<std::string>{"de", "en", "fr"}));
  const auto golden = nlohmann::json::parse(test::read_whole_file(kWhisperGoldens / "tokens.json"));
  const Tensor samples = sound_samples();
  const std::map<std::string, TranscribeOptions> settings = {{"detect", {}},
                                                             {"english", {.language = "en"}},
                                                             {"german", {.language = "de"}},
                                                             {"translate", {.language = "fr", .translate = true}}};
  for (const auto& [name, given] : settings) {
    for (const bool times : {false, true}) {
      TranscribeOptions options = given;
      options.timestamps = times;
      const auto rows = golden.at(name + (times ? "_times" : "")).get<std::vector<std::vector<std::int64_t>>>();
      for (const int window : {0, 1}) {
        const Tensor part = window == 0 ? samples.narrow(0, 0, 16'000) : samples.narrow(0, 16'000, 8'000);
        // The first tokens are what the decoder is given: start, language, task, and whether there are times.
        const std::vector<std::int64_t>& row = rows[static_cast<std::size_t>(window)];
        std::vector<std::int64_t> expected(row.begin() + (times ? 3 : 4), row.end());
        // Of what is said with times, that up to the last pair of them stays; the rest is heard again.
        constexpr std::int64_t kFirstTime = 205;
        for (std::size_t i = expected.size() - 1; times && i > 0; --i) {
          if (expected[i - 1] < kFirstTime || expected[i] < kFirstTime) continue;
          expected.resize(i);
          break;
        }
        std::vector<std::int64_t> said;
        const Transcription result = model.transcribe(part, options, [&](const SpeechSegment& segment) {
          said.insert(said.end(), segment.tokens.begin(), segment.tokens.end());
          return said.size() < expected.size();
        });
        EXPECT_EQ(said, expected) << name << " " << times << " " << window;
        if (name == "detect") {
          EXPECT_EQ(result.language, "en");
        }
      }
    }
  }
}

TEST(Speech, WindowsFollowEachOther) {
  LOCKSTEP_REQUIRE_DATA(whisper_weights());
  const test::TemporaryFolder folder;
  const SpeechModel model = tiny_whisper(folder);
  const Tensor samples = sound_samples();
  const Transcription whole = model.transcribe(samples, {.language = "en", .timestamps = false});
  ASSERT_EQ(whole.segments.size(), 2U);
  EXPECT_EQ(whole.segments[0].start, 0);
  EXPECT_EQ(whole.segments[0].end, 1);
  EXPECT_EQ(whole.segments[1].start, 1);
  EXPECT_EQ(whole.segments[1].end, 1.5);
  const Transcription second =
      model.transcribe(samples.narrow(0, 16'000, 8'000), {.language = "en", .timestamps = false});
  EXPECT_EQ(whole.segments[1].tokens, second.segments[0].tokens);
  EXPECT_EQ(whole.text(), whole.segments[0].text + whole.segments[1].text);
  EXPECT_TRUE(model.transcribe(samples.narrow(0, 0, 0)).segments.empty());
}

TEST(Speech, RefusesWhatTheModelDoesNotHave) {
  LOCKSTEP_REQUIRE_DATA(whisper_weights());
  const test::TemporaryFolder folder;
  const SpeechModel model = tiny_whisper(folder);
  EXPECT_THAT(message_of<ValueError>([&] { model.transcribe(sound_samples(), {.language = "xx"}); }),
              HasSubstr("de, en, fr"));
  EXPECT_THROW(model.transcribe(zeros({2, 100})), ShapeError);
  EXPECT_THAT(message_of<ValueError>([&] { SpeechModel::load((test::test_data("lm") / "llama").string()); }),
              HasSubstr("llama"));
}

}  // namespace
}  // namespace lockstep::models
