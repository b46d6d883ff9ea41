// The families of transformers, a row each: what their config.json means, as a DecoderConfig.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "io/json_fields.h"
#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// Of tokens, features and positions.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;

struct Family {
  std::string_view name;  ///< model_type
  DecoderConfig (*read)(const io::JsonFields& config);
};

/// Sorted by name.
std::span<const Family> families();

// Families that need more than a few lines have files of their own: families_encoder.cpp, families_other.cpp.
using ReadFamily = DecoderConfig(const io::JsonFields& config);
ReadFamily read_bert, read_distilbert, read_modernbert, read_nomic_bert, read_roberta;
ReadFamily read_cohere, read_cohere2, read_deepseek_v2, read_deepseek_v3, read_falcon, read_gpt2, read_gpt_neox,
    read_gpt_oss, read_lfm2, read_olmo, read_olmo2, read_olmo3, read_olmoe, read_phi, read_phi3, read_stablelm,
    read_starcoder2;

// What they share.

/// Sizes that almost all have under the same keys, and `layers` ordinary layers with one rotary embedding of the whole
/// head. `norm` is the key of the norms' epsilon.
DecoderConfig read_common(const io::JsonFields& config, const char* norm, bool tied);
/// Rotary embeddings by rope_parameters (transformers 5), or rope_theta, rope_scaling and partial_rotary_factor.
RotaryConfig read_rotary(const io::JsonFields& config, std::int64_t head_dim);
/// The same where rope_parameters has an object for each kind of layer.
RotaryConfig read_rotary_of(const io::JsonFields& parameters, const io::JsonFields& config, std::int64_t head_dim,
                            double base, double share);
/// Rotary embeddings of layers that see everything and of those with a window, whose windows are known: as
/// rope_parameters says for each, else what there is already, and one of `base_of_windows`.
void read_two_rotaries(const io::JsonFields& config, DecoderConfig& result, double base, double base_of_windows);
/// Their number, how many are used, and whether these are normalised; all layers have them.
void read_experts(const io::JsonFields& config, DecoderConfig& result, std::int64_t size);
/// Windows of the layers that layer_types calls sliding_attention; FormatError for kinds that are not attention.
/// Returns whether there is a list.
bool read_layer_types(const io::JsonFields& config, DecoderConfig& result);
Activation read_activation(const io::JsonFields& config, const char* key, const char* fallback);
/// What is wrong with the groups that experts are chosen by; empty: nothing.
std::string_view wrong_groups(const ExpertsConfig& experts);
/// The names of published weights, for those who read them from other files, too.
void use_bert_names(ModelNames& names);
void use_falcon_names(ModelNames& names);
void use_glm4_names(ModelNames& names);
void use_gpt_neox_names(ModelNames& names);
void use_lfm2_names(ModelNames& names);
void use_modernbert_names(ModelNames& names);
void use_nomic_bert_names(ModelNames& names);
void use_phi_names(ModelNames& names);
/// FormatError saying that a feature of this family is not supported, unless the field has the value.
void require(const io::JsonFields& config, const char* key, bool value, bool fallback);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
