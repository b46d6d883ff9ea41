#include "io/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>

#include "core/assert.h"
#include "core/checked.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

template <typename T> constexpr GgufValueType gguf_value_type() {
  if constexpr (std::is_same_v<T, std::string>) return GgufValueType::text;
  if constexpr (std::is_same_v<T, bool>) return GgufValueType::boolean;
  if constexpr (std::is_same_v<T, std::uint8_t>) return GgufValueType::u8;
  if constexpr (std::is_same_v<T, std::int8_t>) return GgufValueType::i8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return GgufValueType::u16;
  if constexpr (std::is_same_v<T, std::int16_t>) return GgufValueType::i16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return GgufValueType::u32;
  if constexpr (std::is_same_v<T, std::int32_t>) return GgufValueType::i32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return GgufValueType::u64;
  if constexpr (std::is_same_v<T, std::int64_t>) return GgufValueType::i64;
  if constexpr (std::is_same_v<T, float>) return GgufValueType::f32;
  if constexpr (std::is_same_v<T, double>) return GgufValueType::f64;
}

template <typename T> inline constexpr bool kIsArray = false;
template <typename T> inline constexpr bool kIsArray<std::vector<T>> = true;

// The bytes before the data.
class GgufHeaderWriter {
 public:
  explicit GgufHeaderWriter(const std::string& path) : path_(path) {}

  template <typename T> void number(T value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    bytes_.append(bytes, sizeof value);
  }
  void magic() { bytes_ += "GGUF"; }
  void text(const std::string& value) {
    number<std::uint64_t>(value.size());
    bytes_ += value;
  }

