#include <lockstep/train/progress.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBarWidth = 24;

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::min(std::max(seconds, 0.0), 3.6e7) + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// "  name value" for what was measured.
std::string loss_text(const char* name, double value) {
  return std::isnan(value) ? "" : fmt::format("  {} {:.4f}", name, value);
}
std::string accuracy_text(const char* name, double value) {
  return std::isnan(value) ? "" : fmt::format("  {} {:.2f} %", name, 100 * value);
}
std::string speed_text(double value) {
  return std::isnan(value) ? "" : fmt::format("  {:.0f} samples/s", value);
}

}  // namespace

std::string progress_line(const Progress& progress, int columns) {
  const std::int64_t batches = std::max<std::int64_t>(progress.batches, 1);
  const auto filled =
      static_cast<std::size_t>(std::clamp<std::int64_t>(progress.batch * kBarWidth / batches, 0, kBarWidth));
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  std::string line = fmt::format("epoch {}/{}", progress.epoch, progress.epochs);
  const std::vector<std::string> parts{
      fmt::format(" [{:<{}}] {:3} %", bar, kBarWidth, 100 * progress.batch / batches),
      loss_text("loss", progress.loss),
      accuracy_text("accuracy", progress.accuracy),
      speed_text(progress.samples_per_second),
      std::isnan(progress.seconds_left) ? "" : fmt::format("  {} left", duration(progress.seconds_left)),
  };
  for (const std::string& part : parts) {
    if (line.size() + part.size() > static_cast<std::size_t>(std::max(columns, 0))) break;
    line += part;
  }
  return line;
}

std::string epoch_line(const Progress& progress, const Record& test, double seconds) {
  return fmt::format("epoch {}/{}{}{}{}{}{}  {}", progress.epoch, progress.epochs, loss_text("loss", progress.loss),
                     accuracy_text("accuracy", progress.accuracy), loss_text("test loss", test.loss),
                     accuracy_text("test accuracy", test.accuracy), speed_text(progress.samples_per_second),
                     duration(seconds));
}

ProgressBar::ProgressBar() : terminal_(os::is_terminal(os::StandardStream::error)), last_(Clock::now()) {}
ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::show(const Progress& progress) {
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  const Clock::time_point now = Clock::now();
  if (now - last_ < pause) return;
  last_ = now;
  if (!terminal_) {
    fmt::print(stderr, "{}\n", progress_line(progress, 1000));
    return;
  }
  // One column less: some terminals wrap after the last.
  fmt::print(stderr, "\r\x1b[K{}", progress_line(progress, os::terminal_columns(os::StandardStream::error, 80) - 1));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::end_epoch(const Progress& progress, const Record& test, double seconds) {
  clear();
  fmt::print(stderr, "{}\n", epoch_line(progress, test, seconds));
  last_ = Clock::now();
}

void ProgressBar::clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
