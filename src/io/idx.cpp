#include <lockstep/io/idx.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/formats.h"
#include "io/gzip.h"
#include "io/idx_parser.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// Zero, zero, type, rank, and a size of four bytes per dimension.
constexpr std::size_t kMaxIdxHeaderBytes = 4 + 4 * static_cast<std::size_t>(kMaxRank);

struct IdxHeader {
  DType dtype;
  Shape shape;
  std::size_t header_bytes;
  CheckedSize bytes;  ///< of the whole content
};

DType dtype_of_code(const ByteReader& reader, int code) {
  switch (code) {
    case 0x08: return DType::u8;
    case 0x09: return DType::i8;
    case 0x0b: return DType::i16;
    case 0x0c: return DType::i32;
    case 0x0d: return DType::f32;
    case 0x0e: return DType::f64;
    default: reader.fail_at(2, fmt::format("{:#04x} is no type of idx elements", code));
  }
}

std::uint32_t big_endian(std::uint32_t value) {
  return __builtin_bswap32(value);
}

IdxHeader parse_header(std::string_view name, std::span<const std::byte> bytes) {
  ByteReader reader(name, bytes);
  const bool begins_with_zeros = bytes.size() >= 2 && bytes[0] == std::byte{0} && bytes[1] == std::byte{0};
  if (!begins_with_zeros) reader.fail_at(0, fmt::format("is not an idx file: {}", describe_start(bytes)));
  reader.take(2, "the start");
  IdxHeader header{dtype_of_code(reader, reader.u8("the type of the elements")), {}, 0, {}};
  const int rank = reader.u8("the number of dimensions");
  if (rank > kMaxRank) reader.fail_at(3, fmt::format("{} dimensions are more than {}", rank, kMaxRank));
  CheckedSize elements = 1;
  CheckedSize strides = 1;  // what indices are computed with must not overflow where there is no element either
  for (int d = 0; d < rank; ++d) {
    const std::uint32_t size = big_endian(reader.u32("a size"));
    header.shape.push_back(size);
    elements *= size;
    strides *= std::max(size, 1u);
  }
  if (!(strides * size_of(header.dtype)).at_most(INT64_MAX)) {
    reader.fail(fmt::format("shape {} is too large", header.shape.to_string()));
  }
  header.header_bytes = reader.position();
  header.bytes = elements * size_of(header.dtype) + header.header_bytes;
  return header;
}

}  // namespace

Tensor parse_idx(std::string_view name, std::span<const std::byte> bytes) {
  const bool packed = is_gzip(bytes);
  std::vector<std::byte> unpacked;
  if (packed) unpacked = gunzip(name, bytes, kMaxIdxHeaderBytes);
  const IdxHeader header = parse_header(name, packed ? std::span<const std::byte>(unpacked) : bytes);
  if (packed) {
    // One byte more than there may be: then the end of the file and its checksum are read, and a longer one shows.
    const bool possible = (header.bytes + 1).at_most(SIZE_MAX);
    unpacked = gunzip(name, bytes, possible ? static_cast<std::size_t>(header.bytes.value()) + 1 : kMaxIdxHeaderBytes);
    bytes = unpacked;
  }
  if (!header.bytes.equals(bytes.size())) {
    throw FormatError(fmt::format("{}: {} {} needs {} bytes with its header, and the file holds {}{}", name,
                                  name_of(header.dtype), header.shape.to_string(), header.bytes.to_string(),
                                  packed && bytes.size() > header.bytes.value() ? "at least " : "", bytes.size()));
  }
  const std::span<const std::byte> data = bytes.subspan(header.header_bytes);
  const std::size_t element = size_of(header.dtype);
  if (element == 1) return Tensor::from_bytes(data.data(), data.size(), header.shape, header.dtype, Device{});
  std::vector<std::byte> values(data.begin(), data.end());
  for (auto at = values.begin(); at != values.end(); at += static_cast<std::ptrdiff_t>(element)) {
    std::reverse(at, at + static_cast<std::ptrdiff_t>(element));
  }
  return Tensor::from_bytes(values.data(), values.size(), header.shape, header.dtype, Device{});
}

Tensor load_idx(const std::string& path) {
  return parse_idx(path, os::read_file(path).bytes);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
