// TensorProto: what it says at once, its elements when they are wanted. Elements lie in the file as they are in memory
// (raw_data, external files), or as numbers of the protocol, which are decoded.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/onnx.h>

#include "core/assert.h"
#include "core/os_confined.h"
#include "io/onnx/model.h"
#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// TensorProto.DataType. `field` holds typed elements: 4 float_data, 5 int32_data, 7 int64_data, 10 double_data,
// 11 uint64_data; complex numbers are two floats.
struct DataTypeRow {
  std::string_view name;
  std::optional<StoredType> stored;
  std::uint32_t field = 0;
  Narrow narrow = Narrow::none;  // `stored` is what they are unpacked into
};
constexpr std::array<DataTypeRow, 27> kDataTypes = {{
    {"undefined", {}, 0},
    {"float", StoredType::f32, 4},
    {"uint8", StoredType::u8, 5},
    {"int8", StoredType::i8, 5},
    {"uint16", StoredType::u16, 5},
    {"int16", StoredType::i16, 5},
    {"int32", StoredType::i32, 5},
    {"int64", StoredType::i64, 7},
    {"string", {}, 6},
    {"bool", StoredType::boolean, 5},
    {"float16", StoredType::f16, 5},
    {"double", StoredType::f64, 10},
    {"uint32", StoredType::u32, 11},
    {"uint64", StoredType::u64, 11},
    {"complex64", StoredType::c64, 4},
    {"complex128", StoredType::c128, 10},
    {"bfloat16", StoredType::bf16, 5},
    {"float8e4m3fn", StoredType::f8_e4m3, 5},
    {"float8e4m3fnuz", {}, 5},
    {"float8e5m2", StoredType::f8_e5m2, 5},
    {"float8e5m2fnuz", {}, 5},
    {"uint4", StoredType::u8, 5, Narrow::u4},
    {"int4", StoredType::i8, 5, Narrow::i4},
    {"float4e2m1", StoredType::f32, 5, Narrow::f4e2m1},
    {"float8e8m0", {}, 5},
    {"uint2", StoredType::u8, 5, Narrow::u2},
    {"int2", StoredType::i8, 5, Narrow::i2},
}};

const DataTypeRow* find_data_type(std::int64_t type) {
  if (type < 0 || type >= static_cast<std::int64_t>(kDataTypes.size())) return nullptr;
  return &kDataTypes[static_cast<std::size_t>(type)];
}

std::uint64_t parse_number(MessageReader& reader, std::string_view key, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    reader.fail(fmt::format("states the {} {} of external data", key, in_quotes(text)));
  }
  return value;
}

// One key and value of external data. `seen` has a bit for each key.
void read_external(std::string_view file, Bytes message, ModelTensor& tensor, unsigned& seen) {
  MessageReader reader(file, message, "an entry of external data");
  std::string_view key;
  std::string_view value;
  Field field;
  while (reader.next(field)) {
    if (field.number == 1) key = reader.text(field);
    if (field.number == 2) value = reader.text(field);
  }
  constexpr std::array<std::string_view, 4> kKeys = {"location", "offset", "length", "checksum"};
  const auto row = std::find(kKeys.begin(), kKeys.end(), key);
  if (row == kKeys.end()) reader.fail(fmt::format("has the key {}", in_quotes(key)));
  const unsigned bit = 1u << (row - kKeys.begin());
  if ((seen & bit) != 0) reader.fail(fmt::format("repeats the key {}", in_quotes(key)));
  seen |= bit;
  if (key == "location") tensor.location = value;
  if (key == "offset") tensor.offset = parse_number(reader, key, value);
  if (key == "length") tensor.length = parse_number(reader, key, value);
}

Shape shape_of(const ModelTensor& tensor, std::string_view file) {
  if (tensor.dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw UnsupportedError(fmt::format("{}: tensor {} has {} dimensions; {} are supported", file,
                                       in_quotes(tensor.name), tensor.dims.size(), kMaxRank));
  }
  return Shape(tensor.dims);
}

template <typename T> void append(std::vector<std::byte>& bytes, T value) {
  const auto* start = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), start, start + sizeof(T));
}

