#include <lockstep/io/cifar.h>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "io/cifar_parser.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::size_t kRecordBytes = 1 + CifarFile::kImageBytes;

}  // namespace

CifarFile parse_cifar(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % kRecordBytes != 0) {
    throw FormatError(fmt::format("{}: {} bytes are not a whole number of CIFAR-10 records of {} bytes", name,
                                  bytes.size(), kRecordBytes));
  }
  CifarFile file;
  const std::size_t records = bytes.size() / kRecordBytes;
  file.labels.reserve(records);
  file.planes.resize(records * CifarFile::kImageBytes);
  for (std::size_t i = 0; i < records; ++i) {
    const std::span<const std::byte> record = bytes.subspan(i * kRecordBytes, kRecordBytes);
    const int label = std::to_integer<int>(record[0]);
    if (label >= CifarFile::kClasses) {
      throw FormatError(fmt::format("{}: record {}: label {} is not below {} (at byte {})", name, i, label,
                                    CifarFile::kClasses, i * kRecordBytes));
    }
    file.labels.push_back(static_cast<std::uint8_t>(label));
    std::transform(record.begin() + 1, record.end(),
                   file.planes.begin() + static_cast<std::ptrdiff_t>(i * CifarFile::kImageBytes),
                   [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  }
  return file;
}

CifarFile CifarFile::load(const std::string& path) {
  return parse_cifar(path, os::read_file(path).bytes);
}

Image CifarFile::image(std::size_t index) const {
  if (index >= size()) throw IndexError(fmt::format("record {} is outside a CIFAR-10 file of {}", index, size()));
  constexpr std::size_t kArea = kImageBytes / 3;
  const std::uint8_t* planes_of_image = planes.data() + index * kImageBytes;
  Image image{.width = kSide, .height = kSide};
  image.pixels.reserve(kImageBytes);
  for (std::size_t i = 0; i < kArea; ++i) {
    for (std::size_t c = 0; c < 3; ++c) image.pixels.push_back(planes_of_image[c * kArea + i]);
  }
  return image;
}

Tensor CifarFile::images_tensor(Device device) const {
  return Tensor::from(planes, {static_cast<std::int64_t>(size()), 3, kSide, kSide}, device);
}

Tensor CifarFile::labels_tensor(Device device) const {
  return Tensor::from(std::vector<std::int64_t>(labels.begin(), labels.end()), {static_cast<std::int64_t>(size())},
                      device);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
