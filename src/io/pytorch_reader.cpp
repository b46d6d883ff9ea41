// The two containers of torch.save. New: a zip archive with the pickle in NAME/data.pkl and each storage in
// NAME/data/KEY. Old ("legacy"): five pickles in a row (magic number, version, machine, the object, storage keys), then
// for each key a 64-bit count and the elements.
#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/pytorch.h>

#include "core/checked.h"
#include "io/formats.h"
#include "io/pickle_document.h"
#include "io/pickle_machine.h"
#include "io/reading.h"
#include "io/zip_archive.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::int64_t kLegacyVersion = 1001;

[[noreturn]] void fail(const PickleDocument& document, std::string_view message) {
  throw FormatError(fmt::format("{}: {}", document.file.path, message));
}

// The directory that everything in the archive stands in; it is named after the file that torch wrote.
std::string archive_prefix(const PickleDocument& document, const ZipArchive& archive) {
  constexpr std::string_view kPickle = "/data.pkl";
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    const std::string_view name = entry.name;
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    if (found != nullptr) fail(document, "the zip file holds two data.pkl");
    found = &entry;
  }
  if (found == nullptr) {
    fail(document, "the zip file holds no NAME/data.pkl, so torch.save did not write it (NumPy's .npz is read by load_npz)");
  }
  return found->name.substr(0, found->name.size() - kPickle.size() + 1);
}

void read_zip(PickleDocument& document, bool verify_checksums) {
  const ZipArchive archive(document.file);
  const std::string prefix = archive_prefix(document, archive);
  if (const ZipEntry* order = archive.find(prefix + "byteorder")) {
    const std::string_view text = text_of(archive.data(*order, verify_checksums));
    if (text != "little") fail(document, fmt::format("byte order is {}; only \"little\" is read", in_quotes(text)));
  }
  if (archive.find(prefix + "constants.pkl") != nullptr) {
    fail(document, "is a TorchScript program; save the module's state_dict() with torch.save instead");
  }
  const ZipEntry& pickle = *archive.find(prefix + "data.pkl");
  PickleMachine machine(document, archive.data(pickle, verify_checksums), pickle.data_offset, true);
  document.root = machine.run();
  if (machine.end_offset() != pickle.data_offset + pickle.bytes) fail(document, "bytes follow the end of data.pkl");

  for (PickleStorage& storage : document.storages) {
    const ZipEntry* entry = archive.find(fmt::format("{}data/{}", prefix, storage.key));
    if (entry == nullptr) continue;  // check_document reports it
    const CheckedSize bytes = CheckedSize(storage.elements) * size_of(storage.type);
    if (!bytes.equals(entry->bytes)) {
      fail(document, fmt::format("storage {} has {} bytes instead of the {} of {} {}", in_quotes(storage.key),
                                 entry->bytes, bytes.to_string(), storage.elements, name_of(storage.type)));
    }
    storage.bytes = archive.data(*entry, verify_checksums);
    storage.found = true;
  }
}

void check_legacy_magic(PickleDocument& document, std::uint32_t magic) {
  const PickleNode& number = document.nodes[magic];
  if (number.kind != NodeKind::big_integer || document.text(number) != kTorchMagic) {
    fail(document, "is a pickle, but not one of torch.save (its magic number is missing)");
  }
}

// Anything unusual in the description of version and machine is refused.
void check_legacy_machine(PickleDocument& document, std::uint32_t version, std::uint32_t system) {
  const auto is_integer = [&](std::uint32_t node, std::int64_t wanted) {
    const PickleNode& n = document.nodes[node];
    return n.kind == NodeKind::integer && static_cast<std::int64_t>(n.payload) == wanted;
  };
  if (!is_integer(version, kLegacyVersion)) fail(document, "the version of the legacy format is not 1001");
  const std::span<const std::uint32_t> items = document.children(document.nodes[system]);
  if (document.nodes[system].kind != NodeKind::dict) fail(document, "the description of the machine is not a dict");
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const PickleNode& key = document.nodes[items[i]];
    const PickleNode& value = document.nodes[items[i + 1]];
    if (key.kind != NodeKind::string || document.text(key) != "little_endian") continue;
    if (value.kind != NodeKind::boolean || value.payload != 1) fail(document, "byte order is big; only little is read");
  }
}

