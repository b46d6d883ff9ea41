// libcurl, opened when the first request is made: it brings 25 libraries (TLS, Kerberos, LDAP), 5 MB of every process,
// of which most download nothing. Its header says what the functions are, so that no number stands twice.
#pragma once

#include <span>
#include <string>

#include <curl/curl.h>

namespace lockstep {
inline namespace v0 {
namespace io {

struct Curl {
  decltype(&curl_easy_init) open = nullptr;
  decltype(&curl_easy_cleanup) close = nullptr;
  decltype(&curl_easy_setopt) set = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) get = nullptr;
  decltype(&curl_easy_strerror) describe = nullptr;
  decltype(&curl_slist_append) append = nullptr;
  decltype(&curl_slist_free_all) free_list = nullptr;
};

/// The first of these libraries that is there. IoError where none is, which says what to install.
Curl open_curl(std::span<const std::string> names);
/// That of the system, opened once in a process.
const Curl& curl();

}  // namespace io
}  // namespace v0
}  // namespace lockstep
