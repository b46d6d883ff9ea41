// What the commands show to people: colours and a progress line only where somebody looks, aligned tables, and no
// control characters out of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Colours for standard output: on a terminal, unless the environment sets NO_COLOR or TERM=dumb.
class Style {
 public:
  Style();
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("31", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool colour_;
};

/// The text with control characters, and bytes that are no UTF-8, replaced by "?": a file cannot command the terminal.
std::string printable(std::string_view text);
/// The same for a text of several lines, which may have tabs: an answer of a model may be a Makefile.
std::string printable_lines(std::string_view text);
/// Bytes as people write them: "512 B", "1.4 MiB".
std::string size_text(std::uint64_t bytes);
/// A line to standard output.
void print_line(std::string_view text);

/// Columns as wide as their widest cell, two spaces apart. Colour a cell after its text is set: escapes do not count.
/// Where a terminal is too narrow, the columns that do not fit go on in the next line, further in, and a cell that does
/// not fit alone is cut in its middle.
class Table {
 public:
  struct Cell {
    std::string text;
    std::string (Style::*style)(std::string_view) const = nullptr;
    bool right = false;
  };
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  void print(const Style& style, std::string_view indent) const;
  /// The lines for a terminal of so many columns; 0: as many as are needed.
  std::vector<std::string> lines(const Style& style, std::string_view indent, std::size_t columns) const;

 private:
  std::vector<std::vector<Cell>> rows_;
};

/// A line on standard error that says how far the work is; nothing unless that is a terminal.
class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::size_t done);
  /// Removes the line, so that others can print.
  void clear();

 private:
  std::size_t total_;
  bool enabled_;
  bool shown_ = false;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
