#include "backends/gpu/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

// The library's numbers for kinds of objects,
constexpr int kDnnEngine = 2, kDnnChoice = 3, kDnnChooser = 4, kDnnPlanKind = 5, kDnnGraph = 15, kDnnPlaces = 16;
// for attributes,
constexpr int kDnnChooserUses = 200, kDnnChooserGraph = 201, kDnnChooserResults = 202, kDnnChoiceEngine = 300;
constexpr int kDnnPlanHandle = 400, kDnnPlanChoice = 401, kDnnPlanWorkBytes = 402;
constexpr int kDnnGraphHandle = 800, kDnnGraphOperations = 801, kDnnEngineNotes = 1303;
constexpr int kDnnPlacesNumbers = 1000, kDnnPlacesPointers = 1001, kDnnPlacesWork = 1003;
// and for values.
constexpr int kDnnProposals = 3, kDnnLastResort = 2;  // ways to choose
/// What a proposal must not be: it adds in less than f32, transforms its operands, or varies.
constexpr int kDnnRefusedNotes[] = {2, 3, 4, 5, 6, 7, 8};
constexpr std::int64_t kDnnMostNotes = 16, kDnnMostProposals = 24;

}  // namespace

CudnnApi::CudnnApi(const std::vector<std::string>& names) : library(names) {
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

template <typename Function> void CudnnApi::find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.function(name));
  if (function == nullptr) missing = fmt::format("cuDNN is too old: it lacks {}; install version 9", name);
}

void CudnnApi::check(Status status, const char* call) const {
  if (status != 0) throw BackendError(fmt::format("cuda: {} failed: {}", call, error_text(status)));
}

const CudnnApi& cudnn_api() {
  static const CudnnApi* const instance = new CudnnApi({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"});
  return *instance;
}

int cudnn_type(DType dtype) {
  return dtype == DType::f16 ? kDnnF16 : dtype == DType::bf16 ? kDnnBf16 : kDnnF32;
}

DnnObject::DnnObject(int kind) {
  cudnn_api().check(cudnn_api().object_create(kind, &handle_), "cudnnBackendCreateDescriptor");
}

DnnObject::~DnnObject() {
  if (handle_ != nullptr) cudnn_api().object_destroy(handle_);
}

DnnObject& DnnObject::set_all(int attribute, int type, std::int64_t count, const void* values) {
  cudnn_api().check(cudnn_api().object_set(handle_, attribute, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}

Status DnnObject::try_finish() {
  return cudnn_api().object_finish(handle_);
}

DnnObject& DnnObject::finish() {
  cudnn_api().check(try_finish(), "cudnnBackendFinalize");
  return *this;
}

DnnPlan::DnnPlan(Handle library, std::vector<DnnObject> operations, std::int64_t work_bytes)
    : operations_(std::move(operations)), graph_(kDnnGraph) {
  std::vector<Handle> all;
  for (const DnnObject& operation : operations_) all.push_back(operation.handle());
  graph_.set_all(kDnnGraphOperations, kDnnObjects, static_cast<std::int64_t>(all.size()), all.data());
  graph_.set(kDnnGraphHandle, kDnnHandle, library).finish();

  for (const int mode : {kDnnProposals, kDnnLastResort}) {
    DnnObject chooser(kDnnChooser);
    chooser.set(kDnnChooserGraph, graph_).set(kDnnChooserUses, kDnnChooserMode, mode);
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
      if (take(library, choices[static_cast<std::size_t>(i)], work_bytes)) return;
    }
  }
}

// Whether the proposal is ours; then `plan_` runs it.
bool DnnPlan::take(Handle library, DnnObject& choice, std::int64_t work_bytes) {
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
  DnnObject candidate(kDnnPlanKind);
  candidate.set(kDnnPlanHandle, kDnnHandle, library).set(kDnnPlanChoice, choice);
  if (candidate.try_finish() != 0) return false;
  std::int64_t bytes = 0;
  if (api.object_get(candidate.handle(), kDnnPlanWorkBytes, kDnnInt64, 1, &count, &bytes) != 0) return false;
  if (bytes > work_bytes) return false;
  plan_ = std::move(candidate);
  return true;
}

void DnnPlan::run(Handle library, std::span<const std::int64_t> numbers, std::span<const Address> places, Address work,
                  Handle stream) const {
  const CudnnApi& api = cudnn_api();
  const auto count = static_cast<std::int64_t>(numbers.size());
  DnnObject places_of(kDnnPlaces);
  places_of.set_all(kDnnPlacesNumbers, kDnnInt64, count, numbers.data());
  places_of.set_all(kDnnPlacesPointers, kDnnPointer, count, places.data());
  places_of.set(kDnnPlacesWork, kDnnPointer, work).finish();
  api.check(api.set_stream(library, stream), "cudnnSetStream");
  api.check(api.execute(library, plan_->handle(), places_of.handle()), "cudnnBackendExecute");
}

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
