#include "io/hub/checksum.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string digest(const EVP_MD* kind, std::string_view prefix, std::span<const std::byte> bytes) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  unsigned char result[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  const bool done = context && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1 &&
                    EVP_DigestUpdate(context.get(), prefix.data(), prefix.size()) == 1 &&
                    EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1 &&
                    EVP_DigestFinal_ex(context.get(), result, &length) == 1;
  if (!done) throw IoError("libcrypto cannot compute a checksum");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", result[i]);
  return text;
}

}  // namespace

bool has_content(const std::string& path, const std::string& name) {
  const bool is_hexadecimal =
      std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!is_hexadecimal || (name.size() != 64 && name.size() != 40)) return true;
  const os::FileBytes file = os::map_file(path);
  if (name.size() == 64) return digest(EVP_sha256(), "", file.bytes) == name;
  std::string prefix = fmt::format("blob {}", file.bytes.size());
  prefix += '\0';
  return digest(EVP_sha1(), prefix, file.bytes) == name;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
