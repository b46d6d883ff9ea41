// Collectives: which bytes go where. The engine moves them.
#include "dist/group.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/check.h>

#include "core/call.h"
#include "dist/engine.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// What errors show of the past.
constexpr std::size_t kKeptCalls = 64;

using Bytes = std::vector<std::byte>;

std::size_t bytes_in(const Tensor& x) {
  return static_cast<std::size_t>(x.numel()) * size_of(x.dtype());
}
Bytes bytes_of(const Tensor& x) {
  Bytes bytes(bytes_in(x));
  x.read_bytes(bytes.data());
  return bytes;
}
Tensor tensor_of(const Bytes& bytes, const Shape& shape, const Tensor& like) {
  // The only dtype that not all bits are a value of.
  const bool is_valid = like.dtype() != DType::boolean ||
                        std::ranges::all_of(bytes, [](std::byte b) { return std::to_integer<int>(b) <= 1; });
  if (!is_valid) throw DistributedError("dist: a rank sent truth values that are neither 0 nor 1", -1);
  return Tensor::from_bytes(bytes.data(), bytes.size(), shape, like.dtype(), like.device());
}

std::int64_t elements_in(const std::vector<Shape>& shapes) {
  std::int64_t count = 0;
  for (const Shape& shape : shapes) count += shape.numel();
  return count;
}

std::string call_of(const char* name, const Tensor& x) {
  return fmt::format("{} {} {}", name, name_of(x.dtype()), x.shape().to_string());
}

}  // namespace

DistributedError::~DistributedError() = default;

struct Group::State {
  Launch launch;
  std::unique_ptr<Engine> engine;  ///< none in a group of one
  std::uint64_t count = 0;
  std::deque<std::string> last;

  void check_rank(const char* what, int rank) const {
    check<ValueError>(rank >= 0 && rank < launch.size, fmt::format("{} is rank {} of {}", what, rank, launch.size));
  }

  void check_shapes(const std::vector<Shape>& shapes, const Tensor& own) const {
    check<ValueError>(static_cast<int>(shapes.size()) == launch.size,
                      fmt::format("{} shapes for {} ranks", shapes.size(), launch.size), {}, "give that of each rank");
    check<ShapeError>(own.shape() == shapes[static_cast<std::size_t>(launch.rank)],
                      "this rank's own tensor has another shape than is said", {{"own", own}});
  }
  void check_parts(const std::vector<Tensor>& parts) const {
    check<ValueError>(static_cast<int>(parts.size()) == launch.size,
                      fmt::format("{} parts for {} ranks", parts.size(), launch.size), {}, "give one part for each rank");
    for (const Tensor& part : parts) {
      check_same_device({{"parts[0]", parts.front()}, {"part", part}});
      check<DTypeError>(part.dtype() == parts.front().dtype(), "parts are of one dtype",
                        {{"parts[0]", parts.front()}, {"part", part}});
    }
  }

  // Gives each rank its part, and gets one of these shapes from each.
  std::vector<Tensor> exchange(const std::string& call, const std::vector<Tensor>& parts,
                               const std::vector<Shape>& shapes) {
    const auto own = static_cast<std::size_t>(launch.rank);
    std::vector<Bytes> given;
    std::vector<Bytes> got(parts.size());
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    given.reserve(parts.size());
    const Tensor* read = nullptr;
    for (std::size_t other = 0; other < parts.size(); ++other) {
      if (other == own) continue;
      // What all are given is read once.
      if (read == nullptr || graph::Access::node(*read) != graph::Access::node(parts[other])) {
        read = &parts[other];
        given.push_back(bytes_of(*read));
      }
      got[other].resize(static_cast<std::size_t>(shapes[other].numel()) * size_of(parts[other].dtype()));
      outgoing.push_back({static_cast<int>(other), given.back()});
      incoming.push_back({static_cast<int>(other), got[other]});
    }
    exchange(call, outgoing, incoming);
    std::vector<Tensor> result;
    for (std::size_t other = 0; other < parts.size(); ++other) {
      result.push_back(other == own ? parts[other] : tensor_of(got[other], shapes[other], parts[other]));
    }
    return result;
  }

  void exchange(const std::string& call, const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming) {
    ++count;
    if (last.size() == kKeptCalls) last.pop_front();
    last.push_back(fmt::format("#{} {}", count, call));
    if (!engine) return;
    try {
      engine->exchange(call, outgoing, incoming);
    } catch (const DistributedError& error) {
      throw DistributedError(
          fmt::format("dist: {}\nin call #{} of rank {}: {}\ncalls of this rank, the latest last: {}", error.what(),
                      count, launch.rank, call, fmt::join(last, "; ")),
          error.rank());
    }
  }
};

