#include <lockstep/data/readers.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/io/cifar.h>
#include <lockstep/io/idx.h>
#include <lockstep/io/image.h>

#include "core/os.h"
#include "data/picture.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

// The one of several names that the folder has.
std::string find_file(const std::string& folder, const std::vector<std::string>& names) {
  const std::vector<os::DirectoryEntry> entries = os::list_directory(folder);
  for (const std::string& name : names) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const os::DirectoryEntry& e) { return e.name == name && !e.is_directory; });
    if (found != entries.end()) return fmt::format("{}/{}", folder, name);
  }
  throw IoError(fmt::format("{}: holds none of {}", folder, fmt::join(names, ", ")));
}

std::string find_idx(const std::string& folder, std::string_view set, std::string_view kind, int rank) {
  // Some archives have a dot where the originals have a dash.
  const std::string dashed = fmt::format("{}-{}-idx{}-ubyte", set, kind, rank);
  const std::string dotted = fmt::format("{}-{}.idx{}-ubyte", set, kind, rank);
  return find_file(folder, {dashed, dashed + ".gz", dotted, dotted + ".gz"});
}

Tensor load_bytes(const std::string& path, int rank) {
  Tensor array = io::load_idx(path);
  if (array.dtype() != DType::u8 || array.rank() != rank) {
    throw FormatError(fmt::format("{}: is {} {}, not u8 of {} dimension{}", path, name_of(array.dtype()),
                                  array.shape().to_string(), rank, rank == 1 ? "" : "s"));
  }
  return array;
}

bool is_picture(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;  // no suffix, or a hidden file
  std::string suffix(name.substr(dot + 1));
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return suffix == "png" || suffix == "jpg" || suffix == "jpeg";
}

}  // namespace

std::shared_ptr<const TensorDataset> mnist(const std::string& folder, Split split) {
  const std::string_view set = split == Split::train ? "train" : "t10k";
  const std::string images_path = find_idx(folder, set, "images", 3);
  const std::string labels_path = find_idx(folder, set, "labels", 1);
  const Tensor images = load_bytes(images_path, 3);
  const std::vector<std::uint8_t> labels = load_bytes(labels_path, 1).to_vector<std::uint8_t>();
  const auto count = static_cast<std::int64_t>(labels.size());
  if (images.size(0) != count) {
    throw FormatError(
        fmt::format("{}: {} labels for the {} pictures of {}", labels_path, count, images.size(0), images_path));
  }
  return std::make_shared<const TensorDataset>(
      images.unsqueeze(1), Tensor::from(std::vector<std::int64_t>(labels.begin(), labels.end()), {count}, Device{}));
}

std::shared_ptr<const TensorDataset> cifar10(const std::string& folder, Split split) {
  const std::string unpacked = folder + "/cifar-10-batches-bin";
  const std::string& place = os::is_directory(unpacked) ? unpacked : folder;
  if (split == Split::test) return cifar10_files({find_file(place, {"test_batch.bin"})});
  std::vector<std::string> paths;
  for (int part = 1; part <= 5; ++part) paths.push_back(find_file(place, {fmt::format("data_batch_{}.bin", part)}));
  return cifar10_files(paths);
}

std::shared_ptr<const TensorDataset> cifar10_files(const std::vector<std::string>& paths) {
  std::vector<std::uint8_t> planes;
  std::vector<std::int64_t> labels;
  for (const std::string& path : paths) {
    const io::CifarFile file = io::CifarFile::load(path);
    planes.insert(planes.end(), file.planes.begin(), file.planes.end());
    labels.insert(labels.end(), file.labels.begin(), file.labels.end());
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return std::make_shared<const TensorDataset>(
      Tensor::from(planes, {count, 3, io::CifarFile::kSide, io::CifarFile::kSide}, Device{}),
      Tensor::from(labels, {count}, Device{}));
}

ImageFolder::ImageFolder(const std::string& folder, ImageFolderOptions options, CallSite site) : options_(options) {
  const CallScope call("ImageFolder", site);
  const auto refuse = [&](const std::string& what, const char* fix) { fail<ValueError>(what, {}, fix); };
  const bool crops = options.shorter_side != 0;
  const int least = crops ? options.shorter_side : std::min(options.height, options.width);
  if (least < 1 || std::max({options.height, options.width, options.shorter_side}) > kMaxSide ||
      std::min(options.height, options.width) < 1 ||
      (crops && std::max(options.height, options.width) > options.shorter_side)) {
    refuse(fmt::format("pictures of {} x {} with a shorter side of {}", options.height, options.width,
                       options.shorter_side),
           "use positive sizes, no larger than the shorter side if there is one");
  }
  for (const os::DirectoryEntry& entry : os::list_directory(folder)) {
    if (!entry.is_directory || entry.name.front() == '.') continue;
    const std::string class_folder = fmt::format("{}/{}", folder, entry.name);
    const auto label = static_cast<std::int64_t>(classes_.size());
    const std::size_t before = files_.size();
    for (const os::DirectoryEntry& file : os::list_directory(class_folder)) {
      if (!file.is_directory && is_picture(file.name)) {
        files_.emplace_back(fmt::format("{}/{}", class_folder, file.name), label);
      }
    }
    if (files_.size() == before) refuse(fmt::format("{} has no PNG or JPEG file", class_folder), "remove the folder");
    classes_.push_back(entry.name);
  }
  if (classes_.empty()) refuse(fmt::format("{} has no folders of classes", folder), "make one folder per class");
}

Batch ImageFolder::fetch(const Request& request) const {
  const std::size_t plane = static_cast<std::size_t>(options_.height) * static_cast<std::size_t>(options_.width);
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  pixels.reserve(request.indices.size() * 3 * plane);
  for (const std::int64_t index : request.indices) {
    if (index < 0 || index >= size()) {
      throw IndexError(fmt::format("Dataset::fetch: example {} of a data set of {}", index, size()));
    }
    const auto& [path, label] = files_[static_cast<std::size_t>(index)];
    io::Image image = io::load_image(path);
    if (options_.shorter_side != 0) {
      image = io::center_crop(io::resize_shorter_side(image, options_.shorter_side), options_.width, options_.height);
    } else if (image.width != options_.width || image.height != options_.height) {
      image = io::resize(image, options_.width, options_.height);
    }
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < plane; ++i) pixels.push_back(image.pixels[3 * i + c]);
    }
    labels.push_back(label);
  }
  const auto count = static_cast<std::int64_t>(request.indices.size());
  return {Tensor::from(pixels, {count, 3, options_.height, options_.width}, Device{}),
          Tensor::from(labels, {count}, Device{})};
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
