#include "models/language/gguf_model.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "models/language/gguf_architectures.h"
#include "models/language/gguf_fields.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// GGUF's names, and the fields that hold those of a Decoder.
constexpr std::pair<std::string_view, std::string LayerNames::*> kLayerNames[] = {
    {"attn_norm", &LayerNames::attention_norm},
    {"attn_q", &LayerNames::query},
    {"attn_k", &LayerNames::key},
    {"attn_v", &LayerNames::value},
    {"attn_qkv", &LayerNames::fused},
    {"attn_output", &LayerNames::output},
    {"attn_q_norm", &LayerNames::query_norm},
    {"attn_k_norm", &LayerNames::key_norm},
    // Norms of sums (BERT).
    {"attn_output_norm", &LayerNames::attention_norm},
    {"layer_output_norm", &LayerNames::feed_norm},
    // Of what attention gives; where there is no such norm, that of what comes behind (gpt-oss).
    {"post_attention_norm", &LayerNames::attention_after},
    {"post_attention_norm", &LayerNames::feed_norm},
    {"ffn_norm", &LayerNames::feed_norm},
    {"ffn_gate", &LayerNames::gate},
    {"ffn_up", &LayerNames::up},
    {"ffn_down", &LayerNames::down},
    {"post_ffw_norm", &LayerNames::feed_after},
    {"ffn_gate_inp", &LayerNames::router}};
constexpr std::pair<std::string_view, std::string ModelNames::*> kModelNames[] = {
    {"token_embd", &ModelNames::embedding},    {"token_embd_norm", &ModelNames::embedding_norm},
    {"position_embd", &ModelNames::positions}, {"token_types", &ModelNames::token_types},
    {"output_norm", &ModelNames::norm},        {"output", &ModelNames::head}};
// All experts of a layer are one tensor [E, out, in], or [E, out] of biases.
constexpr std::pair<std::string_view, std::string LayerNames::*> kExpertNames[] = {
    {"ffn_gate_exps", &LayerNames::expert_gate},
    {"ffn_up_exps", &LayerNames::expert_up},
    {"ffn_down_exps", &LayerNames::expert_down}};

template <typename Names, typename Table>
std::string search(const Names& names, const Table& table, std::string_view ggml) {
  for (const auto& [own, field] : table) {
    if (own == ggml && !(names.*field).empty()) return names.*field;
  }
  return "";
}

// Factors of rotary embeddings.
bool is_of_config(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
}

// Puts a tensor under the Decoder's names.
void add_tensor(const ModelNames& names, const std::string& name, Tensor tensor, io::TensorMap& result) {
  // Products and look-ups read blocks; nothing else does.
  if (tensor.rank() != 2 || name.ends_with(".bias")) tensor = dequantize(tensor);
  const OwnNames own = own_names(names, name, tensor.shape());
  if (!own.experts) {
    result.emplace(own.names.front(), std::move(tensor));
    return;
  }
  std::int64_t number = 0;
  for (const std::string& expert : own.names) result.emplace(expert, tensor.select(0, number++));
}

// "model-00001-of-00003.gguf" to the names of all three; the first has the metadata of the model.
std::vector<std::string> split_files(const std::string& path, std::int64_t count) {
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (!path.ends_with(ending)) {
    throw FormatError(fmt::format(
        "{}: split.count: the model is in {} files; give the first one, whose name ends in {}", path, count, ending));
  }
  std::vector<std::string> files;
  for (std::int64_t i = 1; i <= count; ++i) {
    files.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", path.substr(0, path.size() - ending.size()), i, count));
  }
  return files;
}

