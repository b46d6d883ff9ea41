#include "server/guard.h"

#include <algorithm>
#include <cctype>

namespace lockstep {
inline namespace v0 {
namespace server {

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // 127.0.0.0/8, in digits and points only: a name may stand for anything.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool names_this_machine(std::string_view host) {
  std::string_view name = host;
  if (name.starts_with('[')) {
    const std::size_t end = name.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = name.substr(end + 1);
    return name.substr(1, end - 1) == "::1" && (rest.empty() || rest.starts_with(':'));
  }
  name = name.substr(0, name.find(':'));
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return is_loopback(lower) && lower != "::1";
}

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned different = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
  }
  return different == 0;
}

std::string printable_header(std::string_view text) {
  constexpr std::size_t kMost = 100;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
