#include "cli/segment_prompt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/io/numpy.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "cli/command.h"
#include "core/os.h"
#include "io/formats.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Numbers with commas between them; empty if the text is anything else.
std::vector<double> coordinates_of(std::string_view text) {
  std::vector<double> numbers;
  for (;;) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return {};
    numbers.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return numbers;
    if (text.front() != ',') return {};
    text.remove_prefix(1);
  }
}

// How sure of itself a mask is that comes from a picture: what the network's own masks are inside.
constexpr float kLogit = 10;

Tensor logits_of_picture(const std::string& path, const models::Sam& model, const models::SamFrame& frame) {
  const io::Image mask = io::load_image(path, {.upright = true});
  if (mask.width != frame.width || mask.height != frame.height) {
    throw ValueError(fmt::format("{}: a mask of {} x {} does not fit the picture of {} x {}", path, mask.width,
                                 mask.height, frame.width, frame.height));
  }
  const std::int64_t side = 4 * model.grid();
  const auto small = [&](int size) {
    const double scaled =
        static_cast<double>(size) * static_cast<double>(side) / static_cast<double>(model.options().image_size);
    return std::max(1, static_cast<int>(std::lround(scaled)));
  };
  const io::Image scaled = io::resize(mask, small(frame.scaled_width), small(frame.scaled_height));
  const Tensor red = io::image_to_tensor(scaled).narrow(0, 0, 1).to(DType::f32);
  return pad(red * (2 * kLogit / 255) - kLogit, {0, side - scaled.width, 0, side - scaled.height}, -kLogit);
}

}  // namespace

models::SamPoint parse_point(const std::string& text) {
  const std::vector<double> numbers = coordinates_of(text);
  const bool has_label = numbers.size() == 3 && (numbers[2] == 0 || numbers[2] == 1);
  if (numbers.size() != 2 && !has_label) throw UsageError("--point: \"" + text + "\" is not X,Y or X,Y,0 or X,Y,1");
  return {.x = numbers[0], .y = numbers[1], .foreground = !has_label || numbers[2] == 1};
}

models::SamBox parse_box(const std::string& text) {
  const std::vector<double> numbers = coordinates_of(text);
  if (numbers.size() != 4) throw UsageError("--box: \"" + text + "\" is not X0,Y0,X1,Y1");
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

Tensor load_mask_prompt(const std::string& path, const models::Sam& model, const models::SamFrame& frame) {
  const io::Format& format = io::readable_format(os::read_file(path));
  if (std::holds_alternative<io::DecodePicture*>(format.reader)) return logits_of_picture(path, model, frame);
  const bool has_no_names = std::string_view(format.name) == "NumPy npy";
  const io::TensorMap tensors = has_no_names ? io::TensorMap{{"logits", io::load_npy(path)}} : io::load_weights(path);
  const std::int64_t side = 4 * model.grid();
  const Tensor* only = tensors.size() == 1 ? &tensors.begin()->second : nullptr;
  if (only == nullptr || only->numel() != side * side) {
    throw ValueError(fmt::format("{}: is not one tensor of {} x {} logits", path, side, side));
  }
  return only->to(DType::f32).reshape({1, side, side});
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
