// What liblockstep_mpi_<implementation>.so offers: a few calls of the MPI that it was linked with, whose types and
// numbers differ between implementations. Only data is moved. Plain C types: the library is opened at run time
// (dist/mpi.cpp).
#pragma once

#include <cstddef>

namespace lockstep {
inline namespace v0 {
namespace dist {

struct MpiRequest;  // of the implementation

/// Each call that can fail returns whether it succeeded; error() says what went wrong in the last one that did not.
/// One thread at a time.
struct MpiCalls {
  const char* (*version)();
  const char* (*error)();
  /// Of MPI_COMM_WORLD, initialised at the first call; its end is left to end().
  bool (*begin)(int* rank, int* size);
  /// Begins to move bytes, at most kMostMpiBytes. `request` is to be given to done() until that says so.
  bool (*send)(int to, int tag, const void* data, std::size_t bytes, MpiRequest** request);
  bool (*receive)(int from, int tag, void* data, std::size_t bytes, MpiRequest** request);
  /// `is_done`: the request is over, and gone; `bytes` came or went.
  bool (*done)(MpiRequest* request, bool* is_done, std::size_t* bytes);
  /// Gives up a request.
  void (*drop)(MpiRequest* request);
  /// Ends MPI, where it was begun; waits for the other ranks.
  void (*end)();
};
inline constexpr std::size_t kMostMpiBytes = std::size_t{1} << 30;

inline constexpr const char* kMpiEntry = "lockstep_mpi_calls";
using MpiEntry = const MpiCalls* (*)();

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
