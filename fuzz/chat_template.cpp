// A chat template, and what it makes of a conversation.
#include <lockstep/text/chat_template.h>

#include "fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(chat_template) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const text::ChatTemplate chat(std::string_view(reinterpret_cast<const char*>(data), size), R"({"bos_token":"<s>"})");
    chat.apply_json(R"({"messages":[{"role":"user","content":"h\u00e9 \"1\""},{"role":"assistant","content":null,
                        "tool_calls":[{"function":{"name":"f","arguments":{"a":[1,2.5,true]}}}]}],"tools":[{"name":"f"}]})",
                    {.now = "2026-03-07"});
  });
}
