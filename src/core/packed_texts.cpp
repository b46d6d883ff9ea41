#include "core/packed_texts.h"

#include <zlib.h>

#include <numeric>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {

PackedTexts::PackedTexts(std::span<const unsigned char> packed, std::span<const std::size_t> sizes)
    : joined_(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0') {
  z_stream stream = {};
  stream.next_in = const_cast<unsigned char*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<unsigned char*>(joined_.data());
  stream.avail_out = static_cast<uInt>(joined_.size());
  LOCKSTEP_ASSERT(inflateInit2(&stream, -MAX_WBITS) == Z_OK);  // negative: no header
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  LOCKSTEP_ASSERT(status == Z_STREAM_END && stream.avail_out == 0);
  std::string_view rest = joined_;
  for (const std::size_t size : sizes) {
    texts_.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
}

}  // namespace v0
}  // namespace lockstep
