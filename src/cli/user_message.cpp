#include "cli/user_message.h"

#include <exception>
#include <new>
#include <regex>
#include <system_error>

#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::string without_sources(std::string_view message) {
  // A line of its own, or the end of one that names a value by where it was made.
  static const std::regex line(R"(\n *at [^\n]*\.(cpp|h|hpp|cc):[0-9]+(?=\n|$))");
  static const std::regex place(R"( at [^\n ]*\.(cpp|h|hpp|cc):[0-9]+)");
  return std::regex_replace(std::regex_replace(std::string(message), line, ""), place, "");
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
