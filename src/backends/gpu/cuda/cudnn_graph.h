// cuDNN's graph interface: its functions, its objects, and plans, which are what the library proposes for a graph of
// operations. For cuda/cudnn*.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/dtype.h>
#include <lockstep/shape.h>

#include "backends/gpu/cuda/api.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {

// The library's numbers for types of values,
constexpr int kDnnHandle = 0, kDnnDataType = 1, kDnnBoolean = 2, kDnnInt64 = 3, kDnnFloat = 4, kDnnPointer = 6,
              kDnnMode = 7, kDnnChooserMode = 8, kDnnNote = 11, kDnnPointwiseMode = 14, kDnnObjects = 15,
              kDnnReductionMode = 18;
// for tensors,
constexpr int kDnnTensor = 17, kDnnAlignment = 900, kDnnElements = 901, kDnnSizes = 902, kDnnSteps = 903,
              kDnnNumber = 906, kDnnIsVirtual = 907, kDnnIsByValue = 908;
// and for values.
constexpr int kDnnF32 = 0, kDnnF16 = 2, kDnnI32 = 4, kDnnBf16 = 9, kDnnBool = 11;

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

  explicit CudnnApi(const std::vector<std::string>& names);
  void check(Status status, const char* call) const;

 private:
  template <typename Function> void find(const char* name, Function& function);
};
/// Opens it.
const CudnnApi& cudnn_api();

int cudnn_type(DType dtype);

/// One of the library's descriptions.
class DnnObject {
 public:
  explicit DnnObject(int kind);
  ~DnnObject();
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
  DnnObject& set_all(int attribute, int type, std::int64_t count, const void* values);
  Status try_finish();
  DnnObject& finish();

 private:
  Handle handle_ = nullptr;
};

/// How operations run: the first of the library's proposals that is not refused and needs at most `work_bytes`.
class DnnPlan {
 public:
  DnnPlan(Handle library, std::vector<DnnObject> operations, std::int64_t work_bytes);
  /// Whether there is one.
  bool is_ready() const { return plan_.has_value(); }
  /// Tensors of these numbers at these places; of those by value on the host.
  void run(Handle library, std::span<const std::int64_t> numbers, std::span<const Address> places, Address work,
           Handle stream) const;

 private:
  bool take(Handle library, DnnObject& choice, std::int64_t work_bytes);

  std::vector<DnnObject> operations_;
  DnnObject graph_;
  std::optional<DnnObject> plan_;
};

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
