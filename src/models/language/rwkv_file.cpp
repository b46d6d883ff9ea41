// rwkv.cpp's own file format: a header of six numbers, then tensors, each with its own header.
#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/raw_tensor.h"
#include "models/language/rwkv.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::uint32_t kMagic = 0x67676d66;  // "ggmf"
constexpr std::uint32_t kVersion = 101;
constexpr std::uint32_t kMaxName = 256;
constexpr std::size_t kMaxTensors = 65'536;

io::TensorMap read_tensors(const os::FileBytes& file, ByteReader& reader) {
  io::TensorMap result;
  while (!reader.at_end()) {
    const std::uint32_t rank = reader.u32("a tensor's rank");
    const std::uint32_t length = reader.u32("a name's length");
    const std::uint32_t type = reader.u32("an element type");
    if (rank == 0 || rank > 4) reader.fail(fmt::format("a tensor has {} dimensions, not 1 to 4", rank));
    if (length == 0 || length > kMaxName)
      reader.fail(fmt::format("a name has {} bytes, not 1 to {}", length, kMaxName));
    if (type > 1) reader.fail(fmt::format("the element type {} is not supported: 0 is f32, 1 is f16", type));
    if (result.size() == kMaxTensors) reader.fail("there are too many tensors");
    std::uint32_t sizes[4] = {};
    for (std::uint32_t d = 0; d < rank; ++d) sizes[d] = reader.u32("a size");
    Shape shape;
    for (std::uint32_t d = rank; d-- > 0;) shape.push_back(sizes[d]);
    const std::span<const std::byte> name = reader.take(length, "a name");
    const io::StoredType stored = type == 0 ? io::StoredType::f32 : io::StoredType::f16;
    const std::span<const std::byte> data =
        reader.take(io::element_count(shape) * io::size_of(stored), "a tensor's elements");
    const std::string key(text_of(name));
    const io::RawTensor raw{stored, shape, data, file.owner};
    if (!result.emplace(key, io::to_tensor(raw, file.path, key)).second) {
      reader.fail(fmt::format("tensor {} appears twice", in_quotes(key)));
    }
  }
  return result;
}

}  // namespace

bool is_rwkv_file(const os::FileBytes& file) {
  std::uint32_t magic = 0;
  if (file.bytes.size() >= sizeof magic) std::memcpy(&magic, file.bytes.data(), sizeof magic);
  return magic == kMagic;
}

std::unique_ptr<LanguageModel> load_rwkv_file(const os::FileBytes& file) {
  ByteReader reader(file.path, file.bytes);
  reader.u32("the magic number");
  if (const std::uint32_t version = reader.u32("the version"); version != kVersion) {
    reader.fail_at(4, fmt::format("version {} is not supported ({} is)", version, kVersion));
  }
  constexpr std::uint32_t kMost = 1 << 24;
  const auto size = [&](const char* what, std::uint32_t most) {
    const std::uint32_t value = reader.u32(what);
    if (value == 0 || value > most) reader.fail(fmt::format("{} is {}, not 1 to {}", what, value, most));
    return static_cast<std::int64_t>(value);
  };
  RwkvConfig config{.version = 5, .family = "rwkv5"};
  config.vocabulary = size("the size of the vocabulary", kMost);
  config.hidden = config.attention = size("the number of features", kMost);
  config.layers = size("the number of layers", 1024);
  reader.u32("the file's element type");
  config.published = false;
  const io::TensorMap tensors = read_tensors(file, reader);
  const auto shape_of = [&](const std::string& name, int rank) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.rank() != rank) {
      throw FormatError(fmt::format("{}: there is no tensor {} of {} dimensions; only RWKV 5.2 is supported", file.path,
                                    in_quotes(name), rank));
    }
    return found->second.shape();
  };
  shape_of("blocks.0.att.gate.weight", 2);
  config.heads = shape_of("blocks.0.att.time_faaaa", 3)[0];
  config.inner = shape_of("blocks.0.ffn.key.weight", 2)[0];
  if (config.heads == 0 || config.inner == 0 || config.hidden % config.heads != 0) {
    throw FormatError(fmt::format("{}: {} heads do not divide {} features", file.path, config.heads, config.hidden));
  }
  auto model = std::make_unique<Rwkv>(config);
  model->load_state_dict(tensors);
  return model;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
