#include "io/safetensors_writer.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

#include "io/raw_tensor.h"
#include "io/safetensors_header.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// Texts as JSON. Only nlohmann's escaping is used: its objects would hold the whole header twice.
std::string json_text(const std::string& path, std::string_view what, const std::string& text) {
  if (text.size() > kMaxNameBytes) {
    throw ValueError(fmt::format("{}: {} {} has more than {} bytes", path, what, in_quotes(text), kMaxNameBytes));
  }
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw ValueError(fmt::format("{}: {} {} is not UTF-8", path, what, in_quotes(text)));
  }
}

void check_tensors(const std::string& path, const TensorMap& tensors) {
  if (tensors.size() > kMaxHeaderTensors) {
    throw ValueError(fmt::format("{}: {} tensors exceed the limit of {}", path, tensors.size(), kMaxHeaderTensors));
  }
  for (const auto& [name, tensor] : tensors) {
    check_defined(path, name, tensor);
    if (name == kMetadataKey) {
      throw ValueError(fmt::format("{}: a tensor cannot be named {}; the format uses this name", path, kMetadataKey));
    }
  }
}

std::uint64_t byte_count(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
}

std::string header_text(const std::string& path, const std::vector<TensorMap::const_iterator>& order,
                        const std::map<std::string, std::string>& metadata) {
  if (metadata.size() > kMaxMetadataKeys) {
    throw ValueError(fmt::format("{}: {} metadata keys exceed the limit of {}", path, metadata.size(), kMaxMetadataKeys));
  }
  std::string text = "{";
  const auto separate = [&] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadataKey);
    bool first = true;
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", first ? "" : ",", json_text(path, "the metadata key", key),
                          json_text(path, "the metadata text", value));
      first = false;
    }
    text += '}';
  }
  std::uint64_t offset = 0;
  for (const auto& item : order) {
    const auto& [name, tensor] = *item;
    const std::uint64_t end = offset + byte_count(tensor);
    separate();
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json_text(path, "the name", name), safetensors_name(stored_type(tensor.dtype())),
                        fmt::join(tensor.shape().begin(), tensor.shape().end(), ","), offset, end);
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw ValueError(
        fmt::format("{}: the header of {} bytes exceeds the limit of {}", path, text.size(), kMaxHeaderBytes));
  }
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata, os::SystemCalls& calls) {
  check_tensors(path, tensors);
  std::vector<TensorMap::const_iterator> order;
  for (auto item = tensors.begin(); item != tensors.end(); ++item) order.push_back(item);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });
  // Everything that can be wrong with the arguments has been found before a file exists.
  const std::string header = header_text(path, order, metadata);
  const std::uint64_t length = header.size();

  os::AtomicFile file(path, calls);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  std::vector<std::byte> bytes;
  for (const auto& item : order) {
    bytes.resize(byte_count(item->second));
    item->second.read_bytes(bytes.data());
    file.write(bytes);
  }
  file.commit();
}

void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata) {
  write_safetensors(path, tensors, metadata, os::system_calls());
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
