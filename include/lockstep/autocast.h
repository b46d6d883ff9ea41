// Mixed precision: in a scope, contractions take and give 16 bits, and what needs range or precision stays in f32.
//
//   ls::Tensor loss;
//   {
//     const ls::Autocast scope(ls::DType::bf16);
//     loss = ls::cross_entropy(net.forward(x), y);   // parameters are f32, and so are their gradients
//   }
//   optimizer.step(loss);
#pragma once

#include <lockstep/dtype.h>
#include <lockstep/error.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// While it lives, ops of this thread cast float operands before they compute; f64 tensors, integers and packed weights
/// stay as they are. What an op gives is what it gives outside of the scope for operands that were cast explicitly, to
/// the bit.
///
/// To `dtype`: matmul and the other products (mm, bmm, mv, dot, vdot, inner, addmm, addmv, addbmm, baddbmm, addr,
/// tensordot, einsum, multi_dot, bilinear), linear, convolutions and transposed ones, scaled_dot_product_attention,
/// recurrent layers and cells. To f32: sum, prod, mean, var, std, norm, vector_norm, nansum, nanmean, logsumexp,
/// softmax, log_softmax, softmin, cumsum, cumprod, logcumsumexp; batch, layer, group, instance, RMS and local response
/// norm, normalize; losses, cdist, pairwise_distance, cosine_similarity; exp, expm1, log, log1p, log2, log10, pow,
/// rsqrt, reciprocal, tan, asin, acos, sinh, cosh, erfinv. Elementwise ops, where, lerp, cat and stack of mixed
/// operands: all to f32. Others take what they get, and so do the ops
/// that these are made of. Gradients are of the casts too, and are computed as outside of the
/// scope; checkpoint() remembers it. PyTorch: autocast.
class LOCKSTEP_API Autocast {
 public:
  /// f16 (which needs optim::GradScaler for training) or bf16; f32 switches an outer scope off. DTypeError for others.
  explicit Autocast(DType dtype, CallSite site = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DType before_;
};

}  // namespace v0
}  // namespace lockstep
