// Where somebody speaks. Usage: example_vad MODEL.onnx SOUND.wav [DEVICE]
// MODEL is silero_vad.onnx of the Python package silero-vad; the sound has 8000 or 16000 frames a second. The rules for
// where speech begins and ends are those of that package.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace ls = lockstep;
namespace {
constexpr double kWindow = 0.032;  // seconds that the model looks at; it sees a little of what came before, too

// How likely each window holds speech. The model carries a state from window to window.
std::vector<float> speech_probabilities(const ls::io::OnnxModel& model, const ls::io::Sound& sound) {
  const std::int64_t window = sound.rate == 16000 ? 512 : 256, before = window / 8;
  const std::int64_t windows = (sound.samples.size(1) + window - 1) / window;
  const ls::Tensor mono = sound.samples.narrow(0, 0, 1);
  const ls::Tensor samples = ls::cat({ls::zeros({1, before}), mono, ls::zeros({1, window})}, 1);
  const ls::Tensor rate = ls::Tensor::from(std::vector<std::int64_t>{sound.rate}, {}, model.device());
  ls::Tensor state = ls::zeros({2, 1, 128}, {.device = model.device()});
  std::vector<float> probabilities;
  for (std::int64_t i = 0; i < windows; ++i) {
    const ls::Tensor heard = samples.narrow(1, i * window, before + window);
    const auto answer = model.run({{"input", heard.to(model.device())}, {"state", state}, {"sr", rate}});
    probabilities.push_back(answer.at("output").item<float>());
    state = answer.at("stateN");
  }
  return probabilities;
}

struct Segment {
  double start, end;  // seconds
};
// Speech begins above 0.5 and ends after 0.1 s below 0.35; what is shorter than 0.25 s is none. 0.03 s are added
// around.
std::vector<Segment> segments_of(const std::vector<float>& probabilities) {
  std::vector<Segment> segments;
  double start = -1, quiet = -1;  // since when there is speech, and silence in it
  const double seconds = kWindow * static_cast<double>(probabilities.size());
  const auto close = [&](double end) {
    if (end - start > 0.25) segments.push_back({std::max(start - 0.03, 0.0), std::min(end + 0.03, seconds)});
    start = quiet = -1;
  };
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double now = static_cast<double>(i) * kWindow;
    if (probabilities[i] >= 0.5f) {
      if (start < 0) start = now;
      quiet = -1;
    } else if (start >= 0 && probabilities[i] < 0.35f) {
      if (quiet < 0) quiet = now;
      if (now - quiet >= 0.1) close(quiet);
    }
  }
  if (start >= 0) close(seconds);
  return segments;
}

void listen(int argc, char** argv) {
  const ls::io::Sound sound = ls::io::load_wav(argv[2]);
  if (sound.rate != 8000 && sound.rate != 16000) throw ls::ValueError("the sound needs 8000 or 16000 frames a second");
  const auto model = ls::io::load_onnx(argv[1], {.device = argc > 3 ? ls::Device::parse(argv[3]) : ls::Device{}});
  const ls::NoGrad no_grad;
  const std::vector<float> probabilities = speech_probabilities(*model, sound);
  for (const float p : probabilities) std::cout << " .:-=+*#%@"[std::min(static_cast<int>(p * 10), 9)];
  std::cout << '\n';
  for (const Segment& s : segments_of(probabilities)) std::printf("speech from %.2f s to %.2f s\n", s.start, s.end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::cerr << "usage: example_vad MODEL.onnx SOUND.wav [DEVICE]\n", 2;
  try {
    listen(argc, argv);
  } catch (const std::exception& error) {
    return std::cerr << error.what() << '\n', 1;
  }
}
