// An opened file of tensors, whatever its format: the one form in which load_weights, list_tensors and `lockstep
// inspect` see them. A format's reader makes one (io/formats.h has the table of them).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <lockstep/io/metadata.h>
#include <lockstep/io/tensor_file.h>

#include "core/os.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io {

/// Which part of a file is wanted.
enum class Part : std::uint8_t {
  everything,
  weights,  ///< The tensors of a model, under the names that Module::load_state_dict wants.
};

struct OpenOptions {
  Part part = Part::everything;
  bool verify_checksums = true;
  bool packed = false;  ///< LoadOptions::packed
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// The tensors, in the order of the listing. As long as the source lives.
  virtual std::span<const TensorEntry> entries() const = 0;
  /// Made anew by each call: for formats that store it in another form, it costs a copy.
  virtual Metadata metadata() const = 0;
  /// The elements of entries()[index]: the file's own memory, unless the format packs them or lets them lie in strides.
  virtual RawTensor elements(std::size_t index) const = 0;
  /// What else people want to see of the file, as lines of text. Most formats have no more.
  virtual std::string notes() const { return {}; }
};

/// Checks all that the file says about its tensors, and touches none of them. Throws FormatError.
using OpenTensors = std::unique_ptr<TensorSource>(os::FileBytes file, const OpenOptions& options);

/// A source whose entries and metadata are known once it is open, and whose elements lie in the file.
class MappedSource final : public TensorSource {
 public:
  MappedSource(os::FileBytes file, std::vector<TensorEntry> entries, Metadata metadata)
      : file_(std::move(file)), entries_(std::move(entries)), metadata_(std::move(metadata)) {}

  std::span<const TensorEntry> entries() const override { return entries_; }
  Metadata metadata() const override { return metadata_; }
  RawTensor elements(std::size_t index) const override { return raw_tensor(file_, entries_[index]); }

 private:
  os::FileBytes file_;
  std::vector<TensorEntry> entries_;
  Metadata metadata_;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