  void metadata(const std::string& key, const MetadataValue& value) {
    if (key.empty() || key.size() > kMaxGgufKey) {
      throw ValueError(fmt::format("{}: the metadata key {} has {} bytes, not 1 to {}", path_,
                                   in_quotes(std::string_view(key).substr(0, 80)), key.size(), kMaxGgufKey));
    }
    text(key);
    std::visit([&](const auto& v) { this->value(key, v); }, value.variant());
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T> void element(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      text(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      number<std::uint8_t>(value ? 1 : 0);
    } else {
      number(value);
    }
  }

  template <typename T> void value(const std::string& key, const T& value) {
    if constexpr (std::is_same_v<T, std::vector<MetadataValue>>) {
      throw ValueError(fmt::format("{}: metadata {} is an array of arrays, which GGUF has not", path_, in_quotes(key)));
    } else if constexpr (kIsArray<T>) {
      using Element = typename T::value_type;
      number(GgufValueType::array);
      number(gguf_value_type<Element>());
      number<std::uint64_t>(value.size());
      for (const auto& item : value) element<Element>(item);
    } else {
      number(gguf_value_type<T>());
      element(value);
    }
  }

  const std::string& path_;
  std::string bytes_;
};

std::uint64_t alignment_of(const std::string& path, const Metadata& metadata) {
  const auto found = metadata.find(kGgufAlignmentKey);
  if (found == metadata.end()) return kDefaultGgufAlignment;
  const auto* value = found->second.get_if<std::uint32_t>();
  if (value == nullptr || !std::has_single_bit(*value) || *value > kMaxGgufAlignment) {
    throw ValueError(fmt::format("{}: {} is {} ({}), not a power of two of type u32, of at most {}", path,
                                 kGgufAlignmentKey, found->second.to_string(), found->second.kind(),
                                 kMaxGgufAlignment));
  }
  return *value;
}

std::uint64_t aligned(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::uint64_t bytes_of_part(const GgufPart& part) {
  const auto elements = element_count(part.shape).value();
  return elements / part.type->elements * part.type->bytes;
}

void check_gguf_parts(const std::string& path, const std::vector<GgufPart>& parts, const Metadata& metadata) {
  if (parts.size() > kMaxGgufEntries || metadata.size() > kMaxGgufEntries) {
    throw ValueError(fmt::format("{}: {} tensors and {} metadata values; GGUF files hold at most {} of each", path,
                                 parts.size(), metadata.size(), kMaxGgufEntries));
  }
  std::set<std::string_view> names;
  for (const GgufPart& part : parts) {
    const std::string what = fmt::format("{}: tensor {}", path, in_quotes(part.name));
    if (part.name.empty() || part.name.size() > kMaxGgufTensorName) {
      throw ValueError(
          fmt::format("{}: its name has {} bytes, not 1 to {}", what, part.name.size(), kMaxGgufTensorName));
    }
    if (!names.insert(part.name).second) throw ValueError(what + " appears twice");
    if (part.shape.rank() > static_cast<int>(kMaxGgufRank)) {
      throw ValueError(fmt::format("{} {} has more than {} dimensions", what, part.shape.to_string(), kMaxGgufRank));
    }
    const std::int64_t row = part.shape.rank() == 0 ? 1 : part.shape[part.shape.rank() - 1];
    if (row % part.type->elements != 0) {
      throw ValueError(fmt::format("{}: rows of {} elements are no blocks of {} ({})", what, row, part.type->elements,
                                   part.type->name));
    }
  }
}

std::string gguf_header(const std::string& path, const std::vector<GgufPart>& parts, const Metadata& metadata,
                        std::uint64_t alignment) {
  GgufHeaderWriter header(path);
  header.magic();
  header.number<std::uint32_t>(3);
  header.number<std::uint64_t>(parts.size());
  header.number<std::uint64_t>(metadata.size());
  for (const auto& [key, value] : metadata) header.metadata(key, value);
  std::uint64_t offset = 0;
  for (const GgufPart& part : parts) {
    header.text(part.name);
    header.number(static_cast<std::uint32_t>(part.shape.rank()));
    for (auto d = part.shape.rank(); d-- > 0;) header.number(static_cast<std::uint64_t>(part.shape[d]));
    header.number(part.type->id);
    header.number(offset);
    offset += aligned(bytes_of_part(part), alignment);
  }
  return header.bytes();
}

const BlockType& dense_type(const std::string& path, const std::string& name, DType dtype) {
  for (const BlockType& type : block_types()) {
    if (type.dense && *type.dense == stored_type(dtype)) return type;
  }
  throw ValueError(fmt::format("{}: tensor {}: GGUF has no elements of {}", path, in_quotes(name), name_of(dtype)));
}

}  // namespace

void write_gguf(const std::string& path, const std::vector<GgufPart>& parts, const Metadata& metadata,
                os::SystemCalls& calls) {
  check_gguf_parts(path, parts, metadata);
  const std::uint64_t alignment = alignment_of(path, metadata);
  const std::string header = gguf_header(path, parts, metadata, alignment);
  const auto padding = [&](std::uint64_t bytes) { return std::string(aligned(bytes, alignment) - bytes, '\0'); };
  os::AtomicFile file(path, calls);
  file.write(header);
  file.write(padding(header.size()));
  for (const GgufPart& part : parts) {
    const std::vector<std::byte> bytes = part.bytes();
    LOCKSTEP_ASSERT(bytes.size() == bytes_of_part(part));
    file.write(bytes);
    file.write(padding(bytes.size()));
  }
  file.commit();
}

void save_gguf(const std::string& path, const TensorMap& tensors, const Metadata& metadata) {
  std::vector<GgufPart> parts;
  for (const auto& [name, tensor] : tensors) {
    check_defined(path, name, tensor);
    if (tensor.encoding() != Encoding::dense) {
      throw DTypeError(fmt::format("{}: tensor {} is packed ({}); dequantize makes it dense", path, in_quotes(name),
                                   name_of(tensor.encoding())));
    }
    parts.push_back({name, &dense_type(path, name, tensor.dtype()), tensor.shape(),
                     [&value = tensor] { return elements_of(value); }});
  }
  write_gguf(path, parts, metadata, os::system_calls());
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
