#include "backends/gpu/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

// The library's numbers for kinds of objects,
constexpr int kDnnConvolution = 1, kDnnEngine = 2, kDnnChoice = 3, kDnnChooser = 4, kDnnPlan = 5, kDnnForward = 10,
              kDnnWeightGradient = 11, kDnnInputGradient = 12, kDnnGraph = 15, kDnnPlaces = 16, kDnnTensor = 17;
// for types of values,
constexpr int kDnnHandle = 0, kDnnDataType = 1, kDnnInt64 = 3, kDnnFloat = 4, kDnnPointer = 6, kDnnMode = 7,
              kDnnChooserMode = 8, kDnnNote = 11, kDnnObjects = 15;
// for attributes,
constexpr int kDnnSumsIn = 100, kDnnConvolutionMode = 101, kDnnDilations = 102, kDnnStrides = 103,
              kDnnPaddingAfter = 104, kDnnPaddingBefore = 105, kDnnSpatialDims = 106;
constexpr int kDnnChooserUses = 200, kDnnChooserGraph = 201, kDnnChooserResults = 202, kDnnChoiceEngine = 300;
constexpr int kDnnPlanHandle = 400, kDnnPlanChoice = 401, kDnnPlanWorkBytes = 402;
constexpr int kDnnGraphHandle = 800, kDnnGraphOperations = 801, kDnnEngineNotes = 1303;
constexpr int kDnnAlignment = 900, kDnnElements = 901, kDnnSizes = 902, kDnnSteps = 903, kDnnNumber = 906;
constexpr int kDnnPlacesNumbers = 1000, kDnnPlacesPointers = 1001, kDnnPlacesWork = 1003;
// of the three operations: alpha, beta, the convolution, w, x and y,
struct DnnOperation {
  int kind, alpha, beta, convolution, w, x, y;
};
constexpr DnnOperation kDnnOperations[] = {{kDnnForward, 700, 701, 702, 703, 704, 705},
                                           {kDnnInputGradient, 706, 707, 708, 709, 710, 711},
                                           {kDnnWeightGradient, 712, 713, 714, 715, 716, 717}};
// and for values.
constexpr int kDnnF32 = 0, kDnnF16 = 2, kDnnBf16 = 9;
constexpr int kDnnCrossCorrelation = 1;
constexpr int kDnnProposals = 3, kDnnLastResort = 2;  // ways to choose
/// What a proposal must not be: it adds in less than f32, transforms its operands, or varies.
constexpr int kDnnRefusedNotes[] = {2, 3, 4, 5, 6, 7, 8};
constexpr std::int64_t kDnnMostNotes = 16, kDnnMostProposals = 24;

}  // namespace

struct CudnnApi {
  os::SharedLibrary library;
  Status (*create)(Handle*) = nullptr;
  Status (*destroy)(Handle) = nullptr;
  Status (*set_stream)(Handle, Handle) = nullptr;
  std::size_t (*version)() = nullptr;
  const char* (*error_text)(Status) = nullptr;
  Status (*object_create)(int, Handle*) = nullptr;
  Status (*object_destroy)(Handle) = nullptr;
  Status (*object_finish)(Handle) = nullptr;
  Status (*object_set)(Handle, int, int, std::int64_t, const void*) = nullptr;
  Status (*object_get)(Handle, int, int, std::int64_t, std::int64_t*, void*) = nullptr;
  Status (*execute)(Handle, Handle, Handle) = nullptr;
  std::string missing;

  explicit CudnnApi(const std::vector<std::string>& names) : library(names) {
    if (!library.is_open()) {
      missing = fmt::format(
          "cuDNN, NVIDIA's library of convolutions, cannot be opened: {}; install version 9 for your CUDA version, "
          "e.g. "
          "apt install libcudnn9-cuda-12 or pip install nvidia-cudnn-cu13, where the loader finds it (LD_LIBRARY_PATH)",
          library.error());
      return;
    }
    find("cudnnCreate", create);
    find("cudnnDestroy", destroy);
    find("cudnnSetStream", set_stream);
    find("cudnnGetVersion", version);
    find("cudnnGetErrorString", error_text);
    find("cudnnBackendCreateDescriptor", object_create);
    find("cudnnBackendDestroyDescriptor", object_destroy);
    find("cudnnBackendFinalize", object_finish);
    find("cudnnBackendSetAttribute", object_set);
    find("cudnnBackendGetAttribute", object_get);
    find("cudnnBackendExecute", execute);
  }

  template <typename Function> void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    if (function == nullptr) missing = fmt::format("cuDNN is too old: it lacks {}; install version 9", name);
  }
  void check(Status status, const char* call) const {
    if (status != 0) throw BackendError(fmt::format("cuda: {} failed: {}", call, error_text(status)));
  }
};

