#include "server/vision.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "io/image_codec.h"
#include "io/orientation.h"
#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr std::size_t kMostPoints = 256;
constexpr std::int64_t kMostClasses = 5;

// As people see it. Bytes of a PNG or JPEG file.
io::Image picture_of(const Request& request) {
  if (request.body.empty()) throw HttpError(400, "the request holds no picture: send the bytes of a PNG or JPEG file");
  const std::span<const std::byte> bytes = std::as_bytes(std::span(request.body));
  io::Image picture = io::decode_image("the picture", bytes);
  const int orientation = io::stored_orientation(bytes);
  return orientation == 1 ? std::move(picture) : io::turned(picture, orientation);
}

double number_of(const Json& json, const char* what) {
  if (!json.is_number() || !std::isfinite(json.get<double>())) {
    throw HttpError(400, fmt::format("{} holds something else than numbers", what));
  }
  return json.get<double>();
}

models::SamPrompt prompt_of(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (key != "points" && key != "box" && key != "multimask") {
      throw HttpError(400, fmt::format("there is no \"{}\" in a prompt (points, box, multimask)", key));
    }
  }
  models::SamPrompt prompt;
  if (const auto points = json.find("points"); points != json.end()) {
    if (!points->is_array() || points->size() > kMostPoints) {
      throw HttpError(400, fmt::format("points must be a list of at most {}", kMostPoints));
    }
    for (const Json& point : *points) {
      if (!point.is_array() || (point.size() != 2 && point.size() != 3)) {
        throw HttpError(400, "a point is [x, y], or [x, y, 0] for what is not part of it");
      }
      const double kind = point.size() == 3 ? number_of(point[2], "points") : 1;
      prompt.points.push_back({number_of(point[0], "points"), number_of(point[1], "points"), kind != 0});
    }
  }
  if (const auto box = json.find("box"); box != json.end() && !box->is_null()) {
    if (!box->is_array() || box->size() != 4) throw HttpError(400, "box must be [x0, y0, x1, y1]");
    double sides[4];
    for (std::size_t i = 0; i < 4; ++i) sides[i] = number_of((*box)[i], "box");
    prompt.box = models::SamBox{sides[0], sides[1], sides[2], sides[3]};
  }
  return prompt;
}

// Of anything with such sides.
template <typename Box> Json box_of(const Box& box) {
  Json sides = Json::array();
  for (const double side : {double(box.x0), double(box.y0), double(box.x1), double(box.y1)}) sides.push_back(side);
  return sides;
}

Json json_of(const models::SamMask& mask) {
  Json size = Json::array();
  for (const auto side : {mask.runs.height, mask.runs.width}) size.push_back(side);
  return Members()
      .add("iou", mask.iou)
      .add("area", mask.area)
      .add("box", box_of(mask.box))
      .add("rle", Members().add("size", size).add("counts", mask.runs.counts).take());
}

}  // namespace

void VisionService::add_to(HttpServer& server) {
  server.get("/api/models", "/api/models", [this](const Request&) { return what_is_served(); });
  if (models_.segmenter != nullptr) {
    server.post("/api/pictures", "/api/pictures", [&](const Request& request) { return open(server, request); });
    server.post("/api/pictures/([0-9a-f]{16})/segment", "/api/pictures/segment",
                [&](const Request& request) { return segment(server, request); });
  }
  if (models_.classifier != nullptr) {
    server.post("/api/classify", "/api/classify", [&](const Request& request) { return classify(server, request); });
  }
  if (models_.detector != nullptr) {
    server.post("/api/detect", "/api/detect", [&](const Request& request) { return detect(server, request); });
  }
}

Response VisionService::what_is_served() const {
  return json_response(Members()
                           .add("segment", models_.segmenter != nullptr)
                           .add("classify", models_.classifier != nullptr)
                           .add("detect", models_.detector != nullptr)
                           .add("device", models_.device.to_string()));
}

std::shared_ptr<const models::SamEmbedding> VisionService::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(opened_.begin(), opened_.end(), [&](const Opened& o) { return o.id == id; });
  if (found == opened_.end()) return nullptr;
  opened_.splice(opened_.begin(), opened_, found);
  return opened_.front().embedding;
}

// Pictures are decoded in turn, too: a small file may unpack to much.
Response VisionService::open(HttpServer& server, const Request& request) {
  return server.in_turn([&] {
    const io::Image picture = picture_of(request);
    const std::string id = fmt::format("{:016x}", models::picture_hash(picture));
    std::shared_ptr<const models::SamEmbedding> embedding = find(id);
    if (embedding == nullptr) {
      embedding = std::make_shared<models::SamEmbedding>(models_.segmenter->embed(picture));
      const std::lock_guard lock(mutex_);
      opened_.push_front({id, embedding});
      if (opened_.size() > kMostOpened) opened_.pop_back();
    }
    return json_response(Members()
                             .add("id", id)
                             .add("width", picture.width)
                             .add("height", picture.height)
                             .add("embedding_hash", fmt::format("{:016x}", embedding->features.hash())));
  });
}

Response VisionService::segment(HttpServer& server, const Request& request) {
  const Json json = object_of(request.body, 8);  // prompts are flat: what nests deeply is no prompt
  const models::SamPrompt prompt = prompt_of(json);
  const auto multimask = json.find("multimask");
  if (multimask != json.end() && !multimask->is_boolean()) throw HttpError(400, "multimask must be true or false");
  const std::shared_ptr<const models::SamEmbedding> embedding = find(request.parts.at(0));
  if (embedding == nullptr) throw HttpError(404, "no such picture is open: send it (again) to /api/pictures");
  return server.in_turn([&] {
    const models::SamPrediction found = models_.segmenter->predict(
        *embedding, prompt, {.multimask = multimask == json.end() || multimask->get<bool>()});
    Json masks = Json::array();
    for (const models::SamMask& mask : models::masks_of(found)) masks.push_back(json_of(mask));
    return json_response(Members().add("masks", masks).add("best", found.best()));
  });
}

Response VisionService::classify(HttpServer& server, const Request& request) {
  return server.in_turn([&] {
    const io::Image picture = picture_of(request);
    const NoGrad no_grad;
    const Tensor logits = (*models_.classifier)(models::preprocess(models_.preprocessing, {picture}, models_.device));
    const std::vector<float> shares = softmax(logits, -1).to_vector<float>();
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
    Json top = Json::array();
    for (std::size_t i = 0; i < std::min<std::size_t>(kMostClasses, order.size()); ++i) {
      const std::size_t index = order[i];
      top.push_back(
          Members()
              .add("index", index)
              .add("label", index < models_.classes.size() ? models_.classes[index] : fmt::format("class {}", index))
              .add("probability", shares[index])
              .take());
    }
    return json_response(Members().add("top", top).add("logits_hash", fmt::format("{:016x}", logits.hash())));
  });
}

Response VisionService::detect(HttpServer& server, const Request& request) {
  return server.in_turn([&] {
    const io::Image picture = picture_of(request);
    Json objects = Json::array();
    for (const models::Detection& found : models::detect(*models_.detector, picture)) {
      objects.push_back(Members()
                            .add("label", models_.objects.at(static_cast<std::size_t>(found.label)))
                            .add("index", found.label)
                            .add("score", found.score)
                            .add("box", box_of(found))
                            .take());
    }
    return json_response(Members().add("objects", objects));
  });
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
