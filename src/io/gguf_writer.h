// The writer behind save_gguf and quantize_gguf: tensors are described first, and their bytes asked for one by one, so
// that a file larger than memory can be written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/io/metadata.h>

#include "core/os.h"
#include "io/gguf.h"

namespace lockstep {
inline namespace v0 {
namespace io {

/// A tensor to be written. `bytes` is called once, in the order of the list, and gives as many as type and shape ask.
struct GgufPart {
  std::string name;
  const BlockType* type = nullptr;
  Shape shape;
  std::function<std::vector<std::byte>()> bytes;
};

/// Everything wrong with names, shapes and metadata is found before a file exists. Throws ValueError or IoError.
void write_gguf(const std::string& path, const std::vector<GgufPart>& parts, const Metadata& metadata,
                os::SystemCalls& calls);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
