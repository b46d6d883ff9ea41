#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/formats.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr const char* kGgufSplitCount = "split.count";

class Parser {
 public:
  explicit Parser(const os::FileBytes& file) : file_(file), reader_(file_.path, file_.bytes) {}

  GgufHeader parse() {
    read_start();
    for (std::uint64_t i = 0; i < values_; ++i) read_value();
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < tensors_; ++i) offsets.push_back(read_tensor());
    place(offsets);
    return std::move(header_);
  }

 private:
  void read_start() {
    reader_.take(4, "the magic bytes");
    header_.version = reader_.u32("the version");
    if (header_.version != 2 && header_.version != 3) {
      const bool swapped = (header_.version & 0xffff) == 0;
      reader_.fail_at(4, fmt::format("version {} of GGUF is not supported{}", header_.version,
                                     swapped ? ": the file seems to be big-endian" : " (2 and 3 are)"));
    }
    tensors_ = reader_.u64("the number of tensors");
    values_ = reader_.u64("the number of metadata values");
    if (tensors_ > kMaxGgufEntries) {
      reader_.fail_at(8, fmt::format("{} tensors are more than {}", tensors_, kMaxGgufEntries));
    }
    if (values_ > kMaxGgufEntries) {
      reader_.fail_at(16, fmt::format("{} metadata values are more than {}", values_, kMaxGgufEntries));
    }
  }

  std::string text(std::string_view what) {
    const std::span<const std::byte> bytes = reader_.take(reader_.u64(what), what);
    return std::string(text_of(bytes));
  }

  bool boolean(std::string_view what) {
    const std::uint8_t value = reader_.u8(what);
    if (value > 1) reader_.fail(fmt::format("{} is {}, neither 0 nor 1", what, value));
    return value == 1;
  }

  template <typename T> T scalar(std::string_view what) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text(what);
    } else if constexpr (std::is_same_v<T, bool>) {
      return boolean(what);
    } else if constexpr (sizeof(T) == 1) {
      return std::bit_cast<T>(reader_.u8(what));
    } else if constexpr (sizeof(T) == 2) {
      return std::bit_cast<T>(reader_.u16(what));
    } else if constexpr (sizeof(T) == 4) {
      return std::bit_cast<T>(reader_.u32(what));
    } else {
      return std::bit_cast<T>(reader_.u64(what));
    }
  }

  // A scalar, or as many as the file has bytes for: a text takes 8 bytes at least.
  template <typename T> MetadataValue value_of(bool is_array, std::string_view what) {
    if (!is_array) return scalar<T>(what);
    const std::uint64_t count = reader_.u64(what);
    const std::uint64_t least = std::is_same_v<T, std::string> ? 8 : sizeof(T);
    if (!(CheckedSize(count) * least).at_most(reader_.remaining())) {
      reader_.fail(fmt::format("{} has {} elements, more than the file can hold", what, count));
    }
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(scalar<T>(what));
    return values;
  }

  MetadataValue value(std::uint32_t type, bool is_array, const std::string& what) {
    switch (static_cast<GgufValueType>(type)) {
      case GgufValueType::u8: return value_of<std::uint8_t>(is_array, what);
      case GgufValueType::i8: return value_of<std::int8_t>(is_array, what);
      case GgufValueType::u16: return value_of<std::uint16_t>(is_array, what);
      case GgufValueType::i16: return value_of<std::int16_t>(is_array, what);
      case GgufValueType::u32: return value_of<std::uint32_t>(is_array, what);
      case GgufValueType::i32: return value_of<std::int32_t>(is_array, what);
      case GgufValueType::f32: return value_of<float>(is_array, what);
      case GgufValueType::boolean: return value_of<bool>(is_array, what);
      case GgufValueType::text: return value_of<std::string>(is_array, what);
      case GgufValueType::u64: return value_of<std::uint64_t>(is_array, what);
      case GgufValueType::i64: return value_of<std::int64_t>(is_array, what);
      case GgufValueType::f64: return value_of<double>(is_array, what);
      case GgufValueType::array:
        if (is_array) reader_.fail(fmt::format("{} is an array of arrays", what));
        return value(reader_.u32(what), true, what);
    }
    reader_.fail(fmt::format("{} has the unknown type {}", what, type));
  }

  void read_value() {
    const std::string key = text("a metadata key");
    if (key.empty() || key.size() > kMaxGgufKey) {
      reader_.fail(fmt::format("a metadata key has {} bytes, not 1 to {}", key.size(), kMaxGgufKey));
    }
    const std::string what = fmt::format("metadata {}", in_quotes(key));
    const std::uint32_t type = reader_.u32(what);
    if (!header_.metadata.emplace(key, value(type, false, what)).second) reader_.fail(what + " appears twice");
  }

  // Returns the offset in the data.
  std::uint64_t read_tensor() {
    GgufTensor tensor;
    tensor.name = text("a tensor's name");
    if (tensor.name.empty() || tensor.name.size() > kMaxGgufTensorName) {
      reader_.fail(fmt::format("a tensor's name has {} bytes, not 1 to {}", tensor.name.size(), kMaxGgufTensorName));
    }
    const std::string what = fmt::format("tensor {}", in_quotes(tensor.name));
    if (!names_.insert(tensor.name).second) reader_.fail(what + " appears twice");
    const std::uint32_t rank = reader_.u32(what);
    if (rank > kMaxGgufRank) reader_.fail(fmt::format("{} has {} dimensions, more than {}", what, rank, kMaxGgufRank));
    std::uint64_t sizes[kMaxGgufRank] = {};
    for (std::uint32_t d = 0; d < rank; ++d) {
      sizes[d] = reader_.u64(what);
      if (sizes[d] > static_cast<std::uint64_t>(INT64_MAX)) {
        reader_.fail(fmt::format("{}: size {} exceeds 2^63 - 1", what, sizes[d]));
      }
    }
    for (std::uint32_t d = rank; d-- > 0;) tensor.shape.push_back(static_cast<std::int64_t>(sizes[d]));
    const std::uint32_t type = reader_.u32(what);
    tensor.type = find_block_type(type);
    if (tensor.type == nullptr) reader_.fail(fmt::format("{} has the unknown element type {}", what, type));
    const std::uint64_t row = rank == 0 ? 1 : sizes[0];
    if (row % tensor.type->elements != 0) {
      reader_.fail(fmt::format("{}: rows of {} elements are no blocks of {} ({})", what, row, tensor.type->elements,
                               tensor.type->name));
    }
    const CheckedSize elements = element_count(tensor.shape);
    const CheckedSize bytes = elements.at_most(~std::uint64_t{0})
                                  ? CheckedSize(elements.value() / tensor.type->elements) * tensor.type->bytes
                                  : elements;
    if (!bytes.at_most(file_.bytes.size())) {
      reader_.fail(fmt::format("{} {} of {} needs {} bytes; the file has {}", what, tensor.shape.to_string(),
                               tensor.type->name, bytes.to_string(), file_.bytes.size()));
    }
    tensor.bytes = bytes.value();
    header_.tensors.push_back(std::move(tensor));
    return reader_.u64(what);
  }

  std::uint64_t alignment() const {
    const auto found = header_.metadata.find(kGgufAlignmentKey);
    if (found == header_.metadata.end()) return kDefaultGgufAlignment;
    const auto* value = found->second.get_if<std::uint32_t>();
    if (value == nullptr || !std::has_single_bit(*value) || *value > kMaxGgufAlignment) {
      throw FormatError(fmt::format("{}: {} is {} ({}), not a power of two of type u32, of at most {}", file_.path,
                                    kGgufAlignmentKey, found->second.to_string(), found->second.kind(),
                                    kMaxGgufAlignment));
    }
    return *value;
  }

  void place(const std::vector<std::uint64_t>& offsets) {
    const std::uint64_t step = alignment();
    const std::uint64_t start = (reader_.offset() + step - 1) / step * step;
    std::uint64_t end = start;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      GgufTensor& tensor = header_.tensors[i];
      const CheckedSize first = CheckedSize(start) + offsets[i];
      const CheckedSize last = first + tensor.bytes;
      const auto fail = [&](std::string_view message) {
        throw FormatError(fmt::format("{}: tensor {}: its data at {} {}", file_.path, in_quotes(tensor.name),
                                      first.to_string(), message));
      };
      if (offsets[i] % step != 0) fail(fmt::format("are not aligned to {} bytes", step));
      // An empty tensor may point behind the last byte, which a writer that pads has not written.
      if (tensor.bytes != 0 && !last.at_most(file_.bytes.size())) {
        fail(fmt::format("end at {}, after the file's {} bytes", last.to_string(), file_.bytes.size()));
      }
      if (tensor.bytes == 0) {
        tensor.offset = file_.bytes.size();
        continue;
      }
      if (first.value() < end) fail(fmt::format("overlap those before them, which end at {}", end));
      tensor.offset = first.value();
      end = last.value();
    }
  }

  const os::FileBytes& file_;
  ByteReader reader_;
  GgufHeader header_;
  std::set<std::string> names_;
  std::uint64_t tensors_ = 0;
  std::uint64_t values_ = 0;
};

