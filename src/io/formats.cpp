#include "io/formats.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/cifar_parser.h"
#include "io/image_codec.h"
#include "io/npy.h"
#include "io/pickle_document.h"
#include "io/protobuf.h"
#include "io/reading.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

using namespace std::string_view_literals;

// A header's length stands before its brace; one below 2^32 leaves four zeros, which no magic below has there.
bool is_safetensors(const Candidate& file) {
  return file.text().size() > 8 && file.text().substr(4, 5) == "\0\0\0\0{"sv;
}

bool is_npy_file(const Candidate& file) {
  return is_npy(file.file().bytes);
}
bool is_npz_file(const Candidate& file) {
  return file.zip() != nullptr && !file.zip()->entries().empty() && is_npz(*file.zip());
}

// torch.jit.save puts NAME/constants.pkl beside NAME/data.pkl.
bool is_torchscript(const Candidate& file) {
  constexpr std::string_view kConstants = "/constants.pkl";
  if (file.zip() == nullptr) return false;
  const auto& entries = file.zip()->entries();
  return std::any_of(entries.begin(), entries.end(), [&](const ZipEntry& entry) {
    return entry.name.ends_with(kConstants) && entry.name.find('/') == entry.name.size() - kConstants.size();
  });
}

bool is_keras(const Candidate& file) {
  return file.zip() != nullptr && file.zip()->find("model.weights.h5") != nullptr;
}

bool is_any_zip(const Candidate& file) {
  return is_zip(file.file().bytes);
}

bool is_any_pickle(const Candidate& file) {
  return is_pickle(file.file().bytes);
}

// Old files of torch.save begin with a pickle of one number.
bool is_legacy_pytorch(const Candidate& file) {
  return is_any_pickle(file) && file.text().substr(0, 64).find(kTorchMagic) != std::string_view::npos;
}

bool is_tflite(const Candidate& file) {
  return file.text().size() > 8 && file.text().substr(4, 4) == "TFL3";
}
bool is_tensorflow_index(const Candidate& file) {
  return file.text().ends_with("\x57\xfb\x80\x8b\x24\x75\x47\xdb"sv);  // of its table
}
// schema version, graphs
bool is_saved_model(const Candidate& file) {
  constexpr std::array kFields = {ProtobufField{1, WireType::varint, true}, ProtobufField{2, WireType::bytes, true}};
  return is_protobuf(file.text(), kFields);
}
// nodes, library, version, versions
bool is_graph_def(const Candidate& file) {
  constexpr std::array kFields = {ProtobufField{1, WireType::bytes, true}, ProtobufField{2, WireType::bytes},
                                  ProtobufField{3, WireType::varint}, ProtobufField{4, WireType::bytes, true}};
  return is_protobuf(file.text(), kFields);
}
// ir version, producer's name and version, domain, model version, documentation, graph, operator sets, metadata,
// training, functions, devices
bool is_onnx(const Candidate& file) {
  constexpr std::array kFields = {
      ProtobufField{1, WireType::varint, true}, ProtobufField{2, WireType::bytes},  ProtobufField{3, WireType::bytes},
      ProtobufField{4, WireType::bytes},        ProtobufField{5, WireType::varint}, ProtobufField{6, WireType::bytes},
      ProtobufField{7, WireType::bytes, true},  ProtobufField{8, WireType::bytes},  ProtobufField{14, WireType::bytes},
      ProtobufField{20, WireType::bytes},       ProtobufField{25, WireType::bytes}, ProtobufField{26, WireType::bytes}};
  return is_protobuf(file.text(), kFields);
}

bool is_cifar(const Candidate& file) {
  return file.file().path.ends_with(".bin");
}
bool is_onnx_by_name(const Candidate& file) {
  return file.file().path.ends_with(".onnx");
}
bool is_gguf_by_name(const Candidate& file) {
  return file.file().path.ends_with(".gguf");
}

Image png(std::string_view name, std::span<const std::byte> bytes) {
  return decode_png(name, bytes);
}
Image jpeg(std::string_view name, std::span<const std::byte> bytes) {
  return decode_jpeg(name, bytes);
}

constexpr const char* kNever = "not supported";
constexpr const char* kStateDict = "not supported; save the module's state_dict() with torch.save instead";

