// Convolutions and attention by cuDNN, NVIDIA's library, opened at run time: what fast numerics (docs/numerics.md
// section 13) give it. Through its graph interface (cuda/cudnn_graph.h): a description of operations, the library's
// proposals for them, and the first of those that keeps our promises. As in cuda/blaslt.h its few functions and
// constants are declared in the sources.
#pragma once

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
const std::string& missing_cudnn();
/// E.g. "cuDNN 9.19.0"; empty where it is missing.
std::string cudnn_version();

/// The library's state in a context, which is current in every call.
class Cudnn {
 public:
  Cudnn();
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  /// A convolution with what computes it: the first of the library's proposals that has the same result in every run,
  /// adds in f32 and multiplies what it is given (no transforms: Winograd's, Fourier's).
  class Convolution {
   public:
    Convolution(const Cudnn& library, const LibraryConvolution& convolution);
    ~Convolution();
    Convolution(const Convolution&) = delete;
    Convolution& operator=(const Convolution&) = delete;
    /// The launch's words, as LibraryConvolution says.
    void run(std::span<const Address> words, Handle stream) const;

   private:
    struct Plan;
    const Cudnn& library_;
    std::unique_ptr<Plan> plan_;
  };

  /// Attention, or its gradients by the kernels that have the same result in every run (cuda/cudnn_attention.cpp).
  class Attention {
   public:
    Attention(const Cudnn& library, const LibraryAttention& attention);
    ~Attention();
    Attention(const Attention&) = delete;
    Attention& operator=(const Attention&) = delete;
    /// The launch's words, as LibraryAttention says.
    void run(std::span<const Address> words, Handle stream) const;

   private:
    struct Plan;
    const Cudnn& library_;
    std::unique_ptr<Plan> plan_;
  };
  /// Whether this version of the library has what Attention describes; on devices of Hopper's kind.
  static bool has_attention();

 private:
  Handle handle_ = nullptr;
};

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
