#include <lockstep/io/weights.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/pytorch.h>
#include <lockstep/io/safetensors.h>

#include "core/checked.h"
#include "io/file_format.h"
#include "io/npy.h"
#include "io/pickle_document.h"
#include "io/raw_tensor.h"
#include "io/safetensors_header.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// Under which keys training programs keep the state dict, most specific first.
constexpr std::array<std::string_view, 6> kStateDictKeys = {"state_dict", "model_state_dict", "model",
                                                            "net",        "weights",          "params"};
constexpr std::string_view kParallelPrefix = "module.";

bool holds_tensors_itself(const PickleValue& dict) {
  for (std::size_t i = 0; i < dict.size(); ++i) {
    if (dict.value(i).kind() == PickleValue::Kind::tensor) return true;
  }
  return false;
}

PickleValue find_state_dict(PickleValue value) {
  for (;;) {
    if (value.kind() != PickleValue::Kind::dict || holds_tensors_itself(value)) return value;
    const auto key = std::find_if(kStateDictKeys.begin(), kStateDictKeys.end(), [&](std::string_view k) {
      return value.has(k) && value.get(k).kind() == PickleValue::Kind::dict;
    });
    if (key == kStateDictKeys.end()) return value;
    value = value.get(*key);  // ends: the tree is finite
  }
}

TensorMap without_parallel_prefix(TensorMap tensors) {
  const bool shared = std::all_of(tensors.begin(), tensors.end(),
                                  [](const auto& item) { return item.first.starts_with(kParallelPrefix); });
  if (!shared) return tensors;
  TensorMap result;
  for (auto& [name, tensor] : tensors) result.emplace(name.substr(kParallelPrefix.size()), std::move(tensor));
  return result;
}

// A zip file that holds nothing but arrays. What else is wrong with it, the reader of PyTorch files says.
bool is_npz_file(const os::FileBytes& file) {
  try {
    const ZipArchive archive(file, {.deflated = true, .case_matters = true});
    return !archive.entries().empty() && is_npz(archive);
  } catch (const FormatError&) {
    return false;
  }
}

TensorEntry entry_of(std::string name, const NpyHeader& header, std::uint64_t offset) {
  return {std::move(name), header.type, header.shape, offset + header.data_offset, header.bytes};
}

[[noreturn]] void refuse(const os::FileBytes& file) {
  throw FormatError(
      fmt::format("{}: is neither a safetensors, a PyTorch nor a NumPy file: {}", file.path, describe_start(file.bytes)));
}

}  // namespace

TensorMap load_weights(const std::string& path, LoadOptions options) {
  os::FileBytes file = open_file(path, options);
  TensorMap tensors;
  switch (recognise(file.bytes)) {
    case FileFormat::safetensors: {
      const SafetensorsHeader header = parse_safetensors_header(file);
      for (const TensorEntry& entry : header.entries) {
        tensors.emplace(entry.name, to_tensor(raw_tensor(file, entry), path, entry.name));
      }
      break;
    }
    case FileFormat::zip:
      if (is_npz_file(file)) {
        tensors = load_npz(path, options);
        break;
      }
      [[fallthrough]];
    case FileFormat::pickle: {
      const auto document = parse_pytorch(std::move(file), options.verify_checksums);
      const PickleValue state = find_state_dict(PickleDocument::root_value(document));
      for (const auto& [name, value] : flatten(state, path).tensors) {
        tensors.emplace(name, to_tensor(PickleDocument::raw(value), path, name));
      }
      break;
    }
    default: refuse(file);
  }
  return without_parallel_prefix(std::move(tensors));
}

FileListing list_tensors(const std::string& path, LoadOptions options) {
  os::FileBytes file = open_file(path, options);
  const FileFormat format = recognise(file.bytes);
  FileListing listing;
  switch (format) {
    case FileFormat::safetensors: {
      SafetensorsHeader header = parse_safetensors_header(file);
      listing = {"safetensors", std::move(header.entries), std::move(header.metadata)};
      break;
    }
    case FileFormat::npy:
      listing.format = "NumPy npy";
      listing.tensors.push_back(entry_of("", parse_npy_header(path, file.bytes, file.bytes.size()), 0));
      break;
    case FileFormat::zip:
      if (is_npz_file(file)) {
        listing.format = "NumPy npz";
        const ZipArchive archive = open_npz(std::move(file));
        for (const ZipEntry& entry : archive.entries()) {
          listing.tensors.push_back(entry_of(npz_name(archive, entry), npz_header(archive, entry), entry.data_offset));
        }
        break;
      }
      [[fallthrough]];
    case FileFormat::pickle: {
      listing.format = format == FileFormat::zip ? "PyTorch zip" : "PyTorch legacy";
      const auto document = parse_pytorch(std::move(file), options.verify_checksums);
      FlatPickle flat = flatten(PickleDocument::root_value(document), path);
      for (const auto& [name, value] : flat.tensors) {
        listing.tensors.push_back(value.tensor_entry());
        listing.tensors.back().name = name;
      }
      listing.metadata = std::move(flat.metadata);
      break;
    }
    default: refuse(file);
  }
  return listing;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
