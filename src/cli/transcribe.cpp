// `lockstep transcribe`: what is said in a sound file.
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include <lockstep/io/wav.h>
#include <lockstep/models/speech.h>
#include <lockstep/ops.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct TranscribeArguments {
  std::string model;
  std::string file;
  std::string language;
  std::string device = "best";
  std::string format = "text";
  bool as_json = false;
  bool translate = false;
  bool no_timestamps = false;
};

// "01:02:03,456"; WebVTT has a point.
std::string clock_text(double seconds, char point) {
  const auto all = static_cast<std::int64_t>(seconds * 1000 + 0.5);
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", all / 3'600'000, all / 60'000 % 60, all / 1000 % 60, point,
                     all % 1000);
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first);
}

void show(const TranscribeArguments& arguments, const models::SpeechSegment& segment, std::size_t number) {
  const std::string text = printable(trimmed(segment.text));
  if (arguments.format == "srt") {
    print_line(
        fmt::format("{}\n{} --> {}\n{}\n", number, clock_text(segment.start, ','), clock_text(segment.end, ','), text));
  } else if (arguments.format == "vtt") {
    print_line(fmt::format("{} --> {}\n{}\n", clock_text(segment.start, '.'), clock_text(segment.end, '.'), text));
  } else if (arguments.format == "text") {
    print_line(arguments.no_timestamps
                   ? text
                   : fmt::format("[{} --> {}] {}", clock_text(segment.start, '.'), clock_text(segment.end, '.'), text));
  }
  std::fflush(stdout);
}

void print_transcription_json(const models::Transcription& result, double seconds, Device device) {
  JsonArray segments;
  for (const models::SpeechSegment& segment : result.segments) {
    JsonArray tokens;
    for (const std::int64_t token : segment.tokens) tokens.add(json(token));
    segments.add(JsonObject()
                     .add("start", json(segment.start))
                     .add("end", json(segment.end))
                     .add("text", json(segment.text))
                     .add("tokens", tokens.text())
                     .add("log_probability", json(segment.log_probability))
                     .text());
  }
  const std::vector<std::int64_t> tokens = result.tokens();
  print_line(JsonObject()
                 .add("text", json(result.text()))
                 .add("language", json(result.language))
                 .add("segments", segments.text())
                 .add("seconds", json(seconds))
                 .add("device", json(device.to_string()))
                 .add("tokens_hash", json(hex(Tensor::from(tokens, {static_cast<std::int64_t>(tokens.size())}).hash())))
                 .text());
}

ExitCode transcribe(const TranscribeArguments& arguments) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  if (arguments.no_timestamps && (arguments.format == "srt" || arguments.format == "vtt")) {
    throw UsageError("--format srt and vtt are nothing but times");
  }
  const Device device = chosen_device(arguments.device);
  const io::Sound sound = io::load_wav(arguments.file);
  const models::SpeechModel model = models::SpeechModel::load(fetched_model(arguments.model), device);
  const Tensor samples = models::resample(sound.samples, sound.rate);
  const double seconds = static_cast<double>(samples.size(0)) / models::kSpeechRate;
  const os::StopRequest stop("");
  const auto start = std::chrono::steady_clock::now();
  if (arguments.format == "vtt") print_line("WEBVTT\n");
  std::optional<Progress> progress;
  if (arguments.format == "json") progress.emplace(static_cast<std::size_t>(seconds * 100 + 1));
  std::size_t number = 0;
  const models::Transcription result = model.transcribe(
      samples,
      {.language = arguments.language, .translate = arguments.translate, .timestamps = !arguments.no_timestamps},
      [&](const models::SpeechSegment& segment) {
        show(arguments, segment, ++number);
        if (progress) progress->show(static_cast<std::size_t>(segment.end * 100));
        return stop.signal() == 0;
      });
  if (progress) progress->clear();
  if (arguments.format == "json") {
    print_transcription_json(result, seconds, device);
  } else {
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print(stderr, "{}{:.1f} s of sound in {:.1f} s, {}\n", result.language.empty() ? "" : result.language + ", ",
               seconds, took, size_text(os::resident_bytes()));
  }
  if (stop.signal() == 0) return kOk;
  fmt::print(stderr, "interrupted: this is the result so far\n");
  return kFailure;
}

}  // namespace

void add_transcribe(CommandLine& line) {
  Subcommand command = line.subcommand("transcribe", "Write down what is said in a sound file");
  const auto arguments = std::make_shared<TranscribeArguments>();
  command.option("--model", arguments->model, "A folder with a Whisper model of Hugging Face, or hf:OWNER/NAME")
      .required();
  command.option("FILE", arguments->file, "A WAV file of any rate").required();
  command.option("--language", arguments->language, "en, de, ...; absent: the one that is heard at the beginning");
  command.flag("--translate", arguments->translate, "Into English");
  command.flag("--no-timestamps", arguments->no_timestamps,
               "Do not ask the model for times: windows follow each other");
  command.option("--format", arguments->format, "text, srt and vtt (subtitles), or json")
      .one_of({"text", "srt", "vtt", "json"})
      .show_default();
  command.flag("--json", arguments->as_json, "The same as --format json");
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.footer(
      "Example: lockstep transcribe --model hf:openai/whisper-tiny --language en talk.wav\n"
      "The most probable token is taken each time; the same sound gives the same text on every device.");
  command.runs([arguments] {
    if (arguments->as_json) arguments->format = "json";
    return transcribe(*arguments);
  });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
