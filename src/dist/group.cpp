// Collectives: which bytes go where. The engine moves them.
#include "dist/group.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "backends/side_work.h"
#include "core/call.h"
#include "dist/courier.h"
#include "dist/engines.h"
#include "dist/exchange.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// What errors show of the past.
constexpr std::size_t kKeptCalls = 64;

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
  std::mutex failure_mutex;
  std::optional<DistributedError> first_failure;
  Courier courier{[this] { return look(); }};  ///< gone before what it uses

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
                      fmt::format("{} parts for {} ranks", parts.size(), launch.size), {},
                      "give one part for each rank");
    for (const Tensor& part : parts) {
      check_same_device({{"parts[0]", parts.front()}, {"part", part}});
      check<DTypeError>(part.dtype() == parts.front().dtype(), "parts are of one dtype",
                        {{"parts[0]", parts.front()}, {"part", part}});
    }
  }

  // Gives each rank its part, and gets one of these shapes from each.
  std::vector<Tensor> exchange(const std::string& call, const std::vector<Tensor>& parts,
                               const std::vector<Shape>& shapes) {
    return with_own(parts, exchange(call, parts.front(), given_of(parts), wanted_of(shapes)));
  }
  Result start(const std::string& call, const std::vector<Tensor>& parts, const std::vector<Shape>& shapes) {
    Result others = start(call, parts.front(), given_of(parts), wanted_of(shapes));
    return [this, parts, others = std::move(others)] { return with_own(parts, others()); };
  }

  std::vector<Exchange::Given> given_of(const std::vector<Tensor>& parts) const {
    std::vector<Exchange::Given> given;
    for (int other = 0; other < launch.size; ++other) {
      if (other != launch.rank) given.push_back({other, parts[static_cast<std::size_t>(other)]});
    }
    return given;
  }
  std::vector<Exchange::Given> given_to_all(const Tensor& x) const {
    return given_of(std::vector<Tensor>(static_cast<std::size_t>(launch.size), x));
  }
  std::vector<Exchange::Wanted> wanted_of(const std::vector<Shape>& shapes) const {
    std::vector<Exchange::Wanted> wanted;
    for (int other = 0; other < launch.size; ++other) {
      if (other != launch.rank) wanted.push_back({other, shapes[static_cast<std::size_t>(other)]});
    }
    return wanted;
  }
  std::vector<Tensor> with_own(const std::vector<Tensor>& parts, std::vector<Tensor> others) const {
    const auto own = static_cast<std::size_t>(launch.rank);
    others.insert(others.begin() + static_cast<std::ptrdiff_t>(own), parts[own]);
    return others;
  }

  std::vector<Tensor> exchange(const std::string& call, const Tensor& like, std::vector<Exchange::Given> given,
                               std::vector<Exchange::Wanted> wanted) {
    const std::string history = remember(call);
    if (!engine) return {};
    Exchange exchange(*engine, call, like, std::move(given), std::move(wanted), Exchange::Waits::yes);
    courier.wait();
    telling(history, [&] {
      exchange.move(*engine);
      if (exchange.is_direct()) finish();
    });
    return exchange.take();
  }

  // The same on the courier's thread, and in the order of the device's work where the engine reaches its memory.
  Result start(const std::string& call, const Tensor& like, std::vector<Exchange::Given> given,
               std::vector<Exchange::Wanted> wanted) {
    const std::string history = remember(call);
    if (!engine) return [] { return std::vector<Tensor>(); };
    auto exchange =
        std::make_shared<Exchange>(*engine, call, like, std::move(given), std::move(wanted), Exchange::Waits::no);
    auto promise = std::make_shared<std::promise<void>>();
    auto done = std::make_shared<std::future<void>>(promise->get_future());
    courier.send([this, exchange, promise, history] {  // the courier is gone before this
      try {
        telling(history, [&] { exchange->move(*engine); });
        promise->set_value();
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    });
    return [exchange, done] {
      done->get();
      return exchange->take();
    };
  }

  // Returns when devices have nothing in hand. The courier may look, too, and be the one who sees a failure.
  void finish() {
    try {
      for (int polls = 0; engine->is_under_way(); ++polls) {
        if (polls < 1000) {
          std::this_thread::yield();
        } else {
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
      }
    } catch (const DistributedError&) {
      engine->close();
      throw;
    }
    check_failure();
  }

  // What devices have in hand fails while nobody waits for it: whatever call comes next tells. Noted before the engine
  // is closed, since that ends the work that hosts wait for.
  bool look() {
    try {
      return engine->is_under_way();
    } catch (const DistributedError& error) {
      note(error, "beside the work of a device");
      engine->close();
      return false;
    }
  }
  bool note(const DistributedError& error, const std::string& history) {
    const std::lock_guard lock(failure_mutex);
    if (first_failure) return false;
    first_failure.emplace(fmt::format("dist: {}\n{}", error.what(), history), error.rank());
    return true;
  }
  void check_failure() {
    const std::lock_guard lock(failure_mutex);
    if (!first_failure) return;
    throw DistributedError(
        fmt::format("{}\nThe group failed before this call, and cannot be used any more.", first_failure->what()),
        first_failure->rank());
  }

  // Where the call stands, for its error.
  std::string remember(const std::string& call) {
    ++count;
    if (last.size() == kKeptCalls) last.pop_front();
    last.push_back(fmt::format("#{} {}", count, call));
    if (!engine) return {};
    return fmt::format("in call #{} of rank {}: {}\ncalls of this rank, the latest last: {}", count, launch.rank, call,
                       fmt::join(last, "; "));
  }
  // A failure under way is told by whatever call comes next: each later one tells the first.
  template <typename Act> void telling(const std::string& history, Act act) {
    check_failure();
    try {
      act();
    } catch (const DistributedError& error) {
      if (note(error, history)) throw *first_failure;
      check_failure();
    }
  }
};

Group GroupAccess::make(const Launch& launch, const GroupOptions& options, EngineKind kind, bool may_use_nccl) {
  auto state = std::make_shared<Group::State>();
  state->launch = launch;
  if (launch.size > 1) state->engine = connect(kind, launch, options.deadline, may_use_nccl);
  return Group(std::move(state));
}

Result GroupAccess::start_all_to_all(const Group& group, const std::vector<Tensor>& parts,
                                     const std::vector<Shape>& shapes) {
  return group.state_->start(fmt::format("all_to_all {}", name_of(parts.front().dtype())), parts, shapes);
}

Result GroupAccess::start_all_gather(const Group& group, const Tensor& x, const std::vector<Shape>& shapes,
                                     const std::string& what) {
  return group.state_->start(
      fmt::format("all_gather {}, {} elements in all{}", name_of(x.dtype()), elements_in(shapes), what),
      std::vector<Tensor>(static_cast<std::size_t>(group.size()), x), shapes);
}

Result GroupAccess::start_broadcast(const Group& group, const Tensor& x, int from) {
  const std::string text = fmt::format("{} from {}", call_of("broadcast", x), from);
  if (from != group.rank()) return group.state_->start(text, x, {}, {{from, x.shape()}});
  return [x, sent = group.state_->start(text, x, group.state_->given_to_all(x), {})] {
    sent();
    return std::vector{x};
  };
}

void GroupAccess::finish(const Group& group) {
  Group::State& state = *group.state_;
  if (!state.engine) return;
  state.courier.wait();
  state.telling("at the end of a step", [&] { state.finish(); });
}

std::vector<Link> links() {
  std::vector<Link> all;
  for (const DeviceLink& link : device_links()) all.push_back({link.from, link.to, link.is_direct});
  return all;
}

Group init(const GroupOptions& options, CallSite site) {
  const CallScope call("dist::init", site);
  check<ValueError>(options.deadline.count() > 0, "the deadline is not after now");
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const Launch told = told_launch(environment);
  const EngineKind kind = chosen_engine(options.engine, environment, told);
  return GroupAccess::make(kind == EngineKind::mpi ? told : launch_of(environment), options, kind,
                           is_auto(options.engine, environment));
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
std::string Group::engine() const {
  return state_->engine ? state_->engine->name() : "none";
}

Tensor Group::broadcast(const Tensor& x, int from, CallSite site) const {
  const CallScope call("Group::broadcast", site);
  check_defined({{"x", x}});
  state_->check_rank("from", from);
  const std::string text = fmt::format("{} from {}", call_of("broadcast", x), from);
  if (from != rank()) return state_->exchange(text, x, {}, {{from, x.shape()}}).front();
  state_->exchange(text, x, state_->given_to_all(x), {});
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
  return state_->exchange(fmt::format("all_gather {}, {} elements in all", name_of(x.dtype()), elements_in(shapes)),
                          parts, shapes);
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
  state_->exchange(fmt::format("{} {} to {}", call_of("send/recv", x), rank(), to), x, {{to, x}}, {});
}

Tensor Group::recv(const Tensor& like, int from, CallSite site) const {
  const CallScope call("Group::recv", site);
  check_defined({{"like", like}});
  state_->check_rank("from", from);
  check<ValueError>(from != rank(), "a rank cannot receive from itself");
  return state_
      ->exchange(fmt::format("{} {} to {}", call_of("send/recv", like), from, rank()), like, {}, {{from, like.shape()}})
      .front();
}

void Group::barrier(CallSite site) const {
  const CallScope call("Group::barrier", site);
  const Tensor nothing = zeros({0}, {.dtype = DType::u8, .device = Device{}});
  state_->exchange("barrier", std::vector<Tensor>(static_cast<std::size_t>(size()), nothing),
                   std::vector<Shape>(static_cast<std::size_t>(size()), nothing.shape()));
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
