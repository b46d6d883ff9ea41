// LoRA: small matrices beside the projections of a language model, which are trained instead of it. "LoRA: Low-Rank
// Adaptation of Large Language Models", Hu et al., 2021. Files are those of the Python package peft, in both
// directions; adapters in GGUF files, which llama.cpp's convert_lora_to_gguf makes of them, are read.
//
//   ls::models::LoraAdapter adapter(*model, {.rank = 8});
//   ls::optim::AdamW optimizer(adapter.parameters(), {.lr = 2e-4});
//   ...                                          // model->forward computes with the adapter
//   adapter.save("my-adapter");                  // adapter_config.json, adapter_model.safetensors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 16;          ///< Results are multiplied by alpha / rank,
  bool root_of_rank = false;  ///< or by alpha / sqrt(rank).  peft: use_rslora
  /// Which projections: the ends of their names ("q_proj", "mlp.down_proj"). Empty: all but the one that makes logits.
  std::vector<std::string> targets = {};
};

/// A projection W of a target becomes W x + (B (A x)) * scale. A begins uniform within 1 / sqrt(features), as in peft,
/// B as zeros, so that a new adapter changes nothing. Parameters bear the names of the projections:
/// "model.layers.0.self_attn.q_proj.lora_A.weight". They are f32, where the model's weights are. The model's own
/// parameters are frozen; they may be packed (Tensor::encoding). The model keeps computing with the adapter when this
/// object is gone.
class LOCKSTEP_API LoraAdapter : public nn::Module {
 public:
  /// A new one; A is drawn from the calling thread's generator. ValueError for options out of range, for targets that
  /// the model does not have (those that it has are listed), for a model with an adapter, and for models without
  /// projections of this kind: T5, Whisper, and those with a state.
  explicit LoraAdapter(LanguageModel& model, LoraOptions options = {});
  /// From a folder that peft has written: adapter_config.json beside adapter_model.safetensors or adapter_model.bin.
  /// For a model of a GGUF file, too: names are those of Hugging Face. Or from a GGUF file (general.type "adapter"),
  /// for a model of a folder, too, unless its weights are [in, out] or its queries, keys and values one grouped matrix.
  /// IoError, FormatError for files that cannot be read, and for what is not supported, by name: other kinds than LoRA,
  /// biases, DoRA, whole modules, alphas that differ; ValueError and ShapeError for an adapter of another model.
  static std::unique_ptr<LoraAdapter> load(LanguageModel& model, const std::string& path);
  ~LoraAdapter() override;

  /// Writes such a folder, creating it. `base_model` is what the files call the model. Throws like save_safetensors.
  void save(const std::string& folder, const std::string& base_model = "") const;
  /// Adds the adapter to the model's weights and takes it off. ValueError if weights are packed, naming one; load the
  /// model with {.packed = false}.
  void merge();
  /// Takes it off: the model computes as before. Its parameters stay frozen.
  void remove();

  const LoraOptions& options() const;

 private:
  struct Parts;
  LoraAdapter();

  std::unique_ptr<Parts> parts_;
};

/// Writes a model as it was loaded from `source`, with its present weights in f32: for a folder a folder `path` with
/// config.json, model.safetensors and the tokenizer's files, for a GGUF file the file `path`, with the metadata of the
/// source. IoError if writing fails; ValueError where weights are packed, or a tensor of the source is not the model's.
LOCKSTEP_API void save_language_model(const LanguageModel& model, const std::string& source, const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
