// Which arithmetic products have: exact; block fixed point, which tensor cores can repeat to the bit; fast, which is
// that of a device's own libraries and of no other device; or q8, products of quantised weights by integers.
//
//   const ls::NumericsScope scope(ls::Numerics::blocked);
//   const ls::Autocast cast(ls::DType::bf16);
//   loss = ls::cross_entropy(net.forward(x), y);   // its products, and those of its gradient, are blocked
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/device.h>
#include <lockstep/error.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// How a product of matrices, a convolution or attention sums. All but `fast` give the same bits on every device; all
/// are specified in docs/numerics.md.
enum class Numerics : std::uint8_t {
  exact,    ///< f32 fused multiply-adds in the canonical order (section 6)
  blocked,  ///< block fixed point (section 12): integer products of 15-bit numbers that share a power of two along k
  fast,     ///< the vendor's tensor cores (section 13): an error bound instead of specified bits; on CUDA alone
  q8,  ///< products with packed weights (section 14): activations rounded to 8 bits, integer products in blocks of 32
};

/// "exact", "blocked", "fast", "q8".
LOCKSTEP_API const char* name_of(Numerics numerics);
/// The numerics of a name. Throws ValueError that lists the names.
LOCKSTEP_API Numerics numerics_from_name(std::string_view name);

/// While it lives, ops of this thread whose operands are f16 or bf16 (also after Autocast's casts) multiply matrices in
/// `numerics`: matmul and the other products, linear, convolutions and transposed ones, attention's two products,
/// recurrent layers. The choice is recorded with each product when it is made; gradients have that of their op,
/// wherever they are computed, and checkpoint() remembers it. Products of f32, f64 and integers are exact in all.
///
/// Numerics::blocked: of a row along k, every 128 elements share a power of two, and each is rounded to 15 bits of it.
/// So an element errs by at most 2^-14 of the largest magnitude in its block, and f16 and bf16 elements that are at
/// least 1/16 (f16) or 1/128 (bf16) of it not at all; products and sums of a block are exact, blocks are added in f32.
/// On data of like magnitudes the error is a hundredth of what rounding the result to bf16 costs (the bound and
/// measurements: docs/numerics.md section 12). A block with an infinity, a NaN or an element of 2^119 and more makes
/// every result that reads it NaN.
///
/// Numerics::fast: products of cuBLASLt, convolutions and attention of cuDNN on a CUDA device. Results stay within the
/// bound of section 13, repeat on the same device with the same library, and differ elsewhere. It is never chosen by
/// itself: an op whose operands are on another device, or without the library, throws DeviceError. With a device the
/// scope does so itself, before there is any op.
///
/// Numerics::q8 concerns products whose right operand is packed (Tensor::encoding) with its blocks along the summed
/// dimension, as the weight of linear() is. Every 32 elements of the left operand along it share a scale and are
/// rounded to 8 bits of that: an element errs by at most 1/253 of the largest magnitude in its block. Products of codes
/// are summed in integers; only the addition of blocks of 32 rounds, in f32. A block with an infinity or a NaN makes
/// every result that reads it NaN. All other products are exact, those of gradients among them.
class LOCKSTEP_API NumericsScope {
 public:
  explicit NumericsScope(Numerics numerics, CallSite site = {});
  /// For work on `device`. Throws DeviceError that names what is missing where it cannot give `numerics`: fast ones
  /// need cuBLASLt and cuDNN, all others are everywhere.
  NumericsScope(Numerics numerics, Device device, CallSite site = {});
  ~NumericsScope();
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  std::uint8_t before_;
};

/// What a scope of this thread asks for; exact outside of all scopes.
LOCKSTEP_API Numerics current_numerics();

}  // namespace v0
}  // namespace lockstep
