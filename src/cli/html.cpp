#include "cli/html.h"

#include <algorithm>
#include <cstdint>

#include "cli/terminal.h"
#include "io/image_codec.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string escaped_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += escaped(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < count ? std::to_integer<std::uint32_t>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string data_uri(const io::Image& image) {
  return "data:image/png;base64," + base64(io::encode_png(image));
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
