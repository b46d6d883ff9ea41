// Convolutions by cuDNN, NVIDIA's library, opened at run time: what fast numerics (docs/numerics.md section 13) give
// it. Through its graph interface: a description of one operation, the library's proposals for it, and the first of
// those that keeps our promises. As in cuda/blaslt.h its few functions and constants are declared in the source.
#pragma once

#include <memory>
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
    void run(Address x, Address w, Address y, Address work, Handle stream) const;

   private:
    struct Plan;
    const Cudnn& library_;
    std::unique_ptr<Plan> plan_;
  };

 private:
  Handle handle_ = nullptr;
};

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
