// Several processes that work on one thing: who they are, and how tensors get from one to another. Collectives only
// move data; what is added is added by the library's own kernels, in an order of its own, so that results do not depend
// on how many processes there are. docs/distributed.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

/// A process of a group is gone, does not answer in time, or calls something else than the others. what() has the
/// number and the name of the call and the calls before it. The group cannot be used any more.
class LOCKSTEP_API DistributedError : public Error {
 public:
  DistributedError(const std::string& message, int rank) : Error(message), rank_(rank) {}
  ~DistributedError() override;
  /// The rank that is to blame; -1 where that is not known.
  int rank() const { return rank_; }

 private:
  int rank_;
};

struct GroupOptions {
  /// How long a rank waits for another one, in each call and when the group is made.
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
  /// What moves the data: "tcp", "mpi", "nccl" (GPUs of CUDA; other tensors go by TCP), or "auto": MPI under an mpirun
  /// for which there is a plug-in, else TCP, and NCCL for the tensors of GPUs where each rank has a GPU of CUDA to
  /// itself and all have one version of NCCL. Empty: what LOCKSTEP_DIST_ENGINE says, else "auto". An engine that was
  /// asked for and cannot be used is an error.
  std::string engine = {};
};

/// A way from one device of this machine to another one of its kind.
struct Link {
  Device from;
  Device to;
  bool is_direct = false;  ///< Tensor::to does not go through the host's memory
};
/// Between all devices of one kind, in both directions.
LOCKSTEP_API std::vector<Link> links();

/// Processes that call the same collectives in the same order, with tensors of the same shapes and dtypes. Copies are
/// one group. Not for several threads at once.
///
/// Every call throws DistributedError, on every rank that waits for the one at fault, within the deadline; a call that
/// differs between ranks is named with both forms.
class LOCKSTEP_API Group {
 public:
  /// Of this process, 0 <= rank() < size().
  int rank() const;
  int size() const;
  /// The number of this process among those of its machine; 0 where the launcher does not tell.
  int local_rank() const;
  /// What moves the data, e.g. "TCP", "MPI (Open MPI v4.1.4)"; "none" in a group of one.
  std::string engine() const;

  /// The tensor of rank `from`, on the device of each rank's own `x`, which has its shape and dtype. PyTorch:
  /// broadcast.
  Tensor broadcast(const Tensor& x, int from, CallSite site = {}) const;
  /// The tensors of all ranks, by rank. PyTorch: all_gather.
  std::vector<Tensor> all_gather(const Tensor& x, CallSite site = {}) const;
  /// The same for tensors of different shapes; `shapes` are those of all ranks. ValueError, ShapeError.
  std::vector<Tensor> all_gather(const Tensor& x, const std::vector<Shape>& shapes, CallSite site = {}) const;
  /// Gives parts[r] to rank r, and gets what the others gave to this one, by rank. One part for each rank, all of one
  /// shape and dtype: ValueError, ShapeError, DTypeError. PyTorch: all_to_all.
  std::vector<Tensor> all_to_all(const std::vector<Tensor>& parts, CallSite site = {}) const;
  /// The same for parts of different shapes; `shapes` are those of what comes, by rank.
  std::vector<Tensor> all_to_all(const std::vector<Tensor>& parts, const std::vector<Shape>& shapes,
                                 CallSite site = {}) const;
  /// From one rank to another; no other rank takes part. `like` says shape, dtype and device. PyTorch: send, recv.
  void send(const Tensor& x, int to, CallSite site = {}) const;
  Tensor recv(const Tensor& like, int from, CallSite site = {}) const;
  /// Returns when all ranks are here.
  void barrier(CallSite site = {}) const;

 private:
  struct State;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}
  friend struct GroupAccess;
  std::shared_ptr<State> state_;
};

/// The group that this process was started in, by the variables of torchrun, Open MPI, MPICH or srun, or by
/// LOCKSTEP_RANK and LOCKSTEP_WORLD_SIZE; a group of one where there are none. Unless MPI brings them together, ranks meet
/// at MASTER_ADDR:MASTER_PORT (on one machine 127.0.0.1:29500 unless given) and prove to each other that they know
/// LOCKSTEP_DIST_SECRET. Throws ValueError if variables are missing, contradict each other or are no numbers, or if the
/// engine cannot be used; DistributedError if ranks do not come, have another secret, or use another engine.
LOCKSTEP_API Group init(const GroupOptions& options = {}, CallSite site = {});

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
