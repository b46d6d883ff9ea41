#include "cli/user_message.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

namespace {

// The length of a place in a source, `name.cpp:12`, with which `text` begins; 0 where it does not.
std::size_t length_of_place(std::string_view text) {
  for (std::size_t colon = text.rfind(':'); colon != text.npos; colon = text.rfind(':', colon - 1)) {
    const std::string_view name = text.substr(0, colon);
    const std::size_t end = std::min(text.find_first_not_of("0123456789", colon + 1), text.size());
    const bool is_source =
        name.ends_with(".cpp") || name.ends_with(".h") || name.ends_with(".hpp") || name.ends_with(".cc");
    if (is_source && end > colon + 1) return end;
    if (colon == 0) break;
  }
  return 0;
}

// ` at PLACE` in a line that names values by where they were made.
std::string without_places(std::string line) {
  const std::string_view before = " at ";
  for (std::size_t at = line.find(before); at != line.npos; at = line.find(before, at)) {
    const std::string_view behind = std::string_view(line).substr(at + before.size());
    const std::size_t length = length_of_place(behind.substr(0, behind.find(' ')));
    if (length > 0) {
      line.erase(at, before.size() + length);
    } else {
      ++at;
    }
  }
  return line;
}

}  // namespace

std::string without_sources(std::string_view message) {
  std::string result;
  for (std::size_t begin = 0; begin <= message.size();) {
    const std::string_view line = message.substr(begin, message.find('\n', begin) - begin);
    const std::string_view text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    const bool is_place = begin > 0 && text.starts_with("at ") && length_of_place(text) == text.size();
    if (!is_place) result += (begin > 0 ? "\n" : "") + without_places(std::string(line));
    begin += line.size() + 1;
  }
  return result;
}

std::string message_of_current_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory\n  fix: fewer or smaller files at a time, a smaller --batch or --batch-size, or more memory";
  } catch (const std::system_error& error) {
    return printable_lines(without_sources(std::string("the system refuses a thread or a lock: ") + error.what() +
                                           "\n  fix: a higher limit (ulimit -u, ulimit -v), or fewer --threads"));
  } catch (const std::exception& error) {
    return printable_lines(without_sources(error.what()));
  }
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
