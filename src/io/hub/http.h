// One request over HTTP(S), by libcurl: what came back, or why nothing whole did. Whether to try again is the caller's
// business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace io {

struct HttpRequest {
  std::string url;
  std::vector<std::string> fields;  ///< "Name: value"
  bool head_only = false;           ///< HEAD, and no redirection is followed
  std::uint64_t from = 0;           ///< of a GET: the bytes from here on
};

struct HttpResponse {
  long status = 0;                            ///< 0: there was none
  std::map<std::string, std::string> fields;  ///< names in lower case; of the last answer, behind redirections
  std::string problem;                        ///< empty unless the answer is not whole
  std::string field(const std::string& name) const;
};

/// `body` gets the bytes of an answer as they come, with its status and fields; false ends the request. Follows up to
/// five redirections of a GET, from https to https only. What `body` throws passes through.
HttpResponse send(const HttpRequest& request,
                  const std::function<bool(const HttpResponse&, std::span<const std::byte>)>& body = {});

}  // namespace io
}  // namespace v0
}  // namespace lockstep
