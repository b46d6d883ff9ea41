// Keys, names and shapes are those of llama.cpp's converter, which stores Mamba's decays as they are used, all shares
// of RWKV's tokens in one tensor, and drops dimensions of one element.
#include "models/language/gguf_other.h"

#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "models/language/families.h"
#include "models/language/gguf_fields.h"
#include "models/language/mamba.h"
#include "models/language/rwkv7.h"
#include "models/language/t5.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

/// '#' is a layer's number. What ends in a dot goes on in both.
struct Renaming {
  std::string_view stored;
  std::string_view own;
};

struct OtherSource {
  const GgufFields& fields;
  const io::TensorMap& tensors;  ///< with the file's names

  std::int64_t rows(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.rank() != 2) {
      fields.fail("embedding_length", fmt::format("there is no tensor {} of two dimensions", in_quotes(name)));
    }
    return found->second.size(0);
  }
};

struct OtherArchitecture {
  std::string_view name;
  std::unique_ptr<LanguageModel> (*make)(const OtherSource& source);
  std::span<const Renaming> names;
};

constexpr Renaming kMambaNames[] = {{"token_embd.", "backbone.embeddings."},
                                    {"output_norm.", "backbone.norm_f."},
                                    {"output.", "lm_head."},
                                    {"blk.#.attn_norm.", "backbone.layers.#.norm."},
                                    {"blk.#.ssm_in.", "backbone.layers.#.mixer.in_proj."},
                                    {"blk.#.ssm_conv1d.", "backbone.layers.#.mixer.conv1d."},
                                    {"blk.#.ssm_x.", "backbone.layers.#.mixer.x_proj."},
                                    {"blk.#.ssm_dt.", "backbone.layers.#.mixer.dt_proj."},
                                    {"blk.#.ssm_a", "backbone.layers.#.mixer.A"},
                                    {"blk.#.ssm_d", "backbone.layers.#.mixer.D"},
                                    {"blk.#.ssm_norm.", "backbone.layers.#.mixer.norm."},
                                    {"blk.#.ssm_out.", "backbone.layers.#.mixer.out_proj."}};

constexpr Renaming kRwkv7Names[] = {{"token_embd.", "model.embeddings."},
                                    {"token_embd_norm.", "model.layers.0.pre_norm."},
                                    {"output_norm.", "model.norm."},
                                    {"output.", "lm_head."},
                                    {"blk.#.attn_norm.", "model.layers.#.attn_norm."},
                                    {"blk.#.attn_norm_2.", "model.layers.#.ffn_norm."},
                                    {"blk.#.time_mix_lerp_fused.weight", "model.layers.#.attn.x_x"},
                                    {"blk.#.time_mix_w0.weight", "model.layers.#.attn.w_lora.lora.2.bias"},
                                    {"blk.#.time_mix_w1.", "model.layers.#.attn.w_lora.lora.0."},
                                    {"blk.#.time_mix_w2.", "model.layers.#.attn.w_lora.lora.2."},
                                    {"blk.#.time_mix_a0.weight", "model.layers.#.attn.a_lora.lora.2.bias"},
                                    {"blk.#.time_mix_a1.", "model.layers.#.attn.a_lora.lora.0."},
                                    {"blk.#.time_mix_a2.", "model.layers.#.attn.a_lora.lora.2."},
                                    {"blk.#.time_mix_v0.weight", "model.layers.#.attn.v_lora.lora.2.bias"},
                                    {"blk.#.time_mix_v1.", "model.layers.#.attn.v_lora.lora.0."},
                                    {"blk.#.time_mix_v2.", "model.layers.#.attn.v_lora.lora.2."},
                                    {"blk.#.time_mix_g1.", "model.layers.#.attn.g_lora.lora.0."},
                                    {"blk.#.time_mix_g2.", "model.layers.#.attn.g_lora.lora.2."},
                                    {"blk.#.time_mix_k_k.weight", "model.layers.#.attn.k_k"},
                                    {"blk.#.time_mix_k_a.weight", "model.layers.#.attn.k_a"},
                                    {"blk.#.time_mix_r_k.weight", "model.layers.#.attn.r_k"},
                                    {"blk.#.time_mix_receptance.", "model.layers.#.attn.r_proj."},
                                    {"blk.#.time_mix_key.", "model.layers.#.attn.k_proj."},
                                    {"blk.#.time_mix_value.", "model.layers.#.attn.v_proj."},
                                    {"blk.#.time_mix_output.", "model.layers.#.attn.o_proj."},
                                    {"blk.#.time_mix_ln.", "model.layers.#.attn.g_norm."},
                                    {"blk.#.channel_mix_lerp_k.weight", "model.layers.#.ffn.x_k"},
                                    {"blk.#.channel_mix_key.", "model.layers.#.ffn.key."},
                                    {"blk.#.channel_mix_value.", "model.layers.#.ffn.value."}};