void read_legacy_storages(PickleDocument& document, std::span<const std::uint32_t> keys, std::uint64_t offset) {
  std::unordered_map<std::string_view, PickleStorage*> by_key;
  for (PickleStorage& storage : document.storages) by_key.emplace(storage.key, &storage);
  ByteReader reader(document.file.path, document.file.bytes.subspan(offset), offset);
  for (const std::uint32_t node : keys) {
    const PickleNode& key = document.nodes[node];
    if (key.kind != NodeKind::string) reader.fail("a storage key is not a string");
    const auto found = by_key.find(document.text(key));
    if (found == by_key.end()) {
      reader.fail(fmt::format("storage {} is listed but not used", in_quotes(document.text(key))));
    }
    PickleStorage& storage = *found->second;
    if (storage.found) reader.fail(fmt::format("storage {} is listed twice", in_quotes(storage.key)));
    const std::uint64_t elements = reader.u64("a storage's size");
    if (elements != storage.elements) {
      reader.fail(
          fmt::format("storage {} has {} elements instead of {}", in_quotes(storage.key), elements, storage.elements));
    }
    storage.bytes = reader.take(CheckedSize(elements) * size_of(storage.type), "a storage's elements");
    storage.found = true;
  }
  if (!reader.at_end()) reader.fail(fmt::format("{} bytes follow the last storage", reader.remaining()));
}

void read_legacy(PickleDocument& document) {
  std::uint64_t offset = 0;
  const auto run = [&](bool with_storages) {
    PickleMachine machine(document, document.file.bytes.subspan(offset), offset, with_storages);
    const std::uint32_t result = machine.run();
    offset = machine.end_offset();
    return result;
  };
  check_legacy_magic(document, run(false));
  const std::uint32_t version = run(false);
  const std::uint32_t system = run(false);
  check_legacy_machine(document, version, system);
  document.root = run(true);
  const PickleNode& keys = document.nodes[run(false)];
  if (keys.kind != NodeKind::list) fail(document, "the list of storage keys is not a list");
  read_legacy_storages(document, document.children(keys), offset);
}

}  // namespace

std::shared_ptr<const PickleDocument> parse_pytorch(os::FileBytes file, bool verify_checksums) {
  const auto document = std::make_shared<PickleDocument>();
  document->file = std::move(file);
  const std::span<const std::byte> bytes = document->file.bytes;
  if (is_zip(bytes)) {
    read_zip(*document, verify_checksums);
  } else if (is_pickle(bytes)) {
    read_legacy(*document);
  } else {
    fail(*document, fmt::format("is not a file of torch.save: {}", describe_start(bytes)));
  }
  check_document(*document);
  return document;
}

bool is_pickle(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  return text.size() >= 2 && text[0] == '\x80' && text[1] >= '\x02' && text[1] <= '\x05';
}

PickleValue load_pickle(const std::string& path, LoadOptions options) {
  return PickleDocument::root_value(parse_pytorch(open_file(path, options), options.verify_checksums));
}

TensorFile load_pytorch(const std::string& path, LoadOptions options) {
  return reading(path, [&] {
    FlatPickle flat = flatten(load_pickle(path, options), path);
    TensorFile result;
    for (const auto& [name, value] : flat.tensors) {
      result.tensors.emplace(name, to_tensor(PickleDocument::raw(value), path, name));
    }
    for (const auto& [name, value] : flat.others) result.metadata.emplace(name, value.to_string());
    return result;
  });
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