// The low bytes of each number: int32_data holds u8, f16 and all the others of at most 32 bits, and bytes
// of packed elements.
std::vector<std::byte> typed_elements(const ModelTensor& tensor, std::string_view file, const DataTypeRow& row,
                                      std::size_t bytes) {
  std::vector<std::byte> result;
  const bool fixed32 = row.field == 4;
  const bool fixed64 = row.field == 10;
  const Wire wire = fixed32 ? Wire::fixed32 : fixed64 ? Wire::fixed64 : Wire::varint;
  const std::size_t each = fixed32 ? 4 : fixed64 ? 8 : row.narrow != Narrow::none ? 1 : size_of(*row.stored);
  MessageReader reader(file, tensor.message, "a tensor");
  Field field;
  while (reader.next(field)) {
    if (field.number != row.field) continue;
    for_each_number(file, field, wire, [&](std::uint64_t value) {
      if (result.size() + each > bytes) reader.fail(fmt::format("{} has too many elements", in_quotes(tensor.name)));
      const auto* start = reinterpret_cast<const std::byte*>(&value);
      result.insert(result.end(), start, start + each);
    });
  }
  return result;
}

std::span<const std::byte> external_elements(const ModelTensor& tensor, std::string_view file, ExternalFiles* external,
                                             std::uint64_t bytes, std::shared_ptr<const void>& owner) {
  const auto refuse = [&](std::string_view why) {
    throw FormatError(fmt::format("{}: tensor {} {}", file, in_quotes(tensor.name), why));
  };
  if (external == nullptr) refuse("lies in another file, which is not read here");
  auto opened = external->opened.find(tensor.location);
  if (opened == external->opened.end()) {
    os::FileBytes found = os::map_confined_file(external->folder, tensor.location, external->root);
    if (!external->map) {
      auto copy = std::make_shared<const std::vector<std::byte>>(found.bytes.begin(), found.bytes.end());
      found = {found.path, *copy, copy};
    }
    opened = external->opened.emplace(tensor.location, std::move(found)).first;
  }
  const os::FileBytes& other = opened->second;
  if (tensor.length && *tensor.length != bytes) {
    refuse(fmt::format("is of {} bytes, but {} are stated", bytes, *tensor.length));
  }
  if (!(CheckedSize(tensor.offset) + bytes).at_most(other.bytes.size())) {
    refuse(fmt::format("lies outside of {}", in_quotes(tensor.location)));
  }
  owner = other.owner;
  return other.bytes.subspan(tensor.offset, bytes);
}

}  // namespace

std::optional<StoredType> stored_type_of(std::int64_t data_type) {
  const DataTypeRow* row = find_data_type(data_type);
  return row == nullptr ? std::nullopt : row->stored;
}

std::optional<ElementType> element_type_of(std::int64_t data_type) {
  const DataTypeRow* row = find_data_type(data_type);
  const std::optional<DType> dtype = row != nullptr && row->stored ? tensor_dtype(*row->stored) : std::nullopt;
  return dtype ? std::optional(ElementType{*dtype, row->narrow}) : std::nullopt;
}

std::optional<DType> dtype_of(std::int64_t data_type) {
  const std::optional<ElementType> type = element_type_of(data_type);
  return type && type->narrow == Narrow::none ? std::optional(type->dtype) : std::nullopt;
}

CheckedSize bytes_in_file(std::int64_t data_type, const Shape& shape) {
  const DataTypeRow* row = find_data_type(data_type);
  LOCKSTEP_ASSERT(row != nullptr && row->stored);
  const CheckedSize elements = element_count(shape);
  const bool packed = row->narrow != Narrow::none && elements.at_most(std::uint64_t{1} << 62);
  if (!packed) return elements * size_of(*row->stored);
  const auto in_byte = 8 / static_cast<std::uint64_t>(form_of(row->narrow).bits);
  return (elements.value() + in_byte - 1) / in_byte;
}

std::string name_of_type(std::int64_t data_type) {
  const DataTypeRow* row = find_data_type(data_type);
  return row == nullptr ? fmt::format("type {}", data_type) : std::string(row->name);
}

