// Data sets from files: MNIST and its relatives, CIFAR-10, and folders of pictures. Files are untrusted: IoError if one
// cannot be read, FormatError if it is not what it should be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/data/dataset.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace data {

enum class Split : std::uint8_t { train, test };

/// MNIST, Fashion-MNIST and others of their form, from the folder of the idx files under their published names
/// (train-images-idx3-ubyte, t10k-labels-idx1-ubyte and so on), plain or with ".gz".
/// input u8 [n, 1, height, width], target i64 [n]. torchvision: MNIST.
LOCKSTEP_API std::shared_ptr<const TensorDataset> mnist(const std::string& folder, Split split);

/// CIFAR-10 in its binary form: a folder with data_batch_1.bin to data_batch_5.bin (train) or test_batch.bin, or with
/// the folder cifar-10-batches-bin that the archive unpacks to. input u8 [n, 3, 32, 32], target i64 [n].
/// torchvision: CIFAR10.
LOCKSTEP_API std::shared_ptr<const TensorDataset> cifar10(const std::string& folder, Split split);
/// The records of these files, one after the other.
LOCKSTEP_API std::shared_ptr<const TensorDataset> cifar10_files(const std::vector<std::string>& paths);

struct ImageFolderOptions {
  int height = 224;
  int width = 224;
  /// Resize the shorter side to this and take the middle; 0: stretch to height x width, whatever the aspect.
  int shorter_side = 0;
};

/// One folder per class, PNG and JPEG files in it (by their suffix; folders and other files in it are passed over).
/// Classes are numbered in the order of their names' bytes, and so are the files within a class. Files are decoded when
/// they are fetched; resizing is antialiased and bilinear. input u8 [n, 3, height, width], target i64 [n].
/// torchvision: ImageFolder.
class LOCKSTEP_API ImageFolder : public Dataset {
 public:
  /// IoError if the folder cannot be read, ValueError if it has no classes, one has no pictures, or an option is out of
  /// range.
  explicit ImageFolder(const std::string& folder, ImageFolderOptions options = {}, CallSite site = {});

  const std::vector<std::string>& classes() const { return classes_; }
  const std::string& path(std::int64_t index) const { return files_.at(static_cast<std::size_t>(index)).first; }

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Batch fetch(const Request& request) const override;

 private:
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, std::int64_t>> files_;  // path, class
};

}  // namespace data
}  // namespace v0
}  // namespace lockstep