// Special rows before general ones: what any zip file, any pickle or any bytes could be stands behind those.
constexpr std::array kFormats = {
    Format{"safetensors", "a safetensors file", "", is_safetensors, open_safetensors},
    Format{"NumPy npz", "a NumPy .npz file", "PK", is_npz_file, open_npz},
    Format{"TorchScript", "a TorchScript program", "PK", is_torchscript, NotRead{kStateDict}},
    Format{"Keras", "a Keras model", "PK", is_keras, NotRead{kNever}},
    Format{"PyTorch zip", "a zip file", "PK", is_any_zip, open_pytorch},
    Format{"PyTorch legacy", "a PyTorch file", "", is_legacy_pytorch, open_pytorch},
    Format{"pickle", "a pickle, but not one of torch.save", "", is_any_pickle,
           NotRead{"not supported; save a dict of tensors with torch.save instead"}},
    Format{"NumPy npy", "a NumPy .npy file", "", is_npy_file, open_npy},
    Format{"PNG", "a PNG image", "\x89PNG\r\n\x1a\n", nullptr, png},
    Format{"JPEG", "a JPEG image", "\xff\xd8\xff", nullptr, jpeg},
    Format{"GGUF", "a GGUF file", "GGUF", nullptr, open_gguf},
    Format{"HDF5", "an HDF5 file, as Keras writes", "\x89HDF\r\n\x1a\n", nullptr, NotRead{kNever}},
    Format{"TensorFlow Lite", "a TensorFlow Lite model", "", is_tflite, NotRead{kNever}},
    Format{"gzip", "compressed by gzip", "\x1f\x8b", nullptr, NotRead{"unpack it first"}},
    Format{"GIF", "a GIF image", "GIF8", nullptr, NotRead{kNever}},
    Format{"BMP", "perhaps a BMP image", "BM", nullptr, NotRead{kNever}},
    Format{"Git LFS", "a Git LFS pointer", "version https://git-lfs", nullptr,
           NotRead{"run git lfs pull to get the file"}},
    Format{"HTML", "a web page", "<!DOCTYPE", nullptr, NotRead{"the download failed"}},
    Format{"HTML", "a web page", "<html", nullptr, NotRead{"the download failed"}},
    Format{"ONNX", "an ONNX model", "\x08", is_onnx, open_onnx},
    Format{"TensorFlow SavedModel", "a TensorFlow SavedModel", "\x08", is_saved_model, NotRead{kNever}},
    Format{"TensorFlow graph", "a TensorFlow graph", "\x0a", is_graph_def, NotRead{kNever}},
    Format{"TensorFlow checkpoint", "the index of a TensorFlow checkpoint", "", is_tensorflow_index, NotRead{kNever}},
    Format{"ONNX", "by its name an ONNX model, but does not begin as one", "", is_onnx_by_name,
           NotRead{"it is damaged, or the download failed"}},
    Format{"GGUF", "by its name a GGUF file, but does not begin as one", "", is_gguf_by_name,
           NotRead{"it is damaged, or the download failed"}},
    Format{"CIFAR-10", "CIFAR-10 records, by its name", "", is_cifar, parse_cifar},
};

std::string what_it_is(const Format& format) {
  const auto* not_read = std::get_if<NotRead>(&format.reader);
  return not_read == nullptr ? format.is : fmt::format("{}: {}", format.is, not_read->why);
}

// "safetensors, NumPy npz, ...": the names of the rows that are read.
std::string names_of_readable() {
  std::string names;
  const char* last = "";
  for (const Format& format : kFormats) {
    if (std::holds_alternative<NotRead>(format.reader) || std::string_view(format.name) == last) continue;
    names += (names.empty() ? "" : ", ") + std::string(format.name);
    last = format.name;
  }
  return names;
}

}  // namespace

const ZipArchive* Candidate::zip() const {
  if (!opened_) {
    opened_ = true;
    try {
      if (is_zip(file_.bytes)) zip_.emplace(file_, ZipRules{.deflated = true, .case_matters = true});
    } catch (const FormatError&) {
      // What is wrong with it is said by the reader of zip files that it is handed to.
    }
  }
  return zip_ ? &*zip_ : nullptr;
}

std::span<const Format> formats() {
  return kFormats;
}

const Format* find_format(const os::FileBytes& file) {
  const Candidate candidate(file);
  const auto row = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    return candidate.text().starts_with(format.magic) && (format.matches == nullptr || format.matches(candidate));
  });
  return row == kFormats.end() ? nullptr : &*row;
}

const Format& readable_format(const os::FileBytes& file) {
  const Format* format = find_format(file);
  if (format == nullptr) {
    throw FormatError(fmt::format("{}: is of no format that is read ({}): {}", file.path, names_of_readable(),
                                  describe_start(file.bytes)));
  }
  if (std::holds_alternative<NotRead>(format->reader)) {
    throw FormatError(fmt::format("{}: this is {}", file.path, what_it_is(*format)));
  }
  return *format;
}

std::string describe_start(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "it is empty";
  if (const Format* format = find_format({"", bytes, nullptr})) return "it is " + what_it_is(*format);
  std::string result = "it begins with the bytes";
  for (const std::byte b : bytes.first(std::min<std::size_t>(bytes.size(), 8))) {
    result += fmt::format(" {:02x}", std::to_integer<int>(b));
  }
  return result;
}

std::unique_ptr<TensorSource> open_tensors(const Format& format, os::FileBytes file, const OpenOptions& options) {
  const auto* open = std::get_if<OpenTensors*>(&format.reader);
  if (open == nullptr) {
    throw FormatError(fmt::format("{}: this is {}, no file of tensors", file.path, what_it_is(format)));
  }
  const std::string path = file.path;
  return reading(path, [&] { return (*open)(std::move(file), options); });
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
