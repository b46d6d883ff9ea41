#include "backends/gpu/cuda/blaslt.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

// The library's numbers for types, ways of computing and attributes.
constexpr int kBlasF32 = 0, kBlasF16 = 2, kBlasBf16 = 14, kBlasE4m3 = 28;
constexpr int kBlasSumsInF32 = 68, kBlasTf32 = 77;
constexpr int kBlasTransposeA = 3, kBlasTransposeB = 4;  // of a product
constexpr int kBlasEpilogue = 7, kBlasBiasPlace = 8;
constexpr int kBlasScalesA = 17, kBlasScalesB = 18, kBlasScalingA = 31, kBlasScalingB = 32;
constexpr std::int32_t kBlasScales[] = {0, 4, 3, 5};     // ways of scaling, as LibraryProduct::Scales has them
constexpr std::size_t kBlasFirstScaling = 120900;        // a version
constexpr std::int32_t kBlasAddsBias = 4;                // an epilogue
constexpr int kBlasBatches = 5, kBlasBatchStride = 6;    // of a matrix
constexpr int kBlasWorkBytes = 1, kBlasReductions = 3;   // of a choice
constexpr int kBlasAlignmentA = 5, kBlasAlignmentB = 6, kBlasAlignmentC = 7, kBlasAlignmentOut = 8;
/// Parts of a long sum are added not at all, or in f32 by a step of its own: in the same order in every run.
constexpr std::uint32_t kBlasOrderedReductions = 2;

}  // namespace

// Outside: they are parts of BlasLt::Product::Plan.
struct BlasLtAlgorithm {
  std::uint64_t words[8];
};
struct BlasLtChoice {
  BlasLtAlgorithm algorithm;
  std::size_t work_bytes;
  Status status;
  float waves;
  int reserved[4];
};

struct BlasLtApi {
  os::SharedLibrary library;
  Status (*create)(Handle*) = nullptr;
  Status (*destroy)(Handle) = nullptr;
  std::size_t (*version)() = nullptr;
  Status (*product_create)(Handle*, int, int) = nullptr;
  Status (*product_set)(Handle, int, const void*, std::size_t) = nullptr;
  Status (*product_destroy)(Handle) = nullptr;
  Status (*matrix_create)(Handle*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  Status (*matrix_set)(Handle, int, const void*, std::size_t) = nullptr;
  Status (*matrix_destroy)(Handle) = nullptr;
  Status (*choice_create)(Handle*) = nullptr;
  Status (*choice_set)(Handle, int, const void*, std::size_t) = nullptr;
  Status (*choice_destroy)(Handle) = nullptr;
  Status (*choose)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, BlasLtChoice*, int*) = nullptr;
  Status (*run)(Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*, const void*, Handle,
                void*, Handle, const BlasLtAlgorithm*, void*, std::size_t, Handle) = nullptr;
  std::string missing;

  explicit BlasLtApi(const std::vector<std::string>& names) : library(names) {
    if (!library.is_open()) {
      missing = fmt::format(
          "cuBLASLt, NVIDIA's library of matrix products, cannot be opened: {}; install it for your CUDA version, e.g. "
          "apt install libcublas12 or pip install nvidia-cublas, where the loader finds it (LD_LIBRARY_PATH)",
          library.error());
      return;
    }
    find("cublasLtCreate", create);
    find("cublasLtDestroy", destroy);
    find("cublasLtGetVersion", version);
    find("cublasLtMatmulDescCreate", product_create);
    find("cublasLtMatmulDescSetAttribute", product_set);
    find("cublasLtMatmulDescDestroy", product_destroy);
    find("cublasLtMatrixLayoutCreate", matrix_create);
    find("cublasLtMatrixLayoutSetAttribute", matrix_set);
    find("cublasLtMatrixLayoutDestroy", matrix_destroy);
    find("cublasLtMatmulPreferenceCreate", choice_create);
    find("cublasLtMatmulPreferenceSetAttribute", choice_set);
    find("cublasLtMatmulPreferenceDestroy", choice_destroy);
    find("cublasLtMatmulAlgoGetHeuristic", choose);
    find("cublasLtMatmul", run);
  }

