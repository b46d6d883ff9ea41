// The header of a GGUF file, and every value that its tensors hold, decoded where they are packed; and what metadata,
// names and shapes make of a decoder, by the rule of its architecture.
#include "io/gguf.h"
#include "fuzz_target.h"
#include "io/formats.h"
#include "models/language/gguf_config.h"

LOCKSTEP_FUZZ_TARGET(gguf) {
  using namespace lockstep;
  fuzz::expect_error_or_success([&] {
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
  return fuzz::expect_error_or_success([&] {
    const auto source = io::open_gguf(fuzz::file_of(data, size), {.packed = true});
    io::TensorMap tensors;
    for (std::size_t i = 0; i < source->entries().size(); ++i) {
      const std::string& name = source->entries()[i].name;
      tensors.emplace(name, io::to_tensor(source->elements(i), "input", name));
    }
    models::read_gguf_config(source->metadata(), tensors, "input");
  });
}
