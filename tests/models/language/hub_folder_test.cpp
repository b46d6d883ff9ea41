// A language model in several files, from a hub on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include <lockstep/lockstep.h>

#include "support/files.h"
#include "support/http_server.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using test::http_answer;
using test::message_of;
using testing::HasSubstr;

const std::string kHubCommit = "0123456789abcdef0123456789abcdef01234567";
const char* kHubConfig = R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5})";

class HubFolder : public testing::Test {
 protected:
  HubFolder() : model_(models::create_language_model(kHubConfig)) { files_["config.json"] = kHubConfig; }

  std::string saved(const nn::StateDict& tensors) const {
    io::save_safetensors(folder_.path("saved.safetensors"), tensors);
    return test::read_whole_file(folder_.path("saved.safetensors"));
  }
  // Of everything at the branch, and at the commit that it is.
  std::string answer(const test::HttpServer::Request& request) const {
    for (const std::string& revision : {std::string("main"), kHubCommit}) {
      const std::string start = "/owner/name/resolve/" + revision + "/";
      if (!request.path.starts_with(start)) continue;
      const auto found = files_.find(request.path.substr(start.size()));
      if (found == files_.end()) break;
      const std::vector<std::string> fields{
          "X-Repo-Commit: " + kHubCommit, "ETag: \"e" + std::to_string(std::hash<std::string>{}(found->first)) + "\""};
      if (request.method == "GET") return http_answer("200 OK", fields, found->second);
      return http_answer("200 OK", {fields[0], fields[1], "Content-Length: " + std::to_string(found->second.size())});
    }
    return http_answer("404 Not Found");
  }
  io::HubOptions options(const std::string& endpoint, bool offline = false) const {
    return {.endpoint = endpoint, .cache = folder_.path("hub"), .token = "t", .offline = offline, .retry_wait = 0.001};
  }
  Tensor logits(const models::LanguageModel& model) const {
    const NoGrad no_grad;
    return model.forward(Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3}));
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<models::LanguageModel> model_;
  std::map<std::string, std::string> files_;
};

TEST_F(HubFolder, OneFileOfWeights) {
  files_["model.safetensors"] = saved(model_->state_dict());
  files_["tokenizer.json"] = "{}";
  const test::HttpServer server([this](const auto& request) { return answer(request); });
  const std::string path = models::local_language_model("hf:owner/name", options(server.address()));
  EXPECT_TRUE(path.ends_with("snapshots/" + kHubCommit)) << path;
  EXPECT_TRUE(std::filesystem::exists(path + "/tokenizer.json"));
  model_->eval();
  EXPECT_BITS_EQ(logits(*models::load_language_model(path)), logits(*model_));
  // The rest is of the commit of the first file; and without a network what is there serves.
  for (const std::string& request : server.requests()) {
    EXPECT_TRUE(request.ends_with("main/config.json") || request.find(kHubCommit) != std::string::npos) << request;
  }
  EXPECT_EQ(models::local_language_model("hf:owner/name", options("http://127.0.0.1:1", true)), path);
}

TEST_F(HubFolder, Shards) {
  nn::StateDict parts[2];
  nlohmann::json map = nlohmann::json::object();
  std::size_t number = 0;
  for (const auto& [key, tensor] : model_->state_dict()) {
    const std::size_t part = number++ % 2;
    parts[part].push_back(key, tensor);
    map[key] = part == 0 ? "a.safetensors" : "b.safetensors";
  }
  files_["a.safetensors"] = saved(parts[0]);
  files_["b.safetensors"] = saved(parts[1]);
  files_["model.safetensors.index.json"] = nlohmann::json{{"weight_map", map}}.dump();
  const test::HttpServer server([this](const auto& request) { return answer(request); });
  const std::string path = models::local_language_model("hf:owner/name@main", options(server.address()));
  model_->eval();
  EXPECT_BITS_EQ(logits(*models::load_language_model(path)), logits(*model_));
}

TEST_F(HubFolder, SaysWhatIsMissing) {
  const test::HttpServer server([this](const auto& request) { return answer(request); });
  const auto message = [&](const std::string& path) {
    return message_of<IoError>([&] { models::local_language_model(path, options(server.address())); });
  };
  EXPECT_THAT(message("hf:owner/name"), HasSubstr("model.safetensors"));
  EXPECT_THAT(message("hf:owner/other"), HasSubstr("config.json"));
  files_["model.safetensors.index.json"] = R"({"weight_map": {"a": "../a.safetensors"}})";
  EXPECT_THAT(
      message_of<FormatError>([&] { models::local_language_model("hf:owner/name", options(server.address())); }),
      HasSubstr("no file of the folder"));
  EXPECT_THROW(models::local_language_model("hf:owner"), ValueError);
  EXPECT_EQ(models::local_language_model("/a/folder"), "/a/folder");
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
