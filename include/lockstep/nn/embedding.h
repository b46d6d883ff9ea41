// Rows of a table by their numbers: words, characters, categories.
#pragma once

#include <optional>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

struct EmbeddingOptions {
  /// This row starts as zeros and gets no gradient; negative: counted from the end.
  std::optional<std::int64_t> padding_idx = std::nullopt;
};

/// ids [...] (i32 or i64) to [..., features].  PyTorch: nn.Embedding.
class LOCKSTEP_API Embedding : public Layer {
 public:
  /// Throws IndexError if there is no row `padding_idx`.
  Embedding(Module& parent, std::string name, std::int64_t rows, std::int64_t features, EmbeddingOptions options = {});
  Embedding(std::int64_t rows, std::int64_t features, EmbeddingOptions options = {})
      : Embedding(no_parent(), {}, rows, features, options) {}
  /// Throws IndexError when the result is read if an id is outside the table.
  Tensor forward(const Operand& ids) const override;

  Parameter weight;  ///< [rows, features], normal

 private:
  std::optional<std::int64_t> padding_idx_;
};

enum class BagMode : std::uint8_t { sum, mean, max };

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  /// This row starts as zeros, gets no gradient, and is left out of its bags.
  std::optional<std::int64_t> padding_idx = std::nullopt;
};

/// The sum, mean or maximum of the rows of each bag; zeros of an empty one.  PyTorch: nn.EmbeddingBag.
class LOCKSTEP_API EmbeddingBag : public Layer {
 public:
  EmbeddingBag(Module& parent, std::string name, std::int64_t rows, std::int64_t features,
               EmbeddingBagOptions options = {});
  EmbeddingBag(std::int64_t rows, std::int64_t features, EmbeddingBagOptions options = {})
      : EmbeddingBag(no_parent(), {}, rows, features, options) {}
  /// Bags of one size: ids [bags, size] to [bags, features].
  Tensor forward(const Operand& ids) const override;
  /// With a factor for each row, of ids' shape. ValueError unless the mode is sum.
  Tensor forward(const Operand& ids, const std::optional<Tensor>& per_sample_weights) const;
  /// Bags one after the other: ids [n], and where each bag starts, ascending from 0: offsets [bags] of ids' dtype.
  Tensor bags(const Operand& ids, const Tensor& offsets,
              const std::optional<Tensor>& per_sample_weights = std::nullopt) const;

  Parameter weight;  ///< [rows, features], normal

 private:
  struct Rows {
    Tensor values;  ///< [..., features]
    Tensor counts;  ///< [..., 1]
  };
  Rows rows_of_bags(const Tensor& ids, const std::optional<Tensor>& factors) const;
  double nothing() const;
  Tensor finished(const Tensor& reduced, const Tensor& counts) const;

  BagMode mode_;
  std::optional<std::int64_t> padding_idx_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
