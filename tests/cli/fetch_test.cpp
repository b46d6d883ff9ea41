// Commands whose files are on a hub: one on this machine, named by HF_ENDPOINT.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/io/onnx.h>
#include <lockstep/io/onnx_export.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "cli/run_command.h"
#include "support/http_server.h"

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// git's name of a blob is not stated: the hub's other etags say nothing of the content.
std::string hub_answer(const HttpServer::Request& request, const std::string& body,
                       const std::string& etag = "an-etag") {
  const std::vector<std::string> fields{"X-Repo-Commit: 0123456789abcdef0123456789abcdef01234567",
                                        "ETag: \"" + etag + "\""};
  if (request.method == "GET") return http_answer("200 OK", fields, body);
  return http_answer("200 OK", {fields[0], fields[1], "Content-Length: " + std::to_string(body.size())});
}

TEST(Fetch, WeightsAndLabelsOfAHub) {
  const TemporaryFolder folder;
  std::string labels = "{";
  for (int i = 0; i < 10; ++i)
    labels += (i == 0 ? "" : ", ") + ("\"" + std::to_string(i) + "\": \"shape " + std::to_string(i) + "\"");
  labels += "}";
  const HttpServer server([&](const HttpServer::Request& request) {
    if (request.path == "/owner/name/resolve/v1/w.safetensors") {
      return hub_answer(request, read_whole_file(asset("weights.safetensors")));
    }
    if (request.path == "/datasets/owner/labels/resolve/main/id2label.json") return hub_answer(request, labels);
    return http_answer("404 Not Found");
  });
  const std::vector<std::string> environment{"HF_ENDPOINT=" + server.address(), "HF_HOME=" + folder.path("hf")};
  const std::vector<std::string> arguments{"classify",
                                           "--arch",
                                           "resnet8-cifar",
                                           "--json",
                                           "--weights",
                                           "hf:owner/name@v1/w.safetensors",
                                           "--labels",
                                           "hf:datasets/owner/labels/id2label.json",
                                           asset("images/star.png")};
  const CommandResult result = run_command(arguments, environment);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.json()[0].at("top").at(0).at("label"), "shape 3");
  EXPECT_EQ(result.json().back().at("logits_hash"),
            run_command({"classify", "--arch", "resnet8-cifar", "--json", "--weights", asset("weights.safetensors"),
                         asset("images/star.png")})
                .json()
                .back()
                .at("logits_hash"));
  // From now on without a network.
  const CommandResult offline = run_command(arguments, {environment[1], "HF_HUB_OFFLINE=1"});
  EXPECT_EQ(offline.output, result.output) << offline.errors;
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(Fetch, ANameAloneIsEnoughWhereThePlaceIsKnown) {
  const TemporaryFolder folder;
  const HttpServer server([](const HttpServer::Request&) { return http_answer("404 Not Found"); });
  const std::vector<std::string> environment{"HF_ENDPOINT=" + server.address(), "HF_HOME=" + folder.path("hf")};
  const CommandResult known = run_command({"classify", "--arch", "resnet18", asset("images/star.png")}, environment);
  EXPECT_EQ(known.exit_code, 1);
  EXPECT_THAT(server.requests(),
              ElementsAre("HEAD /datasets/huggingface/label-files/resolve/main/imagenet-1k-id2label.json"));
  EXPECT_THAT(known.errors, HasSubstr("404"));
  const CommandResult unknown = run_command({"classify", "--arch", "lenet", asset("images/star.png")}, environment);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("--weights"));
}

TEST(Fetch, LabelsMustBeThereForEachClass) {
  const TemporaryFolder folder;
  const auto classify = [&](const std::string& labels) {
    return run_command({"classify", "--arch", "resnet8-cifar", "--weights", asset("weights.safetensors"), "--labels",
                        folder.write("labels.json", labels), asset("images/star.png")});
  };
  EXPECT_THAT(classify("{\"0\": \"a\", \"2\": \"b\"}").errors, HasSubstr("class 1"));
  EXPECT_THAT(classify("{\"0\": 1}").errors, HasSubstr("class 0"));
  EXPECT_THAT(classify("{").errors, HasSubstr("labels.json"));
  EXPECT_EQ(classify("{}").exit_code, 1);
}

// Whose weights lie in a file beside it, which the cache keeps as a link, too.
TEST(Fetch, AnOnnxModelWithItsOtherFiles) {
  const TemporaryFolder folder;
  nn::Linear layer(3, 1000);
  layer.eval();
  io::save_onnx(folder.path("net.onnx"), layer, {ones({1, 3})}, {.external_data_above = 1000});
  const HttpServer server([&](const HttpServer::Request& request) {
    for (const std::string name : {"net.onnx", "net.onnx.data"}) {
      if (!request.path.ends_with("/onnx/" + name)) continue;
      return hub_answer(request, read_whole_file(folder.path(name)), name == "net.onnx" ? "one" : "another");
    }
    return http_answer("404 Not Found");
  });
  const std::vector<std::string> environment{"HF_ENDPOINT=" + server.address(), "HF_HOME=" + folder.path("hf")};
  const std::string input =
      io::load_onnx(folder.path("net.onnx"))->inputs().front().name + "=" + folder.write("x.txt", "1 2 3");
  const CommandResult here = run_command({"run", folder.path("net.onnx"), "--device", "cpu", "--input", input});
  ASSERT_EQ(here.exit_code, 0) << here.errors;
  const CommandResult result =
      run_command({"run", "hf:owner/name/onnx/net.onnx", "--device", "cpu", "--input", input}, environment);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, here.output);
  EXPECT_EQ(server.requests().size(), 4u);
}

}  // namespace
}  // namespace lockstep::test
