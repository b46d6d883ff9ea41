// Reading and writing .npy and .npz.
#include <lockstep/io/numpy.h>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/utf8.h"
#include "io/formats.h"
#include "io/npy.h"
#include "io/reading.h"
#include "io/zip_writer.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::string_view kSuffix = ".npy";

// An entry's array in memory, and what keeps it there.
struct Unpacked {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

Unpacked unpack(const ZipArchive& archive, const ZipEntry& entry, bool verify) {
  if (!entry.deflated) return {archive.data(entry, verify), archive.file().owner};
  auto bytes = std::make_shared<const std::vector<std::byte>>(archive.inflate(entry, entry.bytes, verify));
  return {*bytes, bytes};
}

std::string place(const ZipArchive& archive, const ZipEntry& entry) {
  return fmt::format("{}: entry {}", archive.file().path, in_quotes(entry.name));
}

void check_npz_name(const std::string& path, const std::string& name) {
  const auto refuse = [&](std::string_view why) {
    throw ValueError(fmt::format("{}: the name {} {}", path, in_quotes(name), why));
  };
  if (const char* why = why_no_zip_name(name + std::string(kSuffix))) refuse(why);
  if (name.size() > 0xffff - kSuffix.size()) refuse("has more than 65,531 bytes");
  if (!is_utf8(name)) refuse("is not UTF-8");
}

RawTensor npz_elements(const ZipArchive& archive, const ZipEntry& entry, bool verify) {
  const Unpacked array = unpack(archive, entry, verify);
  const NpyHeader header = parse_npy_header(place(archive, entry), array.bytes, array.bytes.size());
  return npy_elements(header, array.bytes, array.owner);
}

TensorEntry entry_of(std::string name, const NpyHeader& header, std::uint64_t offset) {
  return {std::move(name), header.type, header.shape, offset + header.data_offset, header.bytes};
}

class NpySource final : public TensorSource {
 public:
  NpySource(os::FileBytes file, const NpyHeader& header)
      : file_(std::move(file)), header_(header), entry_(entry_of("", header, 0)) {}

  std::span<const TensorEntry> entries() const override { return {&entry_, 1}; }
  Metadata metadata() const override { return {}; }
  RawTensor elements(std::size_t) const override { return npy_elements(header_, file_.bytes, file_.owner); }

 private:
  os::FileBytes file_;
  NpyHeader header_;
  TensorEntry entry_;
};

class NpzSource final : public TensorSource {
 public:
  NpzSource(ZipArchive archive, bool verify) : archive_(std::move(archive)), verify_(verify) {
    for (const ZipEntry& entry : archive_.entries()) {
      entries_.push_back(entry_of(npz_name(archive_, entry), npz_header(archive_, entry), entry.data_offset));
    }
  }

  std::span<const TensorEntry> entries() const override { return entries_; }
  Metadata metadata() const override { return {}; }
  RawTensor elements(std::size_t index) const override {
    return npz_elements(archive_, archive_.entries()[index], verify_);
  }

 private:
  ZipArchive archive_;
  bool verify_;
  std::vector<TensorEntry> entries_;
};

}  // namespace

std::unique_ptr<TensorSource> open_npy(os::FileBytes file, const OpenOptions& options) {
  if (options.part == Part::weights) {
    throw FormatError(
        fmt::format("{}: is a NumPy .npy file: one array, without the name that weights need; load_npy "
                    "reads it, and .npz files hold arrays with names",
                    file.path));
  }
  const NpyHeader header = parse_npy_header(file.path, file.bytes, file.bytes.size());
  return std::make_unique<NpySource>(std::move(file), header);
}

std::unique_ptr<TensorSource> open_npz(os::FileBytes file, const OpenOptions& options) {
  return std::make_unique<NpzSource>(npz_archive(std::move(file)), options.verify_checksums);
}

ZipArchive npz_archive(os::FileBytes file) {
  if (!is_zip(file.bytes)) {
    throw FormatError(fmt::format("{}: is not an .npz file: {}", file.path, describe_start(file.bytes)));
  }
  return ZipArchive(std::move(file), {.deflated = true, .case_matters = true});
}

bool is_npz(const ZipArchive& archive) {
  return std::all_of(archive.entries().begin(), archive.entries().end(),
                     [](const ZipEntry& entry) { return entry.name.ends_with(kSuffix); });
}

std::string npz_name(const ZipArchive& archive, const ZipEntry& entry) {
  if (!entry.name.ends_with(kSuffix)) throw FormatError(place(archive, entry) + " is no .npy array");
  return entry.name.substr(0, entry.name.size() - kSuffix.size());
}

NpyHeader npz_header(const ZipArchive& archive, const ZipEntry& entry) {
  if (!entry.deflated) return parse_npy_header(place(archive, entry), archive.data(entry, false), entry.bytes);
  const std::vector<std::byte> front =
      archive.inflate(entry, std::min<std::uint64_t>(entry.bytes, kMaxNpyHeaderBytes + 12), false);
  return parse_npy_header(place(archive, entry), front, entry.bytes);
}

Tensor load_npy(const std::string& path, LoadOptions options) {
  const os::FileBytes file = open_file(path, options);
  if (!is_npy(file.bytes)) {
    throw FormatError(fmt::format("{}: is not an .npy file: {}", path, describe_start(file.bytes)));
  }
  const NpyHeader header = parse_npy_header(path, file.bytes, file.bytes.size());
  return to_tensor(npy_elements(header, file.bytes, file.owner), path, "");
}

TensorMap load_npz(const std::string& path, LoadOptions options) {
  return reading(path, [&] {
    const ZipArchive archive = npz_archive(open_file(path, options));
    TensorMap tensors;
    for (const ZipEntry& entry : archive.entries()) {
      const std::string name = npz_name(archive, entry);
      tensors.emplace(name, to_tensor(npz_elements(archive, entry, options.verify_checksums), path, name));
    }
    return tensors;
  });
}

void write_npy(const std::string& path, const Tensor& tensor, os::SystemCalls& calls) {
  check_defined(path, "", tensor);
  const std::string header = npy_header_text(path, tensor);
  const std::vector<std::byte> bytes = elements_of(tensor);
  os::AtomicFile file(path, calls);
  file.write(header);
  file.write(bytes);
  file.commit();
}

void write_npz(const std::string& path, const TensorMap& tensors, os::SystemCalls& calls) {
  if (tensors.size() > kMaxZipEntries) {
    throw ValueError(fmt::format("{}: {} tensors exceed the limit of {}", path, tensors.size(), kMaxZipEntries));
  }
  // Everything that can be wrong with the arguments is found before a file exists.
  for (const auto& [name, tensor] : tensors) {
    check_defined(path, name, tensor);
    check_npz_name(path, name);
    npy_header_text(fmt::format("{}: tensor {}", path, in_quotes(name)), tensor);
  }
  os::AtomicFile file(path, calls);
  ZipWriter zip(file);
  for (const auto& [name, tensor] : tensors) {
    zip.add(name + std::string(kSuffix), npy_header_text(path, tensor), elements_of(tensor));
  }
  zip.finish();
  file.commit();
}

void save_npy(const std::string& path, const Tensor& tensor) {
  write_npy(path, tensor, os::system_calls());
}
void save_npz(const std::string& path, const TensorMap& tensors) {
  write_npz(path, tensors, os::system_calls());
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
