#include "io/hub/curl.h"

#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

Curl open_curl(std::span<const std::string> names) {
  const os::SharedLibrary library(names);
  if (!library.is_open()) {
    throw IoError(
        fmt::format("downloads need libcurl, which cannot be opened: {}\n"
                    "  fix: install it (Debian and Ubuntu: apt install libcurl4)",
                    library.error()));
  }
  Curl curl;
  decltype(&curl_global_init) start = nullptr;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.function(name));
    if (function == nullptr) throw IoError(fmt::format("{} lacks {}: it is no libcurl", names.front(), name));
  };
  find("curl_global_init", start);
  find("curl_easy_init", curl.open);
  find("curl_easy_cleanup", curl.close);
  find("curl_easy_setopt", curl.set);
  find("curl_easy_perform", curl.perform);
  find("curl_easy_getinfo", curl.get);
  find("curl_easy_strerror", curl.describe);
  find("curl_slist_append", curl.append);
  find("curl_slist_free_all", curl.free_list);
  if (start(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw IoError("libcurl cannot be started");
  return curl;
}

const Curl& curl() {
  // Debian and Ubuntu build it with OpenSSL, and under another name with GnuTLS; the last is of macOS.
  static const std::vector<std::string> names{"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"};
  static const Curl opened = open_curl(names);
  return opened;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
