#include <lockstep/io/weights.h>

#include <algorithm>

#include "io/formats.h"
#include "io/reading.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::string_view kParallelPrefix = "module.";

TensorMap without_parallel_prefix(TensorMap tensors) {
  const bool shared = std::all_of(tensors.begin(), tensors.end(),
                                  [](const auto& item) { return item.first.starts_with(kParallelPrefix); });
  if (!shared) return tensors;
  TensorMap result;
  for (auto& [name, tensor] : tensors) result.emplace(name.substr(kParallelPrefix.size()), std::move(tensor));
  return result;
}

std::unique_ptr<TensorSource> open_source(const std::string& path, const LoadOptions& options, Part part) {
  os::FileBytes file = open_file(path, options);
  const Format& format = readable_format(file);
  return open_tensors(
      format, std::move(file),
      {.part = part, .verify_checksums = options.verify_checksums, .packed = options.packed});
}

}  // namespace

TensorMap load_weights(const std::string& path, LoadOptions options) {
  const std::unique_ptr<TensorSource> source = open_source(path, options, Part::weights);
  return reading(path, [&] {
    TensorMap tensors;
    for (std::size_t i = 0; i < source->entries().size(); ++i) {
      const std::string& name = source->entries()[i].name;
      tensors.emplace(name, to_tensor(source->elements(i), path, name));
    }
    return without_parallel_prefix(std::move(tensors));
  });
}

FileListing list_tensors(const std::string& path, LoadOptions options) {
  os::FileBytes file = open_file(path, options);
  const Format& format = readable_format(file);
  const auto source = open_tensors(format, std::move(file), {.verify_checksums = options.verify_checksums});
  return {format.name, {source->entries().begin(), source->entries().end()}, source->metadata()};
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
