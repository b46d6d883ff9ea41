#include "backends/gpu/cuda/cudnn.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/cuda/cudnn_graph.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

// The library's numbers for kinds of objects,
constexpr int kDnnConvolution = 1, kDnnForward = 10, kDnnWeightGradient = 11, kDnnInputGradient = 12;
// for attributes,
constexpr int kDnnSumsIn = 100, kDnnConvolutionMode = 101, kDnnDilations = 102, kDnnStrides = 103,
              kDnnPaddingAfter = 104, kDnnPaddingBefore = 105, kDnnSpatialDims = 106;
// and of the three operations: alpha, beta, the convolution, w, x and y.
struct DnnOperation {
  int kind, alpha, beta, convolution, w, x, y;
};
constexpr DnnOperation kDnnOperations[] = {{kDnnForward, 700, 701, 702, 703, 704, 705},
                                           {kDnnInputGradient, 706, 707, 708, 709, 710, 711},
                                           {kDnnWeightGradient, 712, 713, 714, 715, 716, 717}};
constexpr int kDnnCrossCorrelation = 1;

constexpr std::int64_t kDnnX = 1, kDnnW = 2, kDnnY = 3;  ///< numbers of the tensors

// The sizes are [first, second, spatial...]; in memory the second dimension's elements are side by side.
DnnObject dnn_tensor(std::int64_t number, DType dtype, std::int64_t first, std::int64_t second, const Shape& spatial) {
  Shape sizes{first, second};
  Shape steps{second * spatial.numel(), 1};
  std::int64_t step = second * spatial.numel();
  for (const std::int64_t size : spatial) {
    step /= size;
    sizes.push_back(size);
    steps.push_back(step);
  }
  DnnObject tensor(kDnnTensor);
  tensor.set(kDnnElements, kDnnDataType, cudnn_type(dtype)).set(kDnnSizes, sizes).set(kDnnSteps, steps);
  tensor.set(kDnnNumber, kDnnInt64, number).set(kDnnAlignment, kDnnInt64, std::int64_t{kLibraryAlignment});
  tensor.finish();
  return tensor;
}

}  // namespace

const std::string& missing_cudnn() {
  return cudnn_api().missing;
}

std::string cudnn_version() {
  if (!missing_cudnn().empty()) return "";
  const std::size_t version = cudnn_api().version();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

Cudnn::Cudnn() {
  if (!missing_cudnn().empty()) throw BackendError("cuda: " + missing_cudnn());
  cudnn_api().check(cudnn_api().create(&handle_), "cudnnCreate");
}

Cudnn::~Cudnn() {
  cudnn_api().destroy(handle_);
}

struct Cudnn::Convolution::Plan {
  Plan(Handle library, const LibraryConvolution& of);
  std::vector<DnnObject> operations(const LibraryConvolution& of);

  std::vector<DnnObject> parts;  ///< what the graph is made of
  DnnPlan plan;
};

Cudnn::Convolution::Plan::Plan(Handle library, const LibraryConvolution& of)
    : plan(library, operations(of), std::int64_t{kConvolutionWorkBytes}) {}

std::vector<DnnObject> Cudnn::Convolution::Plan::operations(const LibraryConvolution& of) {
  const auto result = [&](LibraryConvolution::Kind kind) { return of.kind == kind ? of.result : of.dtype; };
  parts.push_back(dnn_tensor(kDnnX, result(LibraryConvolution::Kind::input_gradient), of.images, of.channels, of.size));
  parts.push_back(
      dnn_tensor(kDnnW, result(LibraryConvolution::Kind::weight_gradient), of.outputs, of.channels, of.kernel));
  parts.push_back(dnn_tensor(kDnnY, result(LibraryConvolution::Kind::forward), of.images, of.outputs, of.out_size));
  DnnObject& convolution = parts.emplace_back(kDnnConvolution);
  convolution.set(kDnnSumsIn, kDnnDataType, kDnnF32).set(kDnnConvolutionMode, kDnnMode, kDnnCrossCorrelation);
  convolution.set(kDnnSpatialDims, kDnnInt64, std::int64_t{of.size.rank()}).set(kDnnStrides, of.stride);
  convolution.set(kDnnDilations, of.dilation).set(kDnnPaddingBefore, of.before).set(kDnnPaddingAfter, of.after);
  convolution.finish();
  const DnnOperation& numbers = kDnnOperations[static_cast<int>(of.kind)];
  std::vector<DnnObject> all;
  DnnObject& operation = all.emplace_back(numbers.kind);
  operation.set(numbers.convolution, parts[3])
      .set(numbers.x, parts[0])
      .set(numbers.w, parts[1])
      .set(numbers.y, parts[2]);
  operation.set(numbers.alpha, kDnnFloat, 1.0f).set(numbers.beta, kDnnFloat, 0.0f).finish();
  return all;
}

Cudnn::Convolution::Convolution(const Cudnn& library, const LibraryConvolution& of)
    : library_(library), plan_(std::make_unique<Plan>(library.handle_, of)) {
  if (plan_->plan.is_ready()) return;
  throw BackendError(
      fmt::format("cuda: cuDNN has nothing for a convolution of {} {} images, {} to {} channels, kernel {}, in fast "
                  "numerics\n  fix: Numerics::blocked or exact for it",
                  of.images, name_of(of.dtype), of.channels, of.outputs, of.kernel.to_string()));
}

Cudnn::Convolution::~Convolution() = default;

void Cudnn::Convolution::run(std::span<const Address> words, Handle stream) const {
  constexpr std::int64_t kNumbers[] = {kDnnX, kDnnW, kDnnY};
  plan_->plan.run(library_.handle_, kNumbers, words.first(3), words[3], stream);
}

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
