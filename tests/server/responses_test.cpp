// /v1/responses: what is asked in terms of a chat, and the events of an answer.
#include "server/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/http_client.h"
#include "support/served_stories.h"

namespace lockstep::server {
namespace {

using nlohmann::json;
using test::stories;
using test::Told;
using testing::HasSubstr;

std::string chat_of(const std::string& asked) {
  return text_of(chat_request_of(Json::parse(asked)));
}

TEST(Responses, AreAskedForAsChatsAre) {
  EXPECT_EQ(
      chat_of(R"({"model":"m","input":"Hi","max_output_tokens":5,"temperature":0.5,"stream":true,"store":false})"),
      R"({"model":"m","max_tokens":5,"temperature":0.5,"stream":true,"store":false,)"
      R"("messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(
      chat_of(
          R"({"input":[{"role":"user","content":[{"type":"input_text","text":"H"},{"type":"input_text","text":"i"}]}],
                        "instructions":"Be short.","previous_response_id":null,"truncation":"disabled",
                        "reasoning":{"effort":"low","summary":null},"include":["reasoning.encrypted_content"],
                        "text":{"format":{"type":"json_schema","name":"s","schema":{"type":"integer"}}}})"),
      R"({"reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":)"
      R"({"type":"json_schema","name":"s","schema":{"type":"integer"}}},)"
      R"("messages":[{"role":"system","content":"Be short."},{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(chat_of(R"({"input":"a","tools":[{"type":"function","name":"f","parameters":{}}],
                        "tool_choice":{"type":"function","name":"f"}})"),
            R"({"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],)"
            R"("tool_choice":{"type":"function","function":{"name":"f"}},"messages":[{"role":"user","content":"a"}]})");
}

