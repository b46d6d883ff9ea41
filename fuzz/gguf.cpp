// The header of a GGUF file, and every value that its tensors hold, decoded where they are packed.
#include "io/gguf.h"
#include "fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const io::GgufHeader header = io::parse_gguf(file);
    std::uint64_t bytes = 0;
    for (const io::GgufTensor& tensor : header.tensors) bytes += tensor.bytes;
    if (bytes > size) __builtin_trap();  // spans that overlap
    for (const auto& [key, value] : header.metadata) {
      const std::string text = value.to_string();
      hash_bytes(std::as_bytes(std::span(text)));
    }
    for (const io::GgufTensor& tensor : header.tensors) fuzz::touch(io::gguf_elements(file, tensor));
  });
}
