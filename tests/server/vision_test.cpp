#include "server/vision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <lockstep/lockstep.h>

#include "io/image_codec.h"
#include "models/sam/sam_models.h"
#include "support/http_client.h"

namespace lockstep {
inline namespace v0 {
namespace {

using nlohmann::json;
using sam_tests::tiny_sam;
using server::HttpServer;
using server::VisionModels;
using server::VisionService;
using test::HttpAnswer;
using testing::HasSubstr;

io::Image drawn(int width, int height, std::uint32_t seed) {
  io::Image image{.width = width, .height = height};
  for (int i = 0; i < 3 * width * height; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>((static_cast<std::uint32_t>(i) + seed) * 2654435761u >> 24));
  }
  return image;
}

std::string png_of(const io::Image& image) {
  const std::vector<std::byte> bytes = io::encode_png(image);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A server of small networks with random weights.
struct Served {
  explicit Served(server::ServerOptions options = {.port = 0, .seconds = 5}) : http(options), vision(models()) {
    vision.add_to(http);
    port = test::port_of(http.start());
  }
  static VisionModels models() {
    VisionModels models;
    models.segmenter = tiny_sam();
    models.classifier = std::make_unique<models::LeNet>(3);
    models.classifier->eval();
    models.preprocessing = {.width = 28, .height = 28, .channels = 1};
    models.classes = {"a", "b", "c"};
    models.detector = std::make_unique<models::YoloV8>(models::YoloV8Options{.width = 0.125, .classes = 2});
    models.detector->eval();
    models.objects = {"x", "y"};
    return models;
  }
  HttpAnswer post(const std::string& path, std::string_view body) const {
    return test::request(port, "POST", path, body);
  }
  std::string open(const io::Image& image) const { return post("/api/pictures", png_of(image)).json().at("id"); }

  HttpServer http;
  VisionService vision;
  int port = 0;
};

TEST(VisionService, SaysWhatItServes) {
  const Served served;
  EXPECT_EQ(test::request(served.port, "GET", "/api/models").json(),
            (json{{"segment", true}, {"classify", true}, {"detect", true}, {"device", "cpu"}}));
  HttpServer bare({.port = 0});
  VisionService nothing({});
  nothing.add_to(bare);
  const int port = test::port_of(bare.start());
  EXPECT_EQ(test::request(port, "POST", "/api/detect", "x").status, 404);
}

TEST(VisionService, AClickGivesTheMasksOfTheLibrary) {
  const Served served;
  const io::Image image = drawn(50, 40, 1);
  const json opened = served.post("/api/pictures", png_of(image)).json();
  EXPECT_EQ(opened.at("width"), 50);
  EXPECT_EQ(opened.at("height"), 40);
  const std::string path = "/api/pictures/" + opened.at("id").get<std::string>() + "/segment";
  const json answer = served.post(path, R"({"points":[[10,20],[3,4,0]],"box":[1,2,40,30]})").json();
  const auto model = tiny_sam();
  const auto found =
      model->predict(model->embed(image), {.points = {{10, 20}, {3, 4, false}}, .box = models::SamBox{1, 2, 40, 30}});
  const std::vector<models::SamMask> masks = models::masks_of(found);
  ASSERT_EQ(answer.at("masks").size(), masks.size());
  EXPECT_EQ(answer.at("best"), found.best());
  for (std::size_t i = 0; i < masks.size(); ++i) {
    EXPECT_EQ(answer["masks"][i].at("iou").get<float>(), masks[i].iou);
    EXPECT_EQ(answer["masks"][i].at("area"), masks[i].area);
    EXPECT_EQ(answer["masks"][i].at("rle").at("counts").get<std::vector<std::uint32_t>>(), masks[i].runs.counts);
  }
  EXPECT_EQ(served.post(path, R"({"points":[[10,20]],"multimask":false})").json().at("masks").size(), 1u);
}

TEST(VisionService, ClassesAndObjectsAreThoseOfTheLibrary) {
  const Served served;
  const io::Image image = drawn(64, 32, 2);
  const json classes = served.post("/api/classify", png_of(image)).json().at("top");
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_GE(classes[0].at("probability").get<float>(), classes[1].at("probability").get<float>());
  float sum = 0;
  for (const json& one : classes) sum += one.at("probability").get<float>();
  EXPECT_NEAR(sum, 1, 1e-6);
  const HttpAnswer objects = served.post("/api/detect", png_of(image));
  EXPECT_EQ(objects.status, 200) << objects.body;
  const json found = objects.json();
  for (const json& one : found.at("objects"))
    EXPECT_THAT(one.at("label").get<std::string>(), testing::AnyOf("x", "y"));
}

TEST(VisionService, WrongRequestsAreNamed) {
  const Served served;
  const std::string id = served.open(drawn(20, 20, 3));
  const auto message = [&](const std::string& path, std::string_view body, int status) {
    const HttpAnswer answer = served.post(path, body);
    EXPECT_EQ(answer.status, status) << answer.body;
    return answer.json().at("error").at("message").get<std::string>();
  };
  EXPECT_THAT(message("/api/pictures", "", 400), HasSubstr("holds no picture"));
  EXPECT_THAT(message("/api/pictures", "GIF89a", 400), HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(message("/api/classify", png_of(drawn(9, 9, 1)).substr(0, 60), 400), HasSubstr("the picture"));
  EXPECT_THAT(message("/api/pictures/0123456789abcdef/segment", R"({"points":[[1,1]]})", 404),
              HasSubstr("no such picture"));
  const std::string path = "/api/pictures/" + id + "/segment";
  EXPECT_THAT(message(path, "", 400), HasSubstr("no JSON object"));
  EXPECT_THAT(message(path, "[1]", 400), HasSubstr("no JSON object"));
  EXPECT_THAT(message(path, "{", 400), HasSubstr("no JSON object"));
  EXPECT_THAT(message(path, std::string(100'000, '['), 400), HasSubstr("nests too deep"));
  EXPECT_THAT(message(path, R"({"point":[[1,1]]})", 400), HasSubstr("no \"point\" in a prompt"));
  EXPECT_THAT(message(path, R"({"points":[[1]]})", 400), HasSubstr("a point is"));
  EXPECT_THAT(message(path, R"({"points":[["a",1]]})", 400), HasSubstr("numbers"));
  EXPECT_THAT(message(path, R"({"points":[[1e999,1]]})", 400), HasSubstr("JSON"));
  EXPECT_THAT(message(path, R"({"points":7})", 400), HasSubstr("points must be"));
  EXPECT_THAT(message(path, R"({"box":[1,2,3]})", 400), HasSubstr("box must be"));
  EXPECT_THAT(message(path, R"({"points":[[1,1]],"multimask":1})", 400), HasSubstr("multimask"));
  EXPECT_THAT(message(path, R"({"points":[[100,1]]})", 400), HasSubstr("outside the picture"));
  EXPECT_EQ(served.post(path, "{}").status, 400);
  std::string many = R"({"points":[)";
  for (int i = 0; i < 300; ++i) many += "[1,1],";
  many.back() = ']';
  EXPECT_THAT(message(path, many + "}", 400), HasSubstr("at most 256"));
}

TEST(VisionService, TheLongestUnusedPictureIsForgotten) {
  const Served served;
  const std::string first = served.open(drawn(20, 20, 0));
  const std::string second = served.open(drawn(20, 20, 1));
  const auto is_open = [&](const std::string& id) {
    return served.post("/api/pictures/" + id + "/segment", R"({"points":[[1,1]]})").status == 200;
  };
  for (std::uint32_t i = 2; i < 17; ++i) {
    EXPECT_TRUE(is_open(first));
    served.open(drawn(20, 20, i));
  }
  EXPECT_TRUE(is_open(first));
  EXPECT_FALSE(is_open(second));
}

TEST(VisionService, ConcurrentUsersGetWhatOneGetsAlone) {
  const Served served({.port = 0, .waiting = 100, .seconds = 30});
  constexpr std::uint32_t kUsers = 8;
  const auto answers_of = [&](std::uint32_t user) {
    std::string all;
    const std::string id = served.open(drawn(30, 30 + static_cast<int>(user), user));
    for (int x = 0; x < 3; ++x) {
      all += served.post("/api/pictures/" + id + "/segment", "{\"points\":[[" + std::to_string(x) + ",5]]}").body;
    }
    return all + served.post("/api/detect", png_of(drawn(64, 64, user))).body;
  };
  std::vector<std::string> alone;
  for (std::uint32_t user = 0; user < kUsers; ++user) alone.push_back(answers_of(user));
  std::vector<std::string> together(kUsers);
  std::vector<std::thread> threads;
  for (std::uint32_t user = 0; user < kUsers; ++user)
    threads.emplace_back([&, user] { together[user] = answers_of(user); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
