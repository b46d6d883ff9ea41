#include "io/file_format.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  FileFormat format;
  const char* name;
};

constexpr std::array kMagics = {
    Magic{"PK\x03\x04"sv, FileFormat::zip, "a zip file"},
    Magic{"PK\x05\x06"sv, FileFormat::zip, "an empty zip file"},
    Magic{"\x89PNG\r\n\x1a\n"sv, FileFormat::png, "a PNG image"},
    Magic{"\xff\xd8\xff"sv, FileFormat::jpeg, "a JPEG image"},
    Magic{"\x80\x02"sv, FileFormat::pickle, "a pickle"},
    Magic{"\x80\x03"sv, FileFormat::pickle, "a pickle"},
    Magic{"\x80\x04"sv, FileFormat::pickle, "a pickle"},
    Magic{"\x80\x05"sv, FileFormat::pickle, "a pickle"},
    Magic{"GGUF"sv, FileFormat::unknown, "a GGUF file, which is not read yet"},
    Magic{"\x93NUMPY"sv, FileFormat::npy, "a NumPy .npy file"},
    Magic{"\x89HDF\r\n\x1a\n"sv, FileFormat::unknown, "an HDF5 file, which is not read"},
    Magic{"\x1f\x8b"sv, FileFormat::unknown, "compressed by gzip; unpack it first"},
    Magic{"GIF8"sv, FileFormat::unknown, "a GIF image, which is not read"},
    Magic{"BM"sv, FileFormat::unknown, "perhaps a BMP image, which is not read"},
    Magic{"version https://git-lfs"sv, FileFormat::unknown, "a Git LFS pointer; run git lfs pull to get the file"},
    Magic{"<!DOCTYPE"sv, FileFormat::unknown, "a web page; the download failed"},
    Magic{"<html"sv, FileFormat::unknown, "a web page; the download failed"},
};

const Magic* find_magic(std::string_view text) {
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.bytes)) return &magic;
  }
  return nullptr;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

FileFormat recognise(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  // A header's length stands before its brace; one below 2^32 leaves four zeros, which no magic below has there.
  if (text.size() > 8 && text.substr(4, 5) == "\0\0\0\0{"sv) return FileFormat::safetensors;
  const Magic* magic = find_magic(text);
  return magic == nullptr ? FileFormat::unknown : magic->format;
}

std::string describe_start(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "it is empty";
  if (recognise(bytes) == FileFormat::safetensors) return "it looks like a safetensors file";
  if (const Magic* magic = find_magic(text_of(bytes))) return fmt::format("it is {}", magic->name);
  std::string result = "it begins with the bytes";
  for (const std::byte b : bytes.first(std::min<std::size_t>(bytes.size(), 8))) {
    result += fmt::format(" {:02x}", std::to_integer<int>(b));
  }
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
