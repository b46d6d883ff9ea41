#include "io/raw_tensor.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::uint64_t kMostElements = 0x7fffffffffffffff;
constexpr CheckedSize kTooMany = CheckedSize(~std::uint64_t{0}) * 2;

}  // namespace

CheckedSize element_count(const Shape& shape) {
  CheckedSize without_zeros = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return kTooMany;
    if (size == 0) {
      empty = true;
    } else {
      without_zeros *= static_cast<std::uint64_t>(size);
    }
  }
  if (!without_zeros.at_most(kMostElements)) return kTooMany;
  return empty ? CheckedSize(0) : without_zeros;
}

std::string describe(StoredType type, const Shape& shape) {
  return fmt::format("{} {}", name_of(type), shape.to_string());
}

Tensor to_tensor(const RawTensor& raw, std::string_view file, std::string_view name) {
  const std::optional<DType> dtype = tensor_dtype(raw.type);
  if (!dtype) {
    throw DTypeError(fmt::format(
        "{}: tensor {} is stored as {}, which tensors cannot hold; convert the file, e.g. to complex64", file,
        in_quotes(name), name_of(raw.type)));
  }
  if (raw.encoding != Encoding::dense) {
    LOCKSTEP_ASSERT(encoded_bytes(raw.encoding, *dtype, raw.shape.numel()) == raw.bytes.size());
    return Tensor::from_blob(raw.bytes.data(), raw.shape, raw.encoding, [owner = raw.owner] {});
  }
  LOCKSTEP_ASSERT((element_count(raw.shape) * size_of(raw.type)).equals(raw.bytes.size()));
  if (*dtype == DType::boolean) {
    const auto wrong = std::find_if(raw.bytes.begin(), raw.bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (wrong != raw.bytes.end()) {
      throw FormatError(fmt::format("{}: tensor {}: element {} of a bool tensor is {}, neither 0 nor 1", file,
                                    in_quotes(name), wrong - raw.bytes.begin(), std::to_integer<int>(*wrong)));
    }
  }
  if (raw.bytes.empty()) return Tensor::from_bytes(nullptr, 0, raw.shape, *dtype, Device{});
  if (!raw.fortran_order) return Tensor::from_blob(raw.bytes.data(), raw.shape, *dtype, [owner = raw.owner] {});
  Shape shape;
  Dims reversed;
  for (int d = raw.shape.rank(); d-- > 0;) {
    shape.push_back(raw.shape[d]);
    reversed.push_back(d);
  }
  return Tensor::from_blob(raw.bytes.data(), shape, *dtype, [owner = raw.owner] {}).permute(reversed);
}

RawTensor raw_tensor(const os::FileBytes& file, const TensorEntry& entry) {
  // The entry may come from another file, or have been changed: it is checked like any number from outside.
  if (!entry.encoding.empty() || !(CheckedSize(entry.offset) + entry.bytes).at_most(file.bytes.size()) ||
      !(element_count(entry.shape) * size_of(entry.type)).equals(entry.bytes)) {
    throw ValueError(fmt::format("{}: the entry {} is not of this file", file.path, in_quotes(entry.name)));
  }
  return {entry.type, entry.shape, file.bytes.subspan(entry.offset, entry.bytes), file.owner};
}

std::vector<std::byte> elements_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
  tensor.read_bytes(bytes.data());
  return bytes;
}

void check_defined(const std::string& path, std::string_view name, const Tensor& tensor) {
  if (!tensor.defined()) throw ValueError(fmt::format("{}: tensor {} is undefined", path, in_quotes(name)));
}

os::FileBytes open_file(const std::string& path, const LoadOptions& options) {
  return options.map ? os::map_file(path) : os::read_file(path);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
