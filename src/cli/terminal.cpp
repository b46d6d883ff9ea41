#include "cli/terminal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "core/os.h"
#include "core/utf8.h"

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

// C0, DEL and C1; what ends lines; and what turns the direction of a text, so that it reads as another.
bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string without_controls(std::string_view text, bool keep_lines) {
  std::string result;
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    if (next.valid && (!is_control(next.code) || (keep_lines && (next.code == '\n' || next.code == '\t')))) {
      result += text.substr(0, next.bytes);
    } else {
      result.append(next.valid ? 1 : next.bytes, '?');
    }
    text.remove_prefix(next.bytes);
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

namespace {

constexpr std::size_t kBetween = 2;  // columns of a table
constexpr std::string_view kFurtherIn = "    ";

// The text with its middle left out, so that it takes `most` columns. What tells tensors and files apart stands at both ends.
std::string shortened(const std::string& text, std::size_t most) {
  if (width(text) <= most) return text;
  std::vector<std::string_view> characters;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(characters.back().size())) {
    characters.push_back(rest.substr(0, first_character(rest).bytes));
  }
  const std::size_t kept = most > 0 ? most - 1 : 0;
  std::string result;
  for (std::size_t i = 0; i < kept / 2; ++i) result += characters[i];
  result += "\xe2\x80\xa6";  // an ellipsis
  for (std::size_t i = characters.size() - (kept - kept / 2); i < characters.size(); ++i) result += characters[i];
  return result;
}

}  // namespace

std::vector<std::string> Table::lines(const Style& style, std::string_view indent, std::size_t columns) const {
  const std::size_t all = columns == 0 ? ~std::size_t{0} : columns;
  const std::size_t room = all > indent.size() + kFurtherIn.size() + 8 ? all - indent.size() - kFurtherIn.size() : 8;
  std::vector<std::size_t> widths;
  for (const std::vector<Cell>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], std::min(width(row[i].text), room));
  }
  // Where a line begins: the same columns in each row.
  std::vector<bool> begins(widths.size(), false);
  std::size_t used = indent.size();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (i > 0) used += kBetween;
    used += widths[i];
    if (i == 0 || used <= all) continue;
    begins[i] = true;
    used = indent.size() + kFurtherIn.size() + widths[i];
  }
  std::vector<std::string> result;
  for (const std::vector<Cell>& row : rows_) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (begins[i]) {
        result.push_back(std::move(line));
        line = std::string(indent) + std::string(kFurtherIn);
      }
      const std::string shown = shortened(row[i].text, widths[i]);
      const std::string padding(widths[i] - width(shown), ' ');
      const std::string text = row[i].style == nullptr ? shown : (style.*row[i].style)(shown);
      if (i > 0 && !begins[i]) line += std::string(kBetween, ' ');
      line += row[i].right ? padding + text : text;
      if (!row[i].right && i + 1 < row.size() && !begins[i + 1]) line += padding;
    }
    result.push_back(std::move(line));
  }
  return result;
}

void Table::print(const Style& style, std::string_view indent) const {
  const int columns = os::terminal_columns(os::StandardStream::output, 0);
  for (const std::string& line : lines(style, indent, static_cast<std::size_t>(columns))) print_line(line);
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