class GgufSource final : public TensorSource {
 public:
  GgufSource(os::FileBytes file, bool packed)
      : file_(std::move(file)), header_(parse_gguf(file_)), packed_(packed) {
    for (const GgufTensor& tensor : header_.tensors) {
      const bool dense = tensor.type->dense.has_value();
      entries_.push_back({.name = tensor.name,
                          .type = tensor.type->dense.value_or(StoredType::f32),
                          .shape = tensor.shape,
                          .offset = tensor.offset,
                          .bytes = tensor.bytes,
                          .encoding = dense ? "" : std::string(tensor.type->name)});
    }
  }

  std::span<const TensorEntry> entries() const override { return entries_; }
  Metadata metadata() const override { return header_.metadata; }
  RawTensor elements(std::size_t index) const override {
    const GgufTensor& tensor = header_.tensors[index];
    const Encoding encoding = packed_ ? encoding_of(*tensor.type) : Encoding::dense;
    if (encoding == Encoding::dense || tensor.bytes == 0) return gguf_elements(file_, tensor);
    return {.type = StoredType::f32,
            .shape = tensor.shape,
            .bytes = file_.bytes.subspan(tensor.offset, tensor.bytes),
            .owner = file_.owner,
            .encoding = encoding};
  }

 private:
  os::FileBytes file_;
  GgufHeader header_;
  bool packed_;
  std::vector<TensorEntry> entries_;
};

}  // namespace

