// What torch.save writes: .pt, .pth, .th. Read are the zip form and the older ("legacy") form; written is the zip form.
//
// Such a file is a program for a stack machine. Ours executes nothing: it builds the values below, knows a fixed
// table of names (OrderedDict, tensor rebuilding, storages, torch.Size, ...) and refuses every other name and opcode.
// Limits: 524,288 objects, values nested no deeper than 256 and no more than 4,194,304 of them when shared ones are
// counted each time, strings of 1 MiB, stored (not compressed) zip entries only. See docs/limits.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/io/tensor_file.h>

namespace lockstep {
inline namespace v0 {
namespace io {

struct PickleDocument;

/// A value of a pickle: a node of a tree in which parts may be shared. Cheap to copy; keeps the whole tree alive.
/// Accessors for another kind throw ValueError.
class LOCKSTEP_API PickleValue {
 public:
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    big_integer,
    real,
    string,
    bytes,
    list,
    tuple,
    dict,
    tensor
  };

  Kind kind() const;
  bool as_bool() const;
  std::int64_t as_integer() const;
  /// An integer is taken too.
  double as_real() const;
  /// Of a string or of bytes. The view lives as long as any value of the tree.
  std::string_view as_string() const;
  /// Contiguous tensors share the file's memory, others are copies. Throws DTypeError for complex32 and complex128.
  Tensor as_tensor() const;
  /// Name, type and shape of a tensor as the file describes it; the name is empty.
  TensorEntry tensor_entry() const;

  /// Number of elements of a list or tuple, or of entries of a dict; else 0.
  std::size_t size() const;
  /// Element of a list or tuple, or key and value of a dict's entry, in the file's order. Throw IndexError.
  PickleValue at(std::size_t index) const;
  PickleValue key(std::size_t index) const;
  PickleValue value(std::size_t index) const;
  /// Whether the dict has the string `key`, and its value. Cost: linear in size(). get() throws ValueError.
  bool has(std::string_view key) const;
  PickleValue get(std::string_view key) const;

  /// Scalars as Python prints them ("None", "True", "91.78", "adam"); "list of 3" and the like for the others.
  std::string to_string() const;

 private:
  friend struct PickleDocument;
  PickleValue(std::shared_ptr<const PickleDocument> document, std::uint32_t node);

  std::shared_ptr<const PickleDocument> document_;
  std::uint32_t node_ = 0;
};

/// The value that torch.load would return. Throws IoError if the file cannot be read, FormatError if it is not a
/// valid file of this kind or refers to anything outside the table.
LOCKSTEP_API PickleValue load_pickle(const std::string& path, LoadOptions options = {});

/// The tensors of the file by the path that leads to them, parts joined by ".": {"state_dict": {"fc.bias": t}} gives
/// "state_dict.fc.bias"; a file that is one tensor gives "tensor". Other leaves become metadata, as text.
/// Throws what load_pickle throws, and FormatError if two paths give one name.
LOCKSTEP_API TensorFile load_pytorch(const std::string& path, LoadOptions options = {});

/// Writes the tensors (from any device) in the zip form, as an OrderedDict that torch.load(path, weights_only=True)
/// reads, in the order of their names, so that a crash or an error leaves either the old file or the new. Elements lie
/// at multiples of 64 bytes; equal tensors give equal files. Throws IoError if writing fails, ValueError if a name is
/// not UTF-8 or has more than 1 MiB, a tensor is undefined, or there are more than our reader takes. PyTorch: save.
LOCKSTEP_API void save_pytorch(const std::string& path, const TensorMap& tensors);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
