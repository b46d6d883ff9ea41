#include "models/language/gguf_model.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/formats.h"
#include "io/gguf.h"
#include "io/reading.h"
#include "models/language/decoder.h"
#include "models/language/gguf_config.h"
#include "models/language/gguf_fields.h"
#include "models/language/gguf_other.h"

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
    {"token_embd", &ModelNames::embedding},
    {"token_embd_norm", &ModelNames::embedding_norm},
    {"position_embd", &ModelNames::positions},
    {"token_types", &ModelNames::token_types},
    {"token_embd_norm", &ModelNames::norm},
    {"output_norm", &ModelNames::norm},
    {"output", &ModelNames::head},
    {"cls", &ModelNames::dense},
    {"cls.norm", &ModelNames::dense_norm},
    {"cls.output", &ModelNames::classifier}};
// All experts of a layer are one tensor [E, out, in], or [E, out] of biases.
constexpr std::pair<std::string_view, std::string LayerNames::*> kExpertNames[] = {
    {"ffn_gate_exps", &LayerNames::expert_gate},
    {"ffn_up_exps", &LayerNames::expert_up},
    {"ffn_down_exps", &LayerNames::expert_down}};
constexpr std::pair<std::string_view, std::string LayerNames::*> kSharedNames[] = {
    {"ffn_gate_shexp", &LayerNames::expert_gate},
    {"ffn_up_shexp", &LayerNames::expert_up},
    {"ffn_down_shexp", &LayerNames::expert_down}};
// What has one published name in all families.
constexpr std::pair<std::string_view, std::string_view> kFixedNames[] = {
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_k_b", "self_attn.k_b_proj"},
    {"attn_v_b", "self_attn.v_b_proj"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.out_proj", "conv.out_proj"}};
// The two that published files have in one, kv_b_proj.
constexpr std::string_view kLatentKeys = ".k_b_proj.weight";
constexpr std::string_view kLatentValues = ".v_b_proj.weight";

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
  const bool convolves = name.ends_with(".shortconv.conv.weight");
  const OwnNames own = own_names(names, name, tensor.shape());
  // Products and look-ups read blocks; nothing else does.
  const int rank = own.experts ? tensor.rank() - 1 : tensor.rank();
  if (rank != 2 || name.ends_with(".bias") || convolves) tensor = dequantize(tensor);
  if (convolves && tensor.rank() == 2) tensor = tensor.unsqueeze(1);
  std::int64_t number = 0;
  for (const std::string& one : own.names) {
    if (!result.emplace(one, own.experts ? tensor.select(0, number++) : tensor).second) {
      throw FormatError(fmt::format("{} is {}, which another tensor is, too", in_quotes(name), in_quotes(one)));
    }
  }
}

std::string with_ending(const std::string& name, std::string_view old, std::string_view ending) {
  return name.substr(0, name.size() - old.size()) + std::string(ending);
}

// [heads, rank, plain] and [heads, value, rank] to kv_b_proj, whose rows are for each head its keys, then its values.
void join_latent(io::TensorMap& tensors) {
  std::vector<std::string> keys;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(kLatentKeys)) keys.push_back(name);
  }
  for (const std::string& name : keys) {
    const auto key = tensors.find(name);
    const auto value = tensors.find(with_ending(name, kLatentKeys, kLatentValues));
    if (value == tensors.end() || key->second.rank() != 3 || value->second.rank() != 3 ||
        key->second.size(0) != value->second.size(0) || key->second.size(1) != value->second.size(2)) {
      throw FormatError(fmt::format("{}: the values of attn_v_b do not belong to these keys", in_quotes(name)));
    }
    tensors.emplace(with_ending(name, kLatentKeys, ".kv_b_proj.weight"),
                    cat({key->second.transpose(1, 2), value->second}, 1).flatten(0, 1));
    tensors.erase(key);
    tensors.erase(value);
  }
}

// The part of kv_b_proj that `name` is, whose shape in the file is `shape`.
Tensor latent_part(const Tensor& both, const std::string& name, const Shape& shape) {
  const Tensor heads = both.unflatten(0, {shape[0], -1});
  if (name.ends_with(kLatentKeys)) return heads.narrow(1, 0, shape[2]).transpose(1, 2);
  return heads.narrow(1, heads.size(1) - shape[1], shape[1]);
}

struct Contents {
  io::Metadata metadata;
  io::TensorMap tensors;
};