io::TensorMap load_tensors(const std::string& path, const io::Metadata& metadata, bool packed) {
  const std::int64_t count = GgufFields(metadata, path, "split.").integer_or("count", 1, 0, 65'535);
  if (count <= 1) return io::load_weights(path, {.packed = packed});
  io::TensorMap tensors;
  std::int64_t number = 0;
  for (const std::string& file : split_files(path, count)) {
    const io::FileListing listing = io::list_tensors(file);
    const GgufFields split(listing.metadata, file, "split.");
    if (split.integer("no", 0, 65'535) != number) split.fail("no", fmt::format("is not {}", number));
    if (split.integer("count", 0, 65'535) != count) split.fail("count", fmt::format("is not {}", count));
    for (auto& [name, tensor] : io::load_weights(file, {.packed = packed})) {
      if (!tensors.emplace(name, std::move(tensor)).second) {
        throw FormatError(fmt::format("{}: tensor {} is in an earlier file, too", file, in_quotes(name)));
      }
    }
    ++number;
  }
  const GgufFields first(metadata, path, "split.");
  const auto there = static_cast<std::int64_t>(tensors.size());
  if (first.integer_or("tensors.count", there, 0, INT32_MAX) != there) {
    first.fail("tensors.count", fmt::format("the files have {} tensors", there));
  }
  return tensors;
}

}  // namespace

OwnNames own_names(const ModelNames& names, const std::string& name, const Shape& shape) {
  constexpr std::string_view kBlock = "blk.";
  const std::size_t kind = name.rfind('.');
  const std::size_t dot = name.starts_with(kBlock) ? name.find('.', kBlock.size()) : std::string::npos;
  if (kind == std::string::npos || (name.starts_with(kBlock) && dot >= kind)) return {{name}};
  const std::string suffix = name.substr(kind);
  if (dot == std::string::npos) {
    const std::string own = search(names, kModelNames, name.substr(0, kind));
    return {{own.empty() ? name : own + suffix}};
  }
  const std::string middle = name.substr(dot + 1, kind - dot - 1);
  const std::string layer = fmt::format("{}.{}.", names.layers, name.substr(kBlock.size(), dot - kBlock.size()));
  const std::string expert = search(names.layer, kExpertNames, middle);
  if (middle == "attn_sinks") return {{layer + "self_attn.sinks"}};
  if (!expert.empty() && shape.rank() == (suffix == ".bias" ? 2 : 3)) {
    OwnNames result{.experts = true};
    for (std::int64_t e = 0; e < shape[0]; ++e) {
      result.names.push_back(fmt::format("{}{}.{}.{}{}", layer, names.layer.experts, e, expert, suffix));
    }
    return result;
  }
  const std::string own = search(names.layer, kLayerNames, middle);
  return {{own.empty() ? name : layer + own + suffix}};
}

GgufModel open_gguf_model(const std::string& path, bool packed) {
  const io::FileListing listing = io::list_tensors(path);
  io::TensorMap tensors = load_tensors(path, listing.metadata, packed);
  GgufModel result;
  result.config = read_gguf_config(listing.metadata, tensors, path);
  const auto embedding = tensors.find("token_embd.weight");
  if (embedding == tensors.end() || embedding->second.rank() != 2) {
    throw FormatError(fmt::format("{}: there is no tensor \"token_embd.weight\" of two dimensions", path));
  }
  result.config.vocabulary = embedding->second.size(0);
  std::erase_if(tensors, [](const auto& item) { return is_of_config(item.first); });
  for (auto& [name, tensor] : tensors) add_tensor(result.config.names, name, std::move(tensor), result.tensors);
  return result;
}

void save_gguf_model(const std::string& source, const io::TensorMap& state, const std::string& path) {
  io::Metadata metadata = io::list_tensors(source).metadata;
  io::TensorMap tensors = load_tensors(source, metadata, false);
  const DecoderConfig config = read_gguf_config(metadata, tensors, source);
  const auto present = [&](const std::string& name) {
    const auto found = state.find(name);
    if (found == state.end()) throw ValueError(fmt::format("{}: the model has no tensor {}", source, in_quotes(name)));
    if (found->second.encoding() != Encoding::dense) {
      throw ValueError(
          fmt::format("{}: the weights are packed\n  fix: load the model with "
                      "LanguageLoadOptions{{.packed = false}}",
                      name));
    }
    return found->second;
  };
  for (auto& [name, tensor] : tensors) {
    if (is_of_config(name)) continue;
    const OwnNames own = own_names(config.names, name, tensor.shape());
    std::vector<Tensor> parts;
    for (const std::string& part : own.names) parts.push_back(present(part));
    tensor = own.experts ? stack(parts, 0) : parts.front();
  }
  std::erase_if(metadata, [](const auto& item) { return item.first.starts_with("split."); });
  metadata["general.file_type"] = std::uint32_t{0};  // All F32.
  io::save_gguf(path, tensors, metadata);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