ModelTensor parse_tensor(std::string_view file, Bytes message) {
  ModelTensor tensor{.message = message};
  MessageReader reader(file, message, "a tensor");
  std::uint32_t typed = 0;  // the field that holds elements
  unsigned external_keys = 0;
  std::int64_t location = 0;
  Field field;
  while (reader.next(field)) {
    switch (field.number) {
      case 1:
        for_each_number(file, field, Wire::varint, [&](std::uint64_t size) {
          if (tensor.dims.size() == 64) reader.fail("has more than 64 dimensions");
          tensor.dims.push_back(static_cast<std::int64_t>(size));
        });
        break;
      case 2: tensor.type = reader.integer(field); break;
      case 3: reader.fail("is in segments, which nobody writes");
      case 4:
      case 5:
      case 6:
      case 7:
      case 10:
      case 11:
        if (typed != 0 && typed != field.number) reader.fail("has elements in two fields");
        typed = field.number;
        break;
      case 8: tensor.name = reader.text(field); break;
      case 9: tensor.raw = reader.message(field); break;
      case 13: read_external(file, reader.repeated_message(field), tensor, external_keys); break;
      case 14: location = reader.integer(field); break;
      default: break;
    }
  }
  if (tensor.name.size() > 65'536) reader.fail("has a name of more than 65,536 bytes");
  const DataTypeRow* row = find_data_type(tensor.type);
  if (row == nullptr || tensor.type == 0)
    reader.fail(fmt::format("{} is of type {}", in_quotes(tensor.name), tensor.type));
  if (tensor.raw && tensor.raw->empty()) tensor.raw.reset();  // how some write "none"
  if (tensor.raw && typed != 0) reader.fail(fmt::format("{} has raw and typed elements", in_quotes(tensor.name)));
  if (typed != 0 && typed != row->field) {
    reader.fail(fmt::format("{} of type {} has its elements in field {}", in_quotes(tensor.name), row->name, typed));
  }
  if (location < 0 || location > 1)
    reader.fail(fmt::format("{} lies in location {}", in_quotes(tensor.name), location));
  tensor.external = location == 1;
  if (tensor.external != (external_keys != 0) || (tensor.external && (tensor.raw || typed != 0))) {
    reader.fail(fmt::format("{} does not say clearly whether it lies in another file", in_quotes(tensor.name)));
  }
  if (tensor.external && tensor.location.empty())
    reader.fail(fmt::format("{} lies in a file without name", in_quotes(tensor.name)));
  CheckedSize elements = 1;
  bool empty = false;
  for (const std::int64_t size : tensor.dims) {
    if (size < 0) reader.fail(fmt::format("{} has a size of {}", in_quotes(tensor.name), size));
    if (size == 0)
      empty = true;
    else
      elements *= static_cast<std::uint64_t>(size);
  }
  if (!elements.at_most(std::uint64_t{1} << 60) && !empty) {
    reader.fail(fmt::format("{} has too many elements", in_quotes(tensor.name)));
  }
  return tensor;
}

RawTensor elements_of(const ModelTensor& tensor, const os::FileBytes& file, ExternalFiles* external) {
  const DataTypeRow* row = find_data_type(tensor.type);
  if (row == nullptr || !row->stored) {
    throw UnsupportedError(fmt::format("{}: tensor {} is of type {}, which tensors do not have", file.path,
                                       in_quotes(tensor.name), name_of_type(tensor.type)));
  }
  RawTensor result{.type = *row->stored, .shape = shape_of(tensor, file.path)};
  const CheckedSize bytes = bytes_in_file(tensor.type, result.shape);
  const auto check_size = [&](std::uint64_t found) {
    if (bytes.equals(found)) return;
    throw FormatError(fmt::format("{}: tensor {} of {} has {} bytes of elements", file.path, in_quotes(tensor.name),
                                  name_of_type(tensor.type) + " " + result.shape.to_string(), found));
  };
  if (tensor.external) {
    if (!bytes.at_most(std::uint64_t{1} << 62)) check_size(0);
    result.bytes = external_elements(tensor, file.path, external, bytes.value(), result.owner);
  } else if (tensor.raw) {
    result.bytes = tensor.raw->bytes;
    result.owner = file.owner;
    check_size(result.bytes.size());
  } else {
    if (!bytes.at_most(std::uint64_t{1} << 62)) check_size(0);
    auto decoded = std::make_shared<std::vector<std::byte>>(typed_elements(tensor, file.path, *row, bytes.value()));
    check_size(decoded->size());
    result.bytes = *decoded;
    result.owner = std::move(decoded);
  }
  if (row->narrow != Narrow::none) {
    const auto count = static_cast<std::size_t>(element_count(result.shape).value());
    auto elements = std::make_shared<const std::vector<std::byte>>(unpacked(row->narrow, result.bytes, count));
    result.bytes = *elements;
    result.owner = std::move(elements);
  }
  return result;
}

Value value_of(const ModelTensor& tensor, const os::FileBytes& file, ExternalFiles* external) {
  const RawTensor raw = elements_of(tensor, file, external);
  Tensor elements = io::to_tensor(raw, file.path, tensor.name);
  return {std::move(elements), find_data_type(tensor.type)->narrow};
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
