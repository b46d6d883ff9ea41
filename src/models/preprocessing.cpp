#include <lockstep/models/preprocessing.h>

#include <vector>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Every byte has one result per channel, so the arithmetic is done 768 times and not once per pixel.
std::array<float, 256> values_of_channel(const Preprocessing& preprocessing, std::size_t channel) {
  std::array<float, 256> values{};
  for (std::size_t byte = 0; byte < values.size(); ++byte) {
    const float scaled = static_cast<float>(byte) / preprocessing.scale;
    values[byte] = (scaled - preprocessing.mean[channel]) / preprocessing.deviation[channel];
  }
  return values;
}

// A gray pixel, whose three bytes are equal, keeps its value.
std::uint8_t gray(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

}  // namespace

io::Image fit(const Preprocessing& preprocessing, const io::Image& image) {
  const std::size_t bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3;
  if (image.channels != 3 || image.width < 1 || image.height < 1 || image.pixels.size() != bytes) {
    throw ValueError(fmt::format("preprocess: an image of {}x{} with {} channels and {} bytes is not RGB", image.width,
                                 image.height, image.channels, image.pixels.size()));
  }
  const bool has_size = image.width == preprocessing.width && image.height == preprocessing.height;
  switch (preprocessing.fit) {
    case Preprocessing::Fit::stretch:
      return has_size ? image : io::resize(image, preprocessing.width, preprocessing.height, preprocessing.filter);
    case Preprocessing::Fit::crop_if_needed:
      if (has_size) return image;
      break;
    case Preprocessing::Fit::crop: break;
  }
  return io::center_crop(io::resize_shorter_side(image, preprocessing.shorter_side, preprocessing.filter),
                         preprocessing.width, preprocessing.height);
}

Tensor preprocess(const Preprocessing& preprocessing, const std::vector<io::Image>& images, Device device,
                  CallSite site) {
  const CallScope call("preprocess", site);
  const std::size_t plane =
      static_cast<std::size_t>(preprocessing.width) * static_cast<std::size_t>(preprocessing.height);
  const auto channels = static_cast<std::size_t>(preprocessing.channels);
  if (channels != 1 && channels != 3) {
    throw ValueError(fmt::format("preprocess: pictures of {} channels; there are gray ones (1) and colours (3)",
                                 preprocessing.channels));
  }
  std::vector<float> values(images.size() * channels * plane);
  std::array<std::array<float, 256>, 3> table;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    table[channel] = values_of_channel(preprocessing, channel);
  }
  float* out = values.data();
  for (const io::Image& given : images) {
    const io::Image image = fit(preprocessing, given);
    if (channels == 1) {
      for (std::size_t i = 0; i < plane; ++i) *out++ = table[0][gray(image.pixels.data() + 3 * i)];
      continue;
    }
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::uint8_t* pixel = image.pixels.data() + (preprocessing.bgr ? 2 - channel : channel);
      for (std::size_t i = 0; i < plane; ++i) *out++ = table[channel][pixel[3 * i]];
    }
  }
  return Tensor::from(
      values,
      {static_cast<std::int64_t>(images.size()), preprocessing.channels, preprocessing.height, preprocessing.width},
      device);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
