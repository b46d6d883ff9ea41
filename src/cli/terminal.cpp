#include "cli/terminal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

bool set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool terminal_is_dumb() {
  const char* const kind = std::getenv("TERM");
  return kind != nullptr && std::string_view(kind) == "dumb";
}

// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

Style::Style() : colour_(os::is_terminal(os::StandardStream::output) && !set("NO_COLOR") && !terminal_is_dumb()) {}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

namespace {

std::string without_controls(std::string_view text, bool keep_line_ends) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control_pair = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (control_pair) ++i;
    const bool control = control_pair || byte < 0x20 || byte == 0x7f;
    result += control && !(keep_line_ends && byte == '\n') ? '?' : text[i];
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) {
  return without_controls(text, false);
}
std::string printable_lines(std::string_view text) {
  return without_controls(text, true);
}

std::string size_text(std::uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

void print_line(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

void Table::print(const Style& style, std::string_view indent) const {
  std::vector<std::size_t> widths;
  for (const std::vector<Cell>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i].text));
  }
  for (const std::vector<Cell>& row : rows_) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i].text), ' ');
      const std::string text = row[i].style == nullptr ? row[i].text : (style.*row[i].style)(row[i].text);
      line += i == 0 ? "" : "  ";
      line += row[i].right ? padding + text : text;
      if (!row[i].right && i + 1 < row.size()) line += padding;
    }
    print_line(line);
  }
}

Progress::Progress(std::size_t total) : total_(total), enabled_(os::is_terminal(os::StandardStream::error)) {}

void Progress::show(std::size_t done) {
  if (!enabled_ || total_ < 2) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = std::min(kWidth, done * kWidth / total_);
  fmt::print(stderr, "\r\x1b[K[{:<30}] {} of {}", std::string(filled, '='), done, total_);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
