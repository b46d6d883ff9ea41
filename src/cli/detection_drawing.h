// Boxes with names, drawn on a picture.
#pragma once

#include <string>
#include <vector>

#include <lockstep/io/image.h>
#include <lockstep/models/yolo.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Each class in a colour of its own, the best object on top. `labels`: a name for each class.
io::Image draw_detections(const io::Image& picture, const std::vector<models::Detection>& objects,
                          const std::vector<std::string>& labels);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
