#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

#include "io/formats.h"
#include "io/raw_tensor.h"
#include "io/reading.h"
#include "io/safetensors_header.h"

namespace lockstep {
inline namespace v0 {
namespace io {

struct SafetensorsReader::File {
  os::FileBytes bytes;
  SafetensorsHeader header;
};

SafetensorsReader::SafetensorsReader(const std::string& path, LoadOptions options) {
  os::FileBytes bytes = open_file(path, options);
  SafetensorsHeader header = reading(path, [&] { return parse_safetensors_header(bytes); });
  file_ = std::make_shared<const File>(File{std::move(bytes), std::move(header)});
}

const std::vector<TensorEntry>& SafetensorsReader::entries() const {
  return file_->header.entries;
}
const std::map<std::string, std::string>& SafetensorsReader::metadata() const {
  return file_->header.metadata;
}

Tensor SafetensorsReader::load(std::string_view name) const {
  const SafetensorsHeader& header = file_->header;
  const auto found = std::lower_bound(header.by_name.begin(), header.by_name.end(), name,
                                      [&](std::uint32_t i, std::string_view n) { return header.entries[i].name < n; });
  if (found == header.by_name.end() || header.entries[*found].name != name) {
    throw ValueError(fmt::format("{}: there is no tensor {}", file_->bytes.path, in_quotes(name)));
  }
  return load(header.entries[*found]);
}

Tensor SafetensorsReader::load(const TensorEntry& entry) const {
  return to_tensor(raw_tensor(file_->bytes, entry), file_->bytes.path, entry.name);
}

std::unique_ptr<TensorSource> open_safetensors(os::FileBytes file, const OpenOptions&) {
  SafetensorsHeader header = parse_safetensors_header(file);
  // Moved, not copied: texts may be most of a file.
  Metadata metadata;
  while (!header.metadata.empty()) {
    auto text = header.metadata.extract(header.metadata.begin());
    metadata.emplace_hint(metadata.end(), std::move(text.key()), std::move(text.mapped()));
  }
  return std::make_unique<MappedSource>(std::move(file), std::move(header.entries), std::move(metadata));
}

TensorFile load_safetensors(const std::string& path, LoadOptions options) {
  const SafetensorsReader reader(path, options);
  TensorFile result;
  for (const TensorEntry& entry : reader.entries()) result.tensors.emplace(entry.name, reader.load(entry));
  result.metadata = reader.metadata();
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
