// Texts that a program carries compressed: kernels for GPUs and the server's page, 230 KB of which few programs read any
// (cmake/EmbedTexts.cmake packs them), and a large table (tools/make_unicode_tables.py).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {

class PackedTexts {
 public:
  /// `packed` is a deflate stream without a header: the texts one after the other, of `sizes` bytes.
  /// Throws InternalError where it is not.
  PackedTexts(std::span<const unsigned char> packed, std::span<const std::size_t> sizes);
  PackedTexts(const PackedTexts&) = delete;
  PackedTexts& operator=(const PackedTexts&) = delete;

  std::span<const std::string_view> texts() const { return texts_; }

 private:
  std::string joined_;
  std::vector<std::string_view> texts_;
};

}  // namespace v0
}  // namespace lockstep