namespace {

const CudnnApi& cudnn_api() {
  static const CudnnApi* const instance = new CudnnApi({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"});
  return *instance;
}

int cudnn_type(DType dtype) {
  return dtype == DType::f16 ? kDnnF16 : dtype == DType::bf16 ? kDnnBf16 : kDnnF32;
}

}  // namespace

// Outside: parts of Cudnn::Convolution::Plan.
/// One of the library's descriptions.
class DnnObject {
 public:
  explicit DnnObject(int kind) {
    cudnn_api().check(cudnn_api().object_create(kind, &handle_), "cudnnBackendCreateDescriptor");
  }
  ~DnnObject() {
    if (handle_ != nullptr) cudnn_api().object_destroy(handle_);
  }
  DnnObject(DnnObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DnnObject& operator=(DnnObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  Handle handle() const { return handle_; }
  template <typename Value> DnnObject& set(int attribute, int type, const Value& value) {
    return set_all(attribute, type, 1, &value);
  }
  DnnObject& set(int attribute, const DnnObject& value) { return set(attribute, kDnnObjects, value.handle_); }
  DnnObject& set(int attribute, const Shape& sizes) {
    return set_all(attribute, kDnnInt64, sizes.rank(), sizes.begin());
  }
  DnnObject& set_all(int attribute, int type, std::int64_t count, const void* values) {
    cudnn_api().check(cudnn_api().object_set(handle_, attribute, type, count, values), "cudnnBackendSetAttribute");
    return *this;
  }
  Status try_finish() { return cudnn_api().object_finish(handle_); }
  DnnObject& finish() {
    cudnn_api().check(try_finish(), "cudnnBackendFinalize");
    return *this;
  }

 private:
  Handle handle_ = nullptr;
};

namespace {

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
  DnnObject graph_of(Handle library, const LibraryConvolution& of);
  bool take(Handle library, DnnObject& choice);

  std::vector<DnnObject> parts;  ///< what the graph is made of
  DnnObject graph{kDnnGraph};
  DnnObject plan{kDnnPlan};
  bool is_ready = false;
};

Cudnn::Convolution::Plan::Plan(Handle library, const LibraryConvolution& of) {
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
  DnnObject operation(numbers.kind);
  operation.set(numbers.convolution, parts[3])
      .set(numbers.x, parts[0])
      .set(numbers.w, parts[1])
      .set(numbers.y, parts[2]);
  operation.set(numbers.alpha, kDnnFloat, 1.0f).set(numbers.beta, kDnnFloat, 0.0f).finish();
  graph.set(kDnnGraphOperations, operation).set(kDnnGraphHandle, kDnnHandle, library).finish();
  parts.push_back(std::move(operation));

  for (const int mode : {kDnnProposals, kDnnLastResort}) {
    DnnObject chooser(kDnnChooser);
    chooser.set(kDnnChooserGraph, graph).set(kDnnChooserUses, kDnnChooserMode, mode);
    if (chooser.try_finish() != 0) continue;
    std::vector<DnnObject> choices;
    std::vector<Handle> handles;
    for (std::int64_t i = 0; i < kDnnMostProposals; ++i) handles.push_back(choices.emplace_back(kDnnChoice).handle());
    std::int64_t count = 0;
    if (cudnn_api().object_get(chooser.handle(), kDnnChooserResults, kDnnObjects, kDnnMostProposals, &count,
                               handles.data()) != 0) {
      continue;
    }
    for (std::int64_t i = 0; i < std::min(count, kDnnMostProposals); ++i) {
      if (take(library, choices[static_cast<std::size_t>(i)])) return;
    }
  }
}

// Whether the proposal is ours; then `plan` runs it.
bool Cudnn::Convolution::Plan::take(Handle library, DnnObject& choice) {
  const CudnnApi& api = cudnn_api();
  DnnObject engine(kDnnEngine);
  Handle place = engine.handle();
  std::int64_t count = 0;
  if (api.object_get(choice.handle(), kDnnChoiceEngine, kDnnObjects, 1, &count, &place) != 0) return false;
  std::array<int, kDnnMostNotes> notes{};
  if (api.object_get(engine.handle(), kDnnEngineNotes, kDnnNote, kDnnMostNotes, &count, notes.data()) != 0)
    return false;
  for (std::int64_t i = 0; i < std::min(count, kDnnMostNotes); ++i) {
    for (const int refused : kDnnRefusedNotes) {
      if (notes[static_cast<std::size_t>(i)] == refused) return false;
    }
  }
  DnnObject candidate(kDnnPlan);
  candidate.set(kDnnPlanHandle, kDnnHandle, library).set(kDnnPlanChoice, choice);
  if (candidate.try_finish() != 0) return false;
  std::int64_t bytes = 0;
  if (api.object_get(candidate.handle(), kDnnPlanWorkBytes, kDnnInt64, 1, &count, &bytes) != 0) return false;
  if (bytes > static_cast<std::int64_t>(kConvolutionWorkBytes)) return false;
  plan = std::move(candidate);
  is_ready = true;
  return true;
}

Cudnn::Convolution::Convolution(const Cudnn& library, const LibraryConvolution& of)
    : library_(library), plan_(std::make_unique<Plan>(library.handle_, of)) {
  if (plan_->is_ready) return;
  throw BackendError(
      fmt::format("cuda: cuDNN has nothing for a convolution of {} {} images, {} to {} channels, kernel {}, in fast "
                  "numerics\n  fix: Numerics::blocked or exact for it",
                  of.images, name_of(of.dtype), of.channels, of.outputs, of.kernel.to_string()));
}

Cudnn::Convolution::~Convolution() = default;

void Cudnn::Convolution::run(Address x, Address w, Address y, Address work, Handle stream) const {
  const CudnnApi& api = cudnn_api();
  const std::int64_t numbers[] = {kDnnX, kDnnW, kDnnY};
  const Address places[] = {x, w, y};
  DnnObject places_of(kDnnPlaces);
  places_of.set_all(kDnnPlacesNumbers, kDnnInt64, 3, numbers).set_all(kDnnPlacesPointers, kDnnPointer, 3, places);
  places_of.set(kDnnPlacesWork, kDnnPointer, work).finish();
  api.check(api.set_stream(library_.handle_, stream), "cudnnSetStream");
  api.check(api.execute(library_.handle_, plan_->plan.handle(), places_of.handle()), "cudnnBackendExecute");
}

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
