// The files of src/server/page, which are compiled into the command.
#pragma once

#include <span>
#include <string_view>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// index.html, page.css, page.js (cmake/EmbedTexts.cmake).
std::span<const std::string_view> embedded_texts();

/// The page at "/", and what it needs.
inline void add_page(HttpServer& server) {
  const std::span<const std::string_view> texts = embedded_texts();
  server.asset("/", "text/html; charset=utf-8", texts[0]);
  server.asset("/page.css", "text/css; charset=utf-8", texts[1]);
  server.asset("/page.js", "text/javascript; charset=utf-8", texts[2]);
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
