// Embeddings on disk. What a picture's embedding means depends on the weights, so a file names both by their hashes.
#include <cstring>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/models/sam.h>

#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr const char* kFormat = "lockstep sam embedding 1";
constexpr const char* kFeatures = "image_embedding";

std::string text_of(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

// A positive number of the header.
int size_of(const std::string& path, const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  const std::string text = found == metadata.end() ? "" : found->second;
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(text) < 1) {
    throw FormatError(fmt::format("{}: the embedding's {} \"{}\" is no positive number", path, key, text));
  }
  return std::stoi(text);
}

// A hash of the header.
std::uint64_t hash_of(const std::string& path, const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  const std::string text = found == metadata.end() ? "" : found->second;
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw FormatError(fmt::format("{}: the embedding's {} \"{}\" is no hash", path, key, text));
  }
  return std::stoull(text, nullptr, 16);
}

}  // namespace

std::uint64_t picture_hash(const io::Image& picture) {
  const std::string sizes = fmt::format("{} {} {} ", picture.width, picture.height, picture.channels);
  std::vector<std::byte> bytes(sizes.size() + 8);
  std::memcpy(bytes.data(), sizes.data(), sizes.size());
  const std::uint64_t pixels = hash_bytes(std::as_bytes(std::span(picture.pixels)));
  for (std::size_t i = 0; i < 8; ++i) bytes[sizes.size() + i] = static_cast<std::byte>(pixels >> (8 * i));
  return hash_bytes(bytes);
}

void save_sam_embedding(const std::string& path, const SamEmbedding& embedding, std::uint64_t weights) {
  io::save_safetensors(path, {{kFeatures, embedding.features}},
                       {{"format", kFormat},
                        {"picture", text_of(embedding.picture)},
                        {"weights", text_of(weights)},
                        {"width", std::to_string(embedding.frame.width)},
                        {"height", std::to_string(embedding.frame.height)}});
}

SamEmbedding load_sam_embedding(const std::string& path, const Sam& model, std::uint64_t weights,
                                std::optional<std::uint64_t> picture) {
  const io::TensorFile file = io::load_safetensors(path, {.map = false});
  const auto format = file.metadata.find("format");
  const auto features = file.tensors.find(kFeatures);
  if (format == file.metadata.end() || format->second != kFormat || features == file.tensors.end()) {
    throw FormatError(fmt::format("{}: is not the embedding of a picture ({})", path, kFormat));
  }
  const std::uint64_t own_weights = hash_of(path, file.metadata, "weights");
  if (own_weights != weights) {
    throw ValueError(fmt::format("{}: the embedding was made with other weights\n  weights of the file {}, these {}",
                                 path, text_of(own_weights), text_of(weights)));
  }
  const std::uint64_t own_picture = hash_of(path, file.metadata, "picture");
  if (picture && own_picture != *picture) {
    throw ValueError(fmt::format("{}: the embedding is of another picture\n  picture of the file {}, this one {}", path,
                                 text_of(own_picture), text_of(*picture)));
  }
  const Shape expected{1, model.options().decoder.channels, model.grid(), model.grid()};
  if (features->second.shape() != expected || features->second.dtype() != DType::f32) {
    throw FormatError(fmt::format("{}: the embedding is {} {}, not f32 {}", path, name_of(features->second.dtype()),
                                  features->second.shape().to_string(), expected.to_string()));
  }
  const NoGrad no_grad;
  return {.features = features->second.to(model.device()),
          .positions = model.prompt_encoder.grid_positions().eval(),
          .frame = model.frame(size_of(path, file.metadata, "width"), size_of(path, file.metadata, "height")),
          .picture = own_picture};
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
