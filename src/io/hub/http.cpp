#include "io/hub/http.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "io/hub/curl.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr long kConnectSeconds = 20;
constexpr long kStallSeconds = 30;  ///< without a byte

using Body = std::function<bool(const HttpResponse&, std::span<const std::byte>)>;

// What libcurl's callbacks need. No exception may pass through C.
struct Exchange {
  HttpResponse response;
  const Body* body = nullptr;
  std::exception_ptr thrown;
};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::size_t on_field(char* data, std::size_t, std::size_t bytes, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  try {
    const std::string_view line(data, bytes);
    if (line.starts_with("HTTP/")) {  // another answer, behind a redirection
      exchange.response.fields.clear();
      return bytes;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return bytes;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    exchange.response.fields[name] = std::string(trimmed(line.substr(colon + 1)));
    return bytes;
  } catch (...) {
    exchange.thrown = std::current_exception();
    return 0;
  }
}

struct CloseHandle {
  void operator()(CURL* handle) const { curl().close(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl().free_list(list); }
};
using Handle = std::unique_ptr<CURL, CloseHandle>;

struct Transfer {
  Exchange exchange;
  CURL* handle = nullptr;
};

std::size_t on_body(char* data, std::size_t, std::size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  Exchange& exchange = transfer.exchange;
  try {
    curl().get(transfer.handle, CURLINFO_RESPONSE_CODE, &exchange.response.status);
    if (exchange.body == nullptr || !*exchange.body) return bytes;
    return (*exchange.body)(exchange.response, {reinterpret_cast<const std::byte*>(data), bytes}) ? bytes : 0;
  } catch (...) {
    exchange.thrown = std::current_exception();
    return 0;
  }
}

Handle new_handle() {
  Handle handle(curl().open());
  if (!handle) throw IoError("libcurl makes no request");
  return handle;
}

}  // namespace

std::string HttpResponse::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string() : found->second;
}

HttpResponse send(const HttpRequest& request, const Body& body) {
  const Handle handle = new_handle();
  Transfer transfer;
  transfer.exchange.body = &body;
  transfer.handle = handle.get();
  char reason[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, FreeList> fields;
  for (const std::string& field : request.fields) fields.reset(curl().append(fields.release(), field.c_str()));
  const auto set = [&](CURLoption option, auto value) { curl().set(handle.get(), option, value); };
  const bool secure = request.url.starts_with("https:");
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_HTTPHEADER, fields.get());
  set(CURLOPT_USERAGENT, "lockstep");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, request.head_only ? 0L : 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_NOBODY, request.head_only ? 1L : 0L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_HEADERFUNCTION, on_field);
  set(CURLOPT_HEADERDATA, &transfer.exchange);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &transfer);
  const std::string range = fmt::format("{}-", request.from);
  if (request.from > 0) set(CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl().perform(handle.get());
  Exchange& exchange = transfer.exchange;
  if (exchange.thrown) std::rethrow_exception(exchange.thrown);
  curl().get(handle.get(), CURLINFO_RESPONSE_CODE, &exchange.response.status);
  if (code != CURLE_OK) exchange.response.problem = *reason != '\0' ? reason : curl().describe(code);
  return exchange.response;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
