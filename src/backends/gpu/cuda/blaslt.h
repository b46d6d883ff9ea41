// Products of matrices by cuBLASLt, NVIDIA's library, opened at run time: what fast numerics (docs/numerics.md section
// 13) are computed with. As in cuda/api.h its few functions and constants are declared here and in the source.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backends/gpu/cuda/api.h"
#include "backends/gpu/source.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {

/// Why the library cannot be used, with what to install; empty where it can. Opens it.
const std::string& missing_blaslt();
/// The same for products of 8-bit floats that have scales.
std::string missing_scaled_floats();
/// E.g. "cuBLASLt 13.1.0"; empty where it is missing.
std::string blaslt_version();

/// The library's state in a context, which is current in every call.
class BlasLt {
 public:
  BlasLt();
  ~BlasLt();
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;

  /// A product with its algorithm: the first that the library's heuristics name among those that have the same result
  /// in every run.
  class Product {
   public:
    Product(const BlasLt& library, const LibraryProduct& product);
    ~Product();
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;
    /// The launch's words: places of a, b, out, working memory and the bias, where there is one.
    void run(std::span<const Address> words, Handle stream) const;

   private:
    struct Plan;
    const BlasLt& library_;
    std::unique_ptr<Plan> plan_;
  };

 private:
  Handle handle_ = nullptr;
};

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