// Thoughts, a message and calls that follow each other are one message of the assistant.
TEST(Responses, ItemsAreMessages) {
  EXPECT_EQ(
      chat_of(R"({"input":[{"role":"user","content":"u"},
        {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
        {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I ask.","annotations":[]}]},
        {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
        {"type":"function_call","call_id":"2","name":"g","arguments":"{}"},
        {"type":"function_call_output","call_id":"1","output":"one"},
        {"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"two"}]},
        {"type":"message","role":"assistant","content":"Done."},{"role":"assistant","content":"So."}]})"),
      R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"I ask.","reasoning_content":"Hm",)"
      R"("tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"},"id":"1"},)"
      R"({"type":"function","function":{"name":"g","arguments":"{}"},"id":"2"}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"one","name":"f"},)"
      R"({"role":"tool","tool_call_id":"2","content":"two","name":"g"},)"
      R"({"role":"assistant","content":"Done."},{"role":"assistant","content":"So."}]})");
}

TEST(Responses, SayWhatIsNotOffered) {
  for (const char* asked : {R"({})",
                            R"({"input":3})",
                            R"({"input":[3]})",
                            R"({"input":[{"type":"item_reference","id":"1"}]})",
                            R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
                            R"({"input":[{"role":"user"}]})",
                            R"({"input":[{"content":"a"}]})",
                            R"({"input":[{"type":"function_call","name":"f","arguments":"{}"}]})",
                            R"({"input":"a","instructions":3})",
                            R"({"input":"a","previous_response_id":"resp_1"})",
                            R"({"input":"a","conversation":"c"})",
                            R"({"input":"a","truncation":"auto"})",
                            R"({"input":"a","background":true})",
                            R"({"input":"a","n":2})",
                            R"({"input":"a","messages":[]})",
                            R"({"input":"a","max_tokens":3})",
                            R"({"input":"a","text":"b"})",
                            R"({"input":"a","text":{"verbosity":"low"}})",
                            R"({"input":"a","include":["message.output_text.logprobs"]})",
                            R"({"input":"a","tools":[{"type":"web_search"}]})",
                            R"({"input":"a","tools":{}})",
                            R"({"input":"a","tool_choice":{"type":"mcp"}})"}) {
    EXPECT_THROW(chat_request_of(Json::parse(asked)), HttpError) << asked;
  }
}

TEST(Responses, AnAnswerIsItemsWithEvents) {
  std::string told;
  Json last;
  ResponseOutput output("resp-1", [&](const std::string& type, Json event) {
    told += type.substr(std::string_view("response.").size()) + "\n";
    last = std::move(event);
  });
  output.add(Json::parse(R"({"reasoning_content":"Hm"})"));
  output.add(Json::parse(R"({"reasoning_content":".","content":"I "})"));
  output.add(Json::parse(R"({})"));
  output.add(Json::parse(R"({"content":"ask.","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]})"));
  EXPECT_EQ(
      text_of(last),
      R"({"output_index":2,"item":{"type":"function_call","arguments":"{}","id":"fc_resp-1_2","status":"completed",)"
      R"("call_id":"c","name":"f"}})");
  output.add(Json::parse(R"({"content":"And"})"));
  EXPECT_EQ(text_of(last),
            R"({"output_index":3,"item_id":"msg_resp-1_3","content_index":0,"delta":"And","logprobs":[]})");
  output.close("incomplete");
  output.close("completed");
  EXPECT_EQ(told,
            "output_item.added\ncontent_part.added\nreasoning_text.delta\nreasoning_text.delta\nreasoning_text.done\n"
            "content_part.done\noutput_item.done\noutput_item.added\ncontent_part.added\noutput_text.delta\n"
            "output_text.delta\noutput_text.done\ncontent_part.done\noutput_item.done\n"
            "output_item.added\nfunction_call_arguments.delta\nfunction_call_arguments.done\noutput_item.done\n"
            "output_item.added\ncontent_part.added\noutput_text.delta\noutput_text.done\ncontent_part.done\n"
            "output_item.done\n");
  EXPECT_EQ(output.items()[0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(output.items()[1]["content"][0]["text"], "I ask.");
  EXPECT_EQ(output.items()[1]["status"], "completed");
  EXPECT_EQ(output.items()[3]["status"], "incomplete");
}

TEST(LanguageService, AnswersAResponseAsAChat) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  json body = {{"input", "Tom had a"}, {"seed", 3}, {"max_output_tokens", 12}};
  const json whole = told.post("/v1/responses", body).json();
  const json chat =
      told.post("/v1/chat/completions",
                {{"messages", {{{"role", "user"}, {"content", "Tom had a"}}}}, {"seed", 3}, {"max_tokens", 12}})
          .json();
  EXPECT_EQ(whole.at("tokens_hash"), chat.at("choices").at(0).at("tokens_hash"));
  EXPECT_EQ(whole.at("output").at(0).at("content").at(0).at("text"),
            chat.at("choices").at(0).at("message").at("content"));
  EXPECT_EQ(whole.at("status"), "incomplete");
  EXPECT_EQ(whole.at("usage").at("input_tokens"), chat.at("usage").at("prompt_tokens"));
  EXPECT_EQ(whole.at("usage").at("output_tokens"), 12);
  body["stream"] = true;
  const std::string text = test::unchunked(told.post("/v1/responses", body).body);
  EXPECT_TRUE(text.starts_with("event: response.created\ndata: {")) << text;
  const std::string end = "event: response.incomplete\ndata: ";
  const std::size_t at = text.find(end);
  ASSERT_NE(at, std::string::npos) << text;
  json last = json::parse(text.substr(at + end.size())).at("response");
  for (const char* own : {"id", "created_at"}) last[own] = whole.at(own);
  last["output"][0]["id"] = whole.at("output").at(0).at("id");
  last["usage"] = whole.at("usage");  // the prompt is known by now
  EXPECT_EQ(last, whole);
  EXPECT_EQ(told.post("/v1/responses", {{"input", "a"}, {"previous_response_id", "resp"}}).status, 400);
  EXPECT_THAT(told.post("/v1/responses", {{"input", "a"}, {"max_output_tokens", 0}}).body,
              HasSubstr("max_output_tokens must be a whole number, at least 1"));
}

}  // namespace
}  // namespace lockstep::server