  template <typename Function> void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    if (function == nullptr)
      missing = fmt::format("cuBLASLt is too old: it lacks {}; install version 11 or later", name);
  }
};

/// One of the library's descriptions.
class BlasLtObject {
 public:
  explicit BlasLtObject(Status (*destroy)(Handle)) : destroy_(destroy) {}
  ~BlasLtObject() {
    if (handle != nullptr) destroy_(handle);
  }
  BlasLtObject(const BlasLtObject&) = delete;
  BlasLtObject& operator=(const BlasLtObject&) = delete;
  Handle handle = nullptr;

 private:
  Status (*destroy_)(Handle);
};

namespace {

const BlasLtApi& blaslt_api() {
  static const BlasLtApi* const instance = new BlasLtApi({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11",
                                                          "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"});
  return *instance;
}

void check_blaslt(Status status, const char* call) {
  if (status != 0) throw BackendError(fmt::format("cuda: {} failed with status {}", call, status));
}

int blaslt_type(DType dtype) {
  return dtype == DType::f16      ? kBlasF16
         : dtype == DType::bf16   ? kBlasBf16
         : dtype == DType::f8e4m3 ? kBlasE4m3
                                  : kBlasF32;
}

}  // namespace

const std::string& missing_blaslt() {
  return blaslt_api().missing;
}

std::string missing_scaled_floats() {
  if (!missing_blaslt().empty() || blaslt_api().version() >= kBlasFirstScaling) return missing_blaslt();
  return fmt::format("{} is too old for 8-bit floats with scales; install 12.9 or later", blaslt_version());
}

std::string blaslt_version() {
  if (!missing_blaslt().empty()) return "";
  const std::size_t version = blaslt_api().version();
  return version >= 100000 ? fmt::format("cuBLASLt {}.{}.{}", version / 10000, version % 10000 / 100, version % 100)
                           : fmt::format("cuBLASLt {}", version);
}

BlasLt::BlasLt() {
  if (!missing_blaslt().empty()) throw BackendError("cuda: " + missing_blaslt());
  check_blaslt(blaslt_api().create(&handle_), "cublasLtCreate");
}

BlasLt::~BlasLt() {
  blaslt_api().destroy(handle_);
}

struct BlasLt::Product::Plan {
  const BlasLtApi& api = blaslt_api();
  BlasLtObject product{api.product_destroy};
  BlasLtObject a{api.matrix_destroy};
  BlasLtObject b{api.matrix_destroy};
  BlasLtObject out{api.matrix_destroy};
  BlasLtAlgorithm algorithm{};
  bool has_bias = false;
  bool has_scales = false;