constexpr Renaming kT5Names[] = {
    {"token_embd.", "shared."},
    {"output.", "lm_head."},
    {"enc.output_norm.", "encoder.final_layer_norm."},
    {"enc.blk.#.attn_norm.", "encoder.block.#.layer.0.layer_norm."},
    {"enc.blk.#.attn_q.", "encoder.block.#.layer.0.SelfAttention.q."},
    {"enc.blk.#.attn_k.", "encoder.block.#.layer.0.SelfAttention.k."},
    {"enc.blk.#.attn_v.", "encoder.block.#.layer.0.SelfAttention.v."},
    {"enc.blk.#.attn_o.", "encoder.block.#.layer.0.SelfAttention.o."},
    {"enc.blk.#.attn_rel_b.", "encoder.block.#.layer.0.SelfAttention.relative_attention_bias."},
    {"enc.blk.#.ffn_norm.", "encoder.block.#.layer.1.layer_norm."},
    {"enc.blk.#.ffn_gate.", "encoder.block.#.layer.1.DenseReluDense.wi_0."},
    {"enc.blk.#.ffn_up.", "encoder.block.#.layer.1.DenseReluDense.wi."},
    {"enc.blk.#.ffn_down.", "encoder.block.#.layer.1.DenseReluDense.wo."},
    {"dec.output_norm.", "decoder.final_layer_norm."},
    {"dec.blk.#.attn_norm.", "decoder.block.#.layer.0.layer_norm."},
    {"dec.blk.#.attn_q.", "decoder.block.#.layer.0.SelfAttention.q."},
    {"dec.blk.#.attn_k.", "decoder.block.#.layer.0.SelfAttention.k."},
    {"dec.blk.#.attn_v.", "decoder.block.#.layer.0.SelfAttention.v."},
    {"dec.blk.#.attn_o.", "decoder.block.#.layer.0.SelfAttention.o."},
    {"dec.blk.#.attn_rel_b.", "decoder.block.#.layer.0.SelfAttention.relative_attention_bias."},
    {"dec.blk.#.cross_attn_norm.", "decoder.block.#.layer.1.layer_norm."},
    {"dec.blk.#.cross_attn_q.", "decoder.block.#.layer.1.EncDecAttention.q."},
    {"dec.blk.#.cross_attn_k.", "decoder.block.#.layer.1.EncDecAttention.k."},
    {"dec.blk.#.cross_attn_v.", "decoder.block.#.layer.1.EncDecAttention.v."},
    {"dec.blk.#.cross_attn_o.", "decoder.block.#.layer.1.EncDecAttention.o."},
    {"dec.blk.#.ffn_norm.", "decoder.block.#.layer.2.layer_norm."},
    {"dec.blk.#.ffn_gate.", "decoder.block.#.layer.2.DenseReluDense.wi_0."},
    {"dec.blk.#.ffn_up.", "decoder.block.#.layer.2.DenseReluDense.wi."},
    {"dec.blk.#.ffn_down.", "decoder.block.#.layer.2.DenseReluDense.wo."}};

constexpr std::int64_t kMostLayers = 512;

