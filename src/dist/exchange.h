// What one rank gives and gets in one collective: tensors on their way through an engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

#include "backends/side_work.h"
#include "dist/engine.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

class Exchange {
 public:
  struct Given {
    int to;
    Tensor tensor;
  };
  struct Wanted {
    int from;
    Shape shape;
  };
  /// Computes what is given, and makes room for what comes, which has the dtype and device of `like`, as what is given
  /// has.
  /// Waits::no: what is given may be in the work of its device still, if the engine reaches its memory.
  enum class Waits { no, yes };
  Exchange(const Engine& engine, std::string call, const Tensor& like, std::vector<Given> given,
           std::vector<Wanted> wanted, Waits waits);

  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  /// By any one thread; what is given and what comes belongs to this meanwhile. What is in a device's memory may be
  /// under way still when it returns.
  void move(Engine& engine);
  /// Whether it goes from memory to memory of devices.
  bool is_direct() const { return is_direct_; }
  /// What came, in the order of `wanted`: kernels that read it wait for it, the host does not.
  std::vector<Tensor> take();

 private:
  void wait_on_device();

  using Bytes = std::vector<std::byte>;

  std::string call_;
  Device device_;
  DType dtype_;
  bool is_direct_;  ///< the engine reads and writes the device's memory
  std::vector<Wanted> wanted_;
  std::vector<BufferRef> held_;
  std::vector<Bytes> host_given_;
  std::vector<Bytes> host_wanted_;
  std::vector<BufferRef> buffers_;  ///< of what comes, where no host_wanted_ is
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::shared_ptr<const WorkMark> before_;
  std::shared_ptr<const WorkMark> done_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
