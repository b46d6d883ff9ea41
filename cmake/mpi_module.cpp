// liblockstep_mpi_<implementation>.so: the calls of dist/mpi_calls.h by the MPI whose headers this is compiled with.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "dist/mpi_calls.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

struct MpiRequest {
  MPI_Request request = MPI_REQUEST_NULL;
};

namespace {

std::array<char, MPI_MAX_ERROR_STRING> last_error{};
bool has_begun = false;

bool fail_with(const char* text) {
  last_error.fill('\0');
  std::copy_n(text, std::min(std::char_traits<char>::length(text), last_error.size() - 1), last_error.begin());
  return false;
}
bool succeeded(int status) {
  if (status == MPI_SUCCESS) return true;
  last_error.fill('\0');
  int length = 0;
  MPI_Error_string(status, last_error.data(), &length);
  return false;
}

const char* version() {
  static const std::string text = [] {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> full{};
    int length = 0;
    MPI_Get_library_version(full.data(), &length);
    std::string line(full.data());
    // Open MPI has one line with commas, MPICH a table.
    line = line.substr(0, line.find_first_of(",\n"));
    std::replace(line.begin(), line.end(), '\t', ' ');
    return line;
  }();
  return text.c_str();
}
const char* error() {
  return last_error.data();
}

bool begin(int* rank, int* size) {
  if (!has_begun) {
    int is_others = 0;
    if (!succeeded(MPI_Initialized(&is_others))) return false;
    int level = MPI_THREAD_SERIALIZED;
    if (is_others != 0) {
      if (!succeeded(MPI_Query_thread(&level))) return false;
    } else {
      if (!succeeded(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level))) return false;
      has_begun = true;
    }
    if (level < MPI_THREAD_SERIALIZED) return fail_with("this MPI cannot be called by several threads in turn");
    if (!succeeded(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN))) return false;
  }
  return succeeded(MPI_Comm_rank(MPI_COMM_WORLD, rank)) && succeeded(MPI_Comm_size(MPI_COMM_WORLD, size));
}

bool send(int to, int tag, const void* data, std::size_t bytes, MpiRequest** request) {
  auto made = std::make_unique<MpiRequest>();
  if (!succeeded(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &made->request)))
    return false;
  *request = made.release();
  return true;
}
bool receive(int from, int tag, void* data, std::size_t bytes, MpiRequest** request) {
  auto made = std::make_unique<MpiRequest>();
  if (!succeeded(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &made->request)))
    return false;
  *request = made.release();
  return true;
}

bool done(MpiRequest* request, bool* is_done, std::size_t* bytes) {
  int flag = 0;
  MPI_Status status;
  if (!succeeded(MPI_Test(&request->request, &flag, &status))) return false;
  *is_done = flag != 0;
  if (!*is_done) return true;
  int count = 0;
  if (!succeeded(MPI_Get_count(&status, MPI_BYTE, &count))) return false;
  *bytes = count == MPI_UNDEFINED ? 0 : static_cast<std::size_t>(count);
  delete request;
  return true;
}
void drop(MpiRequest* request) {
  if (request->request != MPI_REQUEST_NULL) {
    MPI_Cancel(&request->request);
    MPI_Request_free(&request->request);
  }
  delete request;
}

void end() {
  int is_over = 0;
  if (!has_begun || MPI_Finalized(&is_over) != MPI_SUCCESS || is_over != 0) return;
  // Farewells of engines that nobody waits for any more; MPI warns of what is left.
  MPI_Barrier(MPI_COMM_WORLD);
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    int bytes = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &status) != MPI_SUCCESS || is_there == 0)
      break;
    if (MPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS) break;
    std::string farewell(static_cast<std::size_t>(bytes), '\0');
    MPI_Recv(farewell.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
}

constexpr MpiCalls kCalls{version, error, begin, send, receive, done, drop, end};

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) const lockstep::dist::MpiCalls* lockstep_mpi_calls() {
  return &lockstep::dist::kCalls;
}
