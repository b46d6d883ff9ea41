// Recognises files by their first bytes. A guess that says which parser to ask; the parser then checks everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace io {

enum class FileFormat : std::uint8_t { safetensors, zip, pickle, npy, png, jpeg, unknown };

FileFormat recognise(std::span<const std::byte> bytes);

/// What the file seems to be, for an error that says it is not what was wanted: "it is a GGUF file", "it is empty",
/// "it begins with the bytes 61 62 63".
std::string describe_start(std::span<const std::byte> bytes);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
