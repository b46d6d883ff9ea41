// Losses as values that keep their options: nn::CrossEntropyLoss loss{{.label_smoothing = 0.1}}; loss(scores, classes).
// They have no parameters and are no modules. ops/loss.h says what they compute.
#pragma once

#include <optional>

#include <lockstep/ops/loss.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// PyTorch: nn.CrossEntropyLoss.
struct CrossEntropyLoss {
  ClassLossOptions options = {};
  Tensor operator()(const Operand& input, const Operand& target) const { return cross_entropy(input, target, options); }
};
/// PyTorch: nn.NLLLoss.
struct NLLLoss {
  ClassLossOptions options = {};
  Tensor operator()(const Operand& input, const Operand& target) const { return nll_loss(input, target, options); }
};
/// PyTorch: nn.MSELoss.
struct MSELoss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Operand& input, const Operand& target) const { return mse_loss(input, target, reduction); }
};
/// PyTorch: nn.L1Loss.
struct L1Loss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Operand& input, const Operand& target) const { return l1_loss(input, target, reduction); }
};
/// PyTorch: nn.SmoothL1Loss.
struct SmoothL1Loss {
  Reduction reduction = Reduction::mean;
  double beta = 1;
  Tensor operator()(const Operand& input, const Operand& target) const {
    return smooth_l1_loss(input, target, reduction, beta);
  }
};
/// PyTorch: nn.HuberLoss.
struct HuberLoss {
  Reduction reduction = Reduction::mean;
  double delta = 1;
  Tensor operator()(const Operand& input, const Operand& target) const {
    return huber_loss(input, target, reduction, delta);
  }
};
/// PyTorch: nn.BCELoss.
struct BCELoss {
  BinaryLossOptions options = {};
  Tensor operator()(const Operand& input, const Operand& target) const {
    return binary_cross_entropy(input, target, options);
  }
};
/// PyTorch: nn.BCEWithLogitsLoss.
struct BCEWithLogitsLoss {
  BinaryLossOptions options = {};
  Tensor operator()(const Operand& input, const Operand& target) const {
    return binary_cross_entropy_with_logits(input, target, options);
  }
};
/// PyTorch: nn.KLDivLoss.
struct KLDivLoss {
  Reduction reduction = Reduction::mean;
  bool log_target = false;
  Tensor operator()(const Operand& input, const Operand& target) const {
    return kl_div(input, target, reduction, log_target);
  }
};
/// PyTorch: nn.CTCLoss.
struct CTCLoss {
  CtcOptions options = {};
  Tensor operator()(const Operand& log_probs, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                    const std::vector<std::int64_t>& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
  }
};
/// PyTorch: nn.CosineEmbeddingLoss.
struct CosineEmbeddingLoss {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& target) const {
    return cosine_embedding_loss(a, b, target, margin, reduction);
  }
};
/// PyTorch: nn.TripletMarginLoss.
struct TripletMarginLoss {
  TripletMarginOptions options = {};
  Tensor operator()(const Operand& anchor, const Operand& positive, const Operand& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options);
  }
};
/// PyTorch: nn.MarginRankingLoss.
struct MarginRankingLoss {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& target) const {
    return margin_ranking_loss(a, b, target, margin, reduction);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