// Reads what stands in front of the tensors once: vocabularies make it large.
Contents read_file(const std::string& path, bool packed) {
  return io::reading(path, [&] {
    const auto source = io::open_gguf(os::map_file(path), {.packed = packed});
    Contents result{source->metadata(), {}};
    for (std::size_t i = 0; i < source->entries().size(); ++i) {
      const std::string& name = source->entries()[i].name;
      result.tensors.emplace(name, io::to_tensor(source->elements(i), path, name));
    }
    return result;
  });
}

// Of all files of the model, with the metadata of the first.
Contents read_files(const std::string& path, bool packed) {
  Contents whole = read_file(path, packed);
  const std::vector<std::string> files = io::gguf_files(path, whole.metadata);
  if (files.size() == 1) return whole;
  io::check_gguf_file(files, 0, whole.metadata);
  for (std::size_t number = 1; number < files.size(); ++number) {
    const std::string& file = files[number];
    Contents one = read_file(file, packed);
    io::check_gguf_file(files, number, one.metadata);
    for (auto& [name, tensor] : one.tensors) {
      if (!whole.tensors.emplace(name, std::move(tensor)).second) {
        throw FormatError(fmt::format("{}: tensor {} is in an earlier file, too", file, in_quotes(name)));
      }
    }
  }
  io::check_gguf_count(path, whole.metadata, whole.tensors.size());
  return whole;
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
  if (middle == "exp_probs_b") return {{layer + names.layer.router + ".e_score_correction_bias"}};
  for (const auto& [ggml, fixed] : kFixedNames) {
    if (ggml == middle) return {{layer + std::string(fixed) + suffix}};
  }
  if (!expert.empty() && shape.rank() == (suffix == ".bias" ? 2 : 3)) {
    OwnNames result{.experts = true};
    for (std::int64_t e = 0; e < shape[0]; ++e) {
      result.names.push_back(fmt::format("{}{}.{}.{}{}", layer, names.layer.experts, e, expert, suffix));
    }
    return result;
  }
  const std::string shared = search(names.layer, kSharedNames, middle);
  if (!shared.empty()) return {{layer + names.layer.shared + "." + shared + suffix}};
  const std::string own = search(names.layer, kLayerNames, middle);
  return {{own.empty() ? name : layer + own + suffix}};
}

GgufModel open_gguf_model(const std::string& path, bool packed, std::int64_t context) {
  auto [metadata, tensors] = read_files(path, packed);
  GgufModel result;
  result.model = make_gguf_other(metadata, tensors, path);
  if (result.model != nullptr) {
    if (context != 0) throw ValueError(fmt::format("{}: a context is asked for, and there is none to choose", path));
    result.tensors = std::move(tensors);
    return result;
  }
  DecoderConfig config = read_gguf_config(metadata, tensors, path);
  const auto embedding = tensors.find("token_embd.weight");
  if (embedding == tensors.end() || embedding->second.rank() != 2) {
    throw FormatError(fmt::format("{}: there is no tensor \"token_embd.weight\" of two dimensions", path));
  }
  config.vocabulary = embedding->second.size(0);
  std::erase_if(tensors, [](const auto& item) { return is_of_config(item.first); });
  for (auto& [name, tensor] : tensors) add_tensor(config.names, name, std::move(tensor), result.tensors);
  join_latent(result.tensors);
  use_context(config, context);
  result.model = std::make_unique<Decoder>(std::move(config));
  return result;
}

void save_gguf_model(const std::string& source, const io::TensorMap& state, const std::string& path) {
  auto [metadata, tensors] = read_files(source, false);
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
    const std::string& first = own.names.front();
    if (first.ends_with(kLatentKeys) || first.ends_with(kLatentValues)) {
      const std::string both = with_ending(first, kLatentKeys, ".kv_b_proj.weight");
      tensor = latent_part(present(both), first, tensor.shape());
      continue;
    }
    std::vector<Tensor> parts;
    for (const std::string& part : own.names) parts.push_back(present(part));
    // Convolutions have a dimension less in files.
    tensor = own.experts ? stack(parts, 0) : parts.front().reshape(tensor.shape());
  }
  std::erase_if(metadata, [](const auto& item) { return item.first.starts_with("split."); });
  metadata["general.file_type"] = std::uint32_t{0};  // All F32.
  io::save_gguf(path, tensors, metadata);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