  void set(int attribute, const void* value, std::size_t bytes) {
    check_blaslt(api.product_set(product.handle, attribute, value, bytes), "cublasLtMatmulDescSetAttribute");
  }
  // `rows` and `columns` as the product has them, before the transposition.
  void describe(BlasLtObject& matrix, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t batches,
                const LibraryProduct::Matrix& of) {
    if (of.transposed) std::swap(rows, columns);
    check_blaslt(api.matrix_create(&matrix.handle, blaslt_type(dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), of.leading),
                 "cublasLtMatrixLayoutCreate");
    const auto count = static_cast<std::int32_t>(batches);
    check_blaslt(api.matrix_set(matrix.handle, kBlasBatches, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute");
    check_blaslt(api.matrix_set(matrix.handle, kBlasBatchStride, &of.batch_stride, sizeof of.batch_stride),
                 "cublasLtMatrixLayoutSetAttribute");
  }
};

BlasLt::Product::Product(const BlasLt& library, const LibraryProduct& of)
    : library_(library), plan_(std::make_unique<Plan>()) {
  Plan& plan = *plan_;
  const BlasLtApi& api = plan.api;
  check_blaslt(api.product_create(&plan.product.handle, of.dtype == DType::f32 ? kBlasTf32 : kBlasSumsInF32, kBlasF32),
               "cublasLtMatmulDescCreate");
  const std::int32_t transpose_a = of.a.transposed;
  const std::int32_t transpose_b = of.b.transposed;
  plan.set(kBlasTransposeA, &transpose_a, sizeof transpose_a);
  plan.set(kBlasTransposeB, &transpose_b, sizeof transpose_b);
  plan.has_bias = of.bias;
  if (of.bias) plan.set(kBlasEpilogue, &kBlasAddsBias, sizeof kBlasAddsBias);
  plan.has_scales = of.dtype == DType::f8e4m3;
  if (plan.has_scales) {
    plan.set(kBlasScalingA, &kBlasScales[static_cast<std::size_t>(of.a.scales)], sizeof(std::int32_t));
    plan.set(kBlasScalingB, &kBlasScales[static_cast<std::size_t>(of.b.scales)], sizeof(std::int32_t));
    const void* const anywhere = &kBlasScales;  // the heuristics ask whether there is a place
    plan.set(kBlasScalesA, &anywhere, sizeof(void*));
    plan.set(kBlasScalesB, &anywhere, sizeof(void*));
  }
  plan.describe(plan.a, of.dtype, of.rows, of.length, of.batches, of.a);
  plan.describe(plan.b, of.dtype, of.length, of.columns, of.batches, of.b);
  plan.describe(plan.out, of.result, of.rows, of.columns, of.batches, of.out);

  BlasLtObject choice(api.choice_destroy);
  check_blaslt(api.choice_create(&choice.handle), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](int attribute, const auto& value) {
    check_blaslt(api.choice_set(choice.handle, attribute, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  set(kBlasWorkBytes, std::uint64_t{kLibraryWorkBytes});
  set(kBlasReductions, kBlasOrderedReductions);
  set(kBlasAlignmentA, of.a.alignment);
  set(kBlasAlignmentB, of.b.alignment);
  set(kBlasAlignmentC, of.out.alignment);
  set(kBlasAlignmentOut, of.out.alignment);
  BlasLtChoice found{};
  int count = 0;
  const Status status = api.choose(library_.handle_, plan.product.handle, plan.a.handle, plan.b.handle, plan.out.handle,
                                   plan.out.handle, choice.handle, 1, &found, &count);
  if (status != 0 || count == 0) {
    throw BackendError(
        fmt::format("cuda: cuBLASLt has nothing for a product of {} [{} x {} x {}] in fast numerics (status {})\n"
                    "  fix: Numerics::blocked or exact for it",
                    name_of(of.dtype), of.rows, of.columns, of.length, status));
  }
  plan.algorithm = found.algorithm;
}

BlasLt::Product::~Product() = default;

void BlasLt::Product::run(std::span<const Address> words, Handle stream) const {
  const float one = 1.0f;
  const float zero = 0.0f;
  const auto place = [&](std::size_t word) { return reinterpret_cast<void*>(words[word]); };
  constexpr std::size_t kBiasWord = 4;
  if (plan_->has_bias) {
    const void* const bias = place(kBiasWord);
    plan_->set(kBlasBiasPlace, &bias, sizeof(void*));
  }
  constexpr std::size_t kScaleWord = 4;
  for (std::size_t i = 0; plan_->has_scales && i < 2; ++i) {
    const void* const scales = place(kScaleWord + i);
    plan_->set(i == 0 ? kBlasScalesA : kBlasScalesB, &scales, sizeof(void*));
  }
  check_blaslt(plan_->api.run(library_.handle_, plan_->product.handle, &one, place(0), plan_->a.handle, place(1),
                              plan_->b.handle, &zero, place(2), plan_->out.handle, place(2), plan_->out.handle,
                              &plan_->algorithm, place(3), kLibraryWorkBytes, stream),
               "cublasLtMatmul");
}

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