GgufHeader parse_gguf(const os::FileBytes& file) {
  return Parser(file).parse();
}

namespace {

// Of files of one model; `fallback` where there is no such number, unless that is negative.
std::int64_t split_number(const std::string& path, const Metadata& metadata, const char* key, std::int64_t fallback) {
  const auto found = metadata.find(key);
  const auto fail = [&](std::string_view what) { throw FormatError(fmt::format("{}: {}: {}", path, key, what)); };
  if (found == metadata.end()) {
    if (fallback < 0) fail("is missing");
    return fallback;
  }
  std::int64_t number = -1;
  try {
    number = found->second.as_integer();
  } catch (const ValueError&) {
    fail(fmt::format("is {}, not an integer", found->second.kind()));
  }
  if (number < 0 || number > INT32_MAX) fail(fmt::format("{} is not from 0 to {}", number, INT32_MAX));
  return number;
}

}  // namespace

std::vector<std::string> gguf_files(const std::string& path, const Metadata& metadata) {
  const std::int64_t count = split_number(path, metadata, kGgufSplitCount, 1);
  if (count <= 1) return {path};
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (count > 65'535 || !path.ends_with(ending)) {
    throw FormatError(fmt::format("{}: {}: the model is in {} files; give the first one, whose name ends in {}", path,
                                  kGgufSplitCount, count, ending));
  }
  std::vector<std::string> files;
  for (std::int64_t i = 1; i <= count; ++i) {
    files.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", path.substr(0, path.size() - ending.size()), i, count));
  }
  return files;
}

void check_gguf_file(const std::vector<std::string>& files, std::size_t number, const Metadata& metadata) {
  const auto check = [&](const char* key, std::size_t wanted) {
    if (split_number(files[number], metadata, key, -1) != static_cast<std::int64_t>(wanted)) {
      throw FormatError(fmt::format("{}: {}: is not {}", files[number], key, wanted));
    }
  };
  check("split.no", number);
  check(kGgufSplitCount, files.size());
}

void check_gguf_count(const std::string& path, const Metadata& metadata, std::size_t tensors) {
  constexpr const char* kKey = "split.tensors.count";
  const auto there = static_cast<std::int64_t>(tensors);
  if (split_number(path, metadata, kKey, there) == there) return;
  throw FormatError(fmt::format("{}: {}: the files have {} tensors", path, kKey, there));
}

RawTensor gguf_elements(const os::FileBytes& file, const GgufTensor& tensor) {
  const std::span<const std::byte> stored = file.bytes.subspan(tensor.offset, tensor.bytes);
  if (tensor.type->dense) return {*tensor.type->dense, tensor.shape, stored, file.owner};
  if (tensor.type->decode == nullptr) {
    throw FormatError(fmt::format("{}: tensor {}: elements of type {} cannot be decoded", file.path,
                                  in_quotes(tensor.name), tensor.type->name));
  }
  // The number of blocks is that of bytes in the file, so the values are at most 43 times as large as it.
  const auto values = std::make_shared<std::vector<float>>(tensor.bytes / tensor.type->bytes * tensor.type->elements);
  decode_blocks(*tensor.type, stored, *values);
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const float>(*values));
  return {StoredType::f32, tensor.shape, bytes, values};
}

std::unique_ptr<TensorSource> open_gguf(os::FileBytes file, const OpenOptions& options) {
  return std::make_unique<GgufSource>(std::move(file), options.packed);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
