// What `lockstep serve` does with pictures: masks of what is clicked on, classes, objects. Documented in
// docs/serving.md.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <lockstep/models/registry.h>
#include <lockstep/models/sam_masks.h>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// The networks that are served; those that are null are not.
struct VisionModels {
  std::unique_ptr<models::Sam> segmenter;
  std::unique_ptr<nn::Layer> classifier;
  models::Preprocessing preprocessing;  ///< of the classifier
  std::vector<std::string> classes;     ///< their names
  std::unique_ptr<models::YoloV8> detector;
  std::vector<std::string> objects;  ///< names of the detector's classes
  Device device;
};

/// Adds its addresses to a server, which it must outlive.
class VisionService {
 public:
  explicit VisionService(VisionModels models) : models_(std::move(models)) {}
  void add_to(HttpServer& server);

 private:
  /// A picture that is being clicked on.
  struct Opened {
    std::string id;
    std::shared_ptr<const models::SamEmbedding> embedding;
  };
  static constexpr std::size_t kMostOpened = 16;  ///< the longest unused one is forgotten

  Response open(HttpServer& server, const Request& request);
  Response segment(HttpServer& server, const Request& request);
  Response classify(HttpServer& server, const Request& request);
  Response detect(HttpServer& server, const Request& request);
  Response what_is_served() const;
  std::shared_ptr<const models::SamEmbedding> find(const std::string& id);

  VisionModels models_;
  std::mutex mutex_;
  std::list<Opened> opened_;  ///< the latest first
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
