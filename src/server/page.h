// The files of src/server/page, which are compiled into the command.
#pragma once

#include <span>
#include <string_view>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// index.html, page.css, page.js, chat.html, chat.css, chat.js (cmake/EmbedTexts.cmake).
std::span<const std::string_view> embedded_texts();

/// The page to click on at "/" (`pictures`), and the one to chat on at "/chat" (`chat`), which without the other is at "/",
/// too; and what they need.
inline void add_pages(HttpServer& server, bool pictures, bool chat) {
  const std::span<const std::string_view> texts = embedded_texts();
  constexpr const char* kHtml = "text/html; charset=utf-8";
  constexpr const char* kCss = "text/css; charset=utf-8";
  constexpr const char* kScript = "text/javascript; charset=utf-8";
  if (pictures || chat) {
    server.asset("/", kHtml, pictures ? texts[0] : texts[3]);
    server.asset("/page.css", kCss, texts[1]);
  }
  if (pictures) server.asset("/page.js", kScript, texts[2]);
  if (!chat) return;
  server.asset("/chat", kHtml, texts[3]);
  server.asset("/chat.css", kCss, texts[4]);
  server.asset("/chat.js", kScript, texts[5]);
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
