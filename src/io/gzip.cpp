#include "io/gzip.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace io {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(std::string_view name, std::span<const std::byte> packed, std::size_t limit) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  constexpr int kGzip = 16;  // added to the window bits: expect gzip's header and checksum
  const auto refuse = [&](std::string_view why) { throw FormatError(fmt::format("{}: gzip: {}", name, why)); };
  z_stream stream{};
  if (::inflateInit2(&stream, MAX_WBITS + kGzip) != Z_OK) throw OutOfMemoryError("zlib: no memory to unpack with");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);

  // At once, as far as deflate can get (1,032 times its size): pages are taken as they are filled, and a vector that grew
  // would hold its content twice at times.
  std::vector<std::byte> result;
  result.reserve(std::min(limit, packed.size() * 1032));
  std::size_t read = 0;
  int status = Z_OK;
  while (status == Z_OK && result.size() < limit) {
    const std::size_t before = result.size();
    result.resize(std::min(limit, before + kStep));
    const std::size_t take = std::min(packed.size() - read, kStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(take);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + before);
    stream.avail_out = static_cast<uInt>(result.size() - before);
    status = ::inflate(&stream, Z_NO_FLUSH);
    read += take - stream.avail_in;
    result.resize(result.size() - stream.avail_out);
    const bool stuck = status == Z_OK && take == stream.avail_in && result.size() == before;
    if (status == Z_BUF_ERROR || stuck) refuse("the file is cut short");
  }
  if (status == Z_MEM_ERROR) throw OutOfMemoryError("zlib: no memory to unpack with");
  if (status != Z_OK && status != Z_STREAM_END) {
    refuse(fmt::format("the file is damaged ({})", stream.msg == nullptr ? "no reason given" : stream.msg));
  }
  if (status == Z_STREAM_END && read != packed.size()) {
    refuse(fmt::format("{} bytes follow its end", packed.size() - read));
  }
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
