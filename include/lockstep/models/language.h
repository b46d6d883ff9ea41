// Language models: from tokens to logits, with weights and names as they are published. One transformer, described by a
// config, is some thirty families; docs/language_models.md lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/io/hub.h>
#include <lockstep/io/tensor_file.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// How keys and values are remembered: rounded once, when they are written (docs/language_models.md).
enum class CacheType : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,  ///< Blocks of 32 elements of a head: codes of 8 bits and a scale in f16.
};
/// "f32", "f16", "bf16" or "q8_0".
LOCKSTEP_API std::string_view cache_type_name(CacheType type);
/// ValueError naming these for another word.
LOCKSTEP_API CacheType parse_cache_type(std::string_view name);

/// What a model remembers of the tokens before: keys and values, or states. Belongs to the model that made it.
class LOCKSTEP_API LanguageCache {
 public:
  LanguageCache() = default;
  virtual ~LanguageCache();
  LanguageCache(const LanguageCache&) = delete;
  LanguageCache& operator=(const LanguageCache&) = delete;

  /// Tokens of each row that are remembered.
  std::int64_t length() const { return length_; }
  /// Whether it can forget: keys and values can, states cannot go back.
  virtual bool truncates() const { return false; }
  /// Forgets all but the first `length` tokens. ValueError if it cannot, or remembers fewer.
  virtual void truncate(std::int64_t length);
  /// Another one that remembers the same. ValueError where there is no such thing.
  virtual std::unique_ptr<LanguageCache> clone() const;

 protected:
  std::int64_t length_ = 0;
};

/// A decoder or an encoder of text, of any of the families that are known (docs/language_models.md).
class LOCKSTEP_API LanguageModel : public nn::Module {
 public:
  /// ids i64 [N, L], each row from the first position, to f32 logits [N, L, vocabulary]; of encoders (encoder() is
  /// true) the last hidden states [N, L, hidden]. With a cache, rows continue those that it remembers, which then
  /// remembers these too: whole, in chunks or token by token give the same bits. ShapeError for other shapes,
  /// IndexError for ids that are no tokens, ValueError for more positions than were learned and a cache of another
  /// model.
  virtual Tensor forward(const Tensor& ids, LanguageCache* cache = nullptr, CallSite site = {}) const = 0;
  Tensor operator()(const Tensor& ids, LanguageCache* cache = nullptr, CallSite site = {}) const {
    return forward(ids, cache, site);
  }
  /// For models of an encoder and a decoder: `input` is what the encoder reads (T5: ids i64 [N, L]; Whisper: features
  /// f32 [N, mels, frames]), ids i64 [N, T] are the decoder's. Logits [N, T, vocabulary]. ValueError for other models.
  virtual Tensor forward_pair(const Tensor& input, const Tensor& ids, CallSite site = {}) const;
  /// An empty one. ValueError for encoders, and encoder-decoders.
  virtual std::unique_ptr<LanguageCache> make_cache() const = 0;
  /// Of the caches that make_cache makes.
  virtual CacheType cache_type() const { return CacheType::f32; }
  /// ValueError for models without keys and values, and for heads that are no whole blocks of q8_0.
  virtual void set_cache_type(CacheType type);

  virtual bool encoder() const { return false; }
  /// model_type of config.json, or general.architecture of a GGUF file: "llama".
  virtual const std::string& family() const = 0;
  virtual std::int64_t vocabulary() const = 0;
  /// Positions that the model was made for; 0 where there is no such number.
  virtual std::int64_t context() const = 0;
};

/// A model with random weights, by the text of a config.json. `file` names it in messages. FormatError for a config
/// that makes no sense, or of a family that is not known (the message lists those that are). `context` as in
/// LanguageLoadOptions.
LOCKSTEP_API std::unique_ptr<LanguageModel> create_language_model(std::string_view config_json,
                                                                  std::string_view file = "config.json",
                                                                  std::int64_t context = 0);

struct LanguageLoadOptions {
  /// Matrices of a GGUF file that are quantised stay in their blocks, those of folders become blocks where these hold the
  /// same values, and those of 16 bits stay in 16 bits (Tensor::encoding), mapped: products decode them where they read
  /// them, with the same bits. False decodes them into f32, which takes more memory and can be trained, merged with
  /// adapters and saved.
  bool packed = true;
  /// A LoRA adapter, a folder or a GGUF file (lockstep/models/lora.h), that the model computes with; empty: none.
  std::string adapter = {};
  CacheType cache = CacheType::f32;
  /// Positions that the model is used for, where its rotary embeddings depend on that: LongRoPE (Phi-3 and 4) has other
  /// frequencies for texts beyond the length that the model was first trained with, dynamic embeddings for texts beyond
  /// max_position_embeddings. 0: up to that length. LanguageModel::context says what it has become.
  std::int64_t context = 0;
};

/// A model with its weights, in f32 and evaluation mode, from a folder of Hugging Face (config.json beside
/// model.safetensors, or beside shards and model.safetensors.index.json) or from a GGUF file. Throws IoError or
/// FormatError for files that cannot be read, ValueError or ShapeError for weights that are not those that the config
/// describes.
LOCKSTEP_API std::unique_ptr<LanguageModel> load_language_model(const std::string& path, Device device = {},
                                                                LanguageLoadOptions options = {});

/// "hf:owner/name" or "hf:owner/name@revision": downloads what such a folder needs (its configuration, tokenizer and
/// weights, all of one commit) and gives the folder in the cache; "hf:owner/name/file.gguf" and the like as
/// io::local_file, and any other path as it is. Throws like io::hub_file, and FormatError for an index that makes no
/// sense.
LOCKSTEP_API std::string local_language_model(const std::string& path, const io::HubOptions& options = {});

/// The tensors of a folder of Hugging Face: of model.safetensors, or of all the shards that
/// model.safetensors.index.json names. FormatError if a shard lacks a tensor that the index promises, or names lead out
/// of the folder.
LOCKSTEP_API io::TensorMap load_model_folder(const std::string& path, io::LoadOptions options = {});

/// The families that load_language_model knows, sorted.
LOCKSTEP_API std::vector<std::string> language_families();

}  // namespace models
}  // namespace v0
}  // namespace lockstep