MambaConfig read_mamba(const OtherSource& source) {
  const GgufFields& fields = source.fields;
  if (fields.flag_or("ssm.dt_b_c_rms", false)) fields.fail("ssm.dt_b_c_rms", "is not supported (Falcon Mamba)");
  MambaConfig result;
  result.vocabulary = source.rows("token_embd.weight");
  result.hidden = fields.integer("embedding_length", 1, kMaxSize);
  result.layers = fields.integer("block_count", 1, kMostLayers);
  result.inner = fields.integer("ssm.inner_size", 1, kMaxSize);
  result.state = fields.integer("ssm.state_size", 1, 65'536);
  result.kernel = fields.integer("ssm.conv_kernel", 2, 1024);
  result.bias = source.tensors.contains("blk.0.ssm_in.bias");
  result.convolution_bias = source.tensors.contains("blk.0.ssm_conv1d.bias");
  result.eps = fields.positive_or("attention.layer_norm_rms_epsilon", 1e-5);
  result.tied = !source.tensors.contains("output.weight");
  result.logarithms = false;
  return result;
}

std::unique_ptr<LanguageModel> make_gguf_mamba(const OtherSource& source) {
  MambaConfig config = read_mamba(source);
  config.family = "mamba";
  config.step_rank = source.fields.integer("ssm.time_step_rank", 1, kMaxSize);
  return make_mamba(config);
}

std::unique_ptr<LanguageModel> make_gguf_mamba2(const OtherSource& source) {
  MambaConfig config = read_mamba(source);
  config.family = "mamba2";
  config.version = 2;
  config.heads = source.fields.integer("ssm.time_step_rank", 1, 65'536);
  if (config.inner % config.heads != 0) source.fields.fail("ssm.time_step_rank", "does not divide ssm.inner_size");
  if (source.fields.integer_or("ssm.group_count", 1, 1, config.heads) != 1) {
    source.fields.fail("ssm.group_count", "only 1 is supported");
  }
  return make_mamba(config);
}

std::unique_ptr<LanguageModel> make_gguf_rwkv7(const OtherSource& source) {
  const GgufFields& fields = source.fields;
  Rwkv7Config config;
  config.vocabulary = source.rows("token_embd.weight");
  config.hidden = fields.integer("embedding_length", 1, kMaxSize);
  config.layers = fields.integer("block_count", 1, kMostLayers);
  config.inner = fields.integer("feed_forward_length", 1, kMaxSize);
  const std::int64_t size = fields.integer("wkv.head_size", 1, config.hidden);
  if (config.hidden % size != 0) fields.fail("wkv.head_size", "does not divide embedding_length");
  config.heads = config.hidden / size;
  config.decay_rank = fields.integer("attention.decay_lora_rank", 1, kMaxSize);
  config.rate_rank = fields.integer("attention.iclr_lora_rank", 1, kMaxSize);
  config.gate_rank = fields.integer("attention.gate_lora_rank", 1, kMaxSize);
  config.value_rank = fields.integer("attention.value_residual_mix_lora_rank", 1, kMaxSize);
  config.eps = fields.positive_or("attention.layer_norm_epsilon", 1e-5);
  config.group_eps = static_cast<double>(size) * config.eps;
  return std::make_unique<Rwkv7>(config);
}

std::unique_ptr<LanguageModel> make_gguf_t5(const OtherSource& source) {
  const GgufFields& fields = source.fields;
  T5Config config;
  config.vocabulary = source.rows("token_embd.weight");
  config.hidden = fields.integer("embedding_length", 1, kMaxSize);
  config.encoder_layers = fields.integer("block_count", 1, kMostLayers);
  config.decoder_layers = fields.integer_or("decoder_block_count", config.encoder_layers, 1, kMostLayers);
  config.buckets = fields.integer_or("attention.relative_buckets_count", 32, 4, 255);  // below `farthest`, twice
  config.attention.heads = fields.integer("attention.head_count", 1, 65'536);
  config.attention.head_dim =
      fields.integer_or("attention.key_length", config.hidden / config.attention.heads, 1, 65'536);
  config.norm.eps = fields.positive_or("attention.layer_norm_rms_epsilon", 1e-6);
  config.feed = {.size = fields.integer("feed_forward_length", 1, kMaxSize),
                 .gated = source.tensors.contains("enc.blk.0.ffn_gate.weight")};
  config.feed.activation = config.feed.gated ? Activation::gelu_tanh : Activation::relu;
  config.tied = !source.tensors.contains("output.weight");
  config.scaled = config.tied && !config.feed.gated;  // files do not say it: the gated ones (1.1) never were
  return make_t5(config);
}

constexpr std::array kOtherArchitectures = {OtherArchitecture{"mamba", make_gguf_mamba, kMambaNames},
                                            OtherArchitecture{"mamba2", make_gguf_mamba2, kMambaNames},
                                            OtherArchitecture{"rwkv7", make_gguf_rwkv7, kRwkv7Names},
                                            OtherArchitecture{"t5", make_gguf_t5, kT5Names}};

// "dec.blk.12.attn_q.weight" by "dec.blk.#.attn_q.". Unknown names stay, and are refused when the model is filled.
std::string own_name(std::span<const Renaming> names, const std::string& stored) {
  constexpr std::string_view kBlock = "blk.";
  std::string pattern = stored;
  std::string number;
  if (const std::size_t block = stored.find(kBlock); block != std::string::npos) {
    const std::size_t start = block + kBlock.size();
    const std::size_t end = stored.find('.', start);
    if (end == std::string::npos) return stored;
    number = stored.substr(start, end - start);
    pattern.replace(start, end - start, "#");
  }
  for (const Renaming& row : names) {
    const bool goes_on = row.stored.ends_with('.');
    if (goes_on ? !pattern.starts_with(row.stored) : pattern != row.stored) continue;
    std::string own = std::string(row.own) + pattern.substr(row.stored.size());
    if (const std::size_t hash = own.find('#'); hash != std::string::npos) own.replace(hash, 1, number);
    return own;
  }
  return stored;
}

Shape without_ones(const Shape& shape) {
  Shape result;
  for (const std::int64_t size : shape) {
    if (size != 1) result.push_back(size);
  }
  return result;
}

// Gives tensors the dimensions of one element, and RWKV's heads, that the model's own have.
void fit_shapes(const LanguageModel& model, io::TensorMap& tensors) {
  for (const auto& [name, own] : model.state_dict()) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.shape() == own.shape()) continue;
    const bool heads = name.ends_with(".r_k") && found->second.numel() == own.numel();
    if (heads || without_ones(found->second.shape()) == without_ones(own.shape())) {
      found->second = dequantize(found->second).reshape(own.shape());
    }
  }
}

}  // namespace

std::vector<std::string_view> gguf_other_architectures() {
  std::vector<std::string_view> names;
  for (const OtherArchitecture& row : kOtherArchitectures) names.push_back(row.name);
  return names;
}

std::unique_ptr<LanguageModel> make_gguf_other(const io::Metadata& metadata, io::TensorMap& tensors,
                                               const std::string& path) {
  const std::string name = GgufFields(metadata, path, "general.").text_or("architecture", "");
  for (const OtherArchitecture& row : kOtherArchitectures) {
    if (row.name != name) continue;
    const GgufFields fields(metadata, path, name + ".");
    auto model = row.make({fields, tensors});
    const bool gated = tensors.contains("enc.blk.0.ffn_gate.weight");
    io::TensorMap renamed;
    for (auto& [stored, tensor] : tensors) {
      std::string own = own_name(row.names, stored);
      // T5's second matrix has another name beside a gate, Mamba 2's steps have a bias alone.
      if (gated && own.ends_with(".wi.weight")) own.replace(own.size() - 7, 0, "_1");
      if (name == "mamba2" && own.ends_with(".dt_proj.bias")) own.replace(own.size() - 10, 10, "_bias");
      if (!renamed.emplace(own, std::move(tensor)).second) {
        throw FormatError(fmt::format("{}: {} is there twice", path, in_quotes(own)));
      }
    }
    tensors = std::move(renamed);
    split_rwkv7_shares(tensors);
    fit_shapes(*model, tensors);
    return model;
  }
  return nullptr;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