Group GroupAccess::make(const Launch& launch, const GroupOptions& options) {
  auto state = std::make_shared<Group::State>();
  state->launch = launch;
  if (launch.size > 1) state->engine = connect_tcp(launch, options.deadline);
  return Group(std::move(state));
}

Group init(const GroupOptions& options, CallSite site) {
  const CallScope call("dist::init", site);
  check<ValueError>(options.deadline.count() > 0, "the deadline is not after now");
  const Launch launch = launch_of([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  return GroupAccess::make(launch, options);
}

int Group::rank() const {
  return state_->launch.rank;
}
int Group::size() const {
  return state_->launch.size;
}
int Group::local_rank() const {
  return state_->launch.local_rank;
}

Tensor Group::broadcast(const Tensor& x, int from, CallSite site) const {
  const CallScope call("Group::broadcast", site);
  check_defined({{"x", x}});
  state_->check_rank("from", from);
  const std::string text = fmt::format("{} from {}", call_of("broadcast", x), from);
  if (from != rank()) {
    Bytes bytes(bytes_in(x));
    state_->exchange(text, {}, {{from, bytes}});
    return tensor_of(bytes, x.shape(), x);
  }
  const Bytes bytes = bytes_of(x);
  std::vector<Outgoing> outgoing;
  for (int other = 0; other < size(); ++other) {
    if (other != from) outgoing.push_back({other, bytes});
  }
  state_->exchange(text, outgoing, {});
  return x;
}

std::vector<Tensor> Group::all_gather(const Tensor& x, CallSite site) const {
  const CallScope call("Group::all_gather", site);
  check_defined({{"x", x}});
  const std::vector<Tensor> parts(static_cast<std::size_t>(size()), x);
  return state_->exchange(call_of("all_gather", x), parts, std::vector<Shape>(parts.size(), x.shape()));
}

std::vector<Tensor> Group::all_gather(const Tensor& x, const std::vector<Shape>& shapes, CallSite site) const {
  const CallScope call("Group::all_gather", site);
  check_defined({{"x", x}});
  state_->check_shapes(shapes, x);
  const std::vector<Tensor> parts(static_cast<std::size_t>(size()), x);
  return state_->exchange(fmt::format("all_gather {}, {} elements in all", name_of(x.dtype()), elements_in(shapes)), parts,
                          shapes);
}

std::vector<Tensor> Group::all_to_all(const std::vector<Tensor>& parts, CallSite site) const {
  const CallScope call("Group::all_to_all", site);
  state_->check_parts(parts);
  for (const Tensor& part : parts) {
    check<ShapeError>(part.shape() == parts.front().shape(), "parts are of one shape",
                      {{"parts[0]", parts.front()}, {"part", part}});
  }
  return state_->exchange(call_of("all_to_all", parts.front()), parts,
                          std::vector<Shape>(parts.size(), parts.front().shape()));
}

std::vector<Tensor> Group::all_to_all(const std::vector<Tensor>& parts, const std::vector<Shape>& shapes,
                                      CallSite site) const {
  const CallScope call("Group::all_to_all", site);
  state_->check_parts(parts);
  state_->check_shapes(shapes, parts[static_cast<std::size_t>(rank())]);
  return state_->exchange(fmt::format("all_to_all {}", name_of(parts.front().dtype())), parts, shapes);
}

void Group::send(const Tensor& x, int to, CallSite site) const {
  const CallScope call("Group::send", site);
  check_defined({{"x", x}});
  state_->check_rank("to", to);
  check<ValueError>(to != rank(), "a rank cannot send to itself");
  const Bytes bytes = bytes_of(x);
  state_->exchange(fmt::format("{} {} to {}", call_of("send/recv", x), rank(), to), {{{to, bytes}}}, {});
}

Tensor Group::recv(const Tensor& like, int from, CallSite site) const {
  const CallScope call("Group::recv", site);
  check_defined({{"like", like}});
  state_->check_rank("from", from);
  check<ValueError>(from != rank(), "a rank cannot receive from itself");
  Bytes bytes(bytes_in(like));
  state_->exchange(fmt::format("{} {} to {}", call_of("send/recv", like), from, rank()), {}, {{{from, bytes}}});
  return tensor_of(bytes, like.shape(), like);
}

void Group::barrier(CallSite site) const {
  const CallScope call("Group::barrier", site);
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    outgoing.push_back({other, {}});
    incoming.push_back({other, {}});
  }
  state_->exchange("barrier", outgoing, incoming);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
