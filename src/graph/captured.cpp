#include "graph/captured.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <lockstep/random.h>

#include "backends/backend.h"
#include "graph/index_check.h"
#include "graph/live_tensors.h"
#include "graph/make.h"
#include "graph/run_plan.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Values of one plan: scheduling takes longer than in proportion. A window flushes itself at as many.
constexpr std::size_t kSegment = 1024;
// At what is read the next piece begins, so that a run in which it is another is soon over; but not for a few values.
constexpr std::size_t kShortSegment = 128;
// A recording of more is not worth its memory.
constexpr std::size_t kMostNodes = 100'000;
// What is made of sources and is no larger is computed once: a kernel would make it anew for each of its readers.
constexpr std::size_t kFewBytes = 4096;
// What is read decides something where it is small.
constexpr std::size_t kMostReadBytes = std::size_t{1} << 20;

// The value alone, without what it is made of.
NodeRef bare_copy(const Node& node) {
  auto copy = std::make_shared<Node>();
  copy->op = node.op;
  copy->shape = node.shape;
  copy->dtype = node.dtype;
  copy->encoding = node.encoding;
  copy->device = node.device;
  copy->where = node.where;
  copy->story = node.story;
  copy->name = node.name;
  copy->id = node.id;
  return copy;
}

// A value of its own, as if it were given.
NodeRef made_of(const Node& computed) {
  NodeRef node = make_node(Data{}, {}, computed.shape, computed.dtype, computed.device);
  node->computed = true;
  node->buffer = computed.buffer;
  node->checks = computed.checks;
  node->canonical = computed.canonical.load(std::memory_order_relaxed);
  node->ready.store(true, std::memory_order_release);
  return node;
}

// The error of whoever reads a value that was given up.
std::shared_ptr<const IndexChecks> lost_value() {
  auto check = std::make_shared<IndexCheck>();
  check->error = std::make_exception_ptr(BackendError("the value was given up to a run that wrote over it"));
  check->settled = true;
  return std::make_shared<const IndexChecks>(IndexChecks{std::move(check)});
}

// Of a value that is computed.
std::vector<std::byte> elements_of(const Node& node) {
  std::vector<std::byte> bytes(node.bytes());
  if (bytes.empty()) return bytes;
  run_exclusively(node.device, [&] { backend_of(node.device).download(bytes.data(), *node.buffer, bytes.size()); });
  return bytes;
}

// What a kernel may read in the place of a captured input.
bool is_plain(const Node& node, Device device) {
  const auto address = [&] { return reinterpret_cast<std::uintptr_t>(node.buffer->data()); };
  return form_of(node.op) != Form::view && node.device == device && node.encoding == Encoding::dense &&
         node.ready.load(std::memory_order_acquire) && node.buffer != nullptr && node.failure == nullptr &&
         error_of(node) == nullptr && (!is_host(device) || address() % size_of(node.dtype) == 0);
}

}  // namespace

Capture::Capture(std::vector<Tensor> inputs, Steers steers)
    : outer_(set_capture_watch(this)),
      steers_(steers),
      seed_(default_generator().seed()),
      first_draw_(default_generator().draws()) {
  if (!inputs.empty()) device_ = inputs.front().device();
  for (const Tensor& input : inputs) {
    const NodeRef& node = Access::node(input);
    refused_ = !is_plain(*node, device_);
    if (refused_) break;
    auto copy = bare_copy(*node);
    copy->op = Data{};
    copy->canonical = find_canonical(*node) ? 1 : 0;
    copy->ready = true;
    refused_ = !copies_.emplace(node->id, copy).second;
    if (refused_) break;
    inputs_.push_back(std::move(copy));
  }
}

Capture::~Capture() {
  set_capture_watch(outer_);
}

void Capture::wanted(const NodeRef& node) {
  take_down();
  const NodeRef& base = base_of(node);
  const auto copy = copies_.find(base->id);
  if (copy == copies_.end() || reads_.contains(copy->second.get())) return;
  if (steers_ == Steers::refused || base->bytes() > kMostReadBytes) return refuse();
  unread_ = base;
}

void Capture::take_down() {
  const NodeRef node = std::exchange(unread_, nullptr);
  if (node == nullptr) return;
  // A failure is for who reads it.
  if (!node->ready.load(std::memory_order_acquire) || error_of(*node) != nullptr) return refuse();
  const NodeRef& copy = copies_.at(node->id);
  reads_.emplace(copy.get(), Captured::Read{copy, elements_of(*node)});
}

bool Capture::is_read(const Node& copy) const {
  return reads_.contains(&copy);
}

void Capture::drew(const Generator& generator) {
  if (steers_ == Steers::refused || &generator != &default_generator()) return refuse();
  ++drawn_;
}

// What was noted is of no use any more.
void Capture::refuse() {
  refused_ = true;
  inputs_.clear();
  copies_.clear();
  constants_.clear();
  unread_ = nullptr;
  reads_.clear();
  draws_.clear();
}

// What an operand becomes: a copy if it depends on the inputs, else itself, which keeps its value from now on.
NodeRef Capture::copy_of(const NodeRef& input) {
  if (input == nullptr) return nullptr;
  if (const auto found = copies_.find(input->id); found != copies_.end()) return found->second;
  const NodeRef& base = base_of(input);
  if (!constants_.contains(base.get())) constants_.emplace(base.get(), std::make_shared<Handle>(base));
  return input;
}

void Capture::made(const NodeRef& node) {
  take_down();
  const auto* const random = std::get_if<Random>(&node->op);
  const bool depends =
      random != nullptr || std::any_of(node->inputs.begin(), node->inputs.end(), [&](const NodeRef& input) {
        return input != nullptr && copies_.contains(input->id);
      });
  if (refused_) return;
  const bool is_strange = random != nullptr && (random->seed != seed_ || random->draw - first_draw_ >= drawn_);
  if (is_strange || copies_.size() >= kMostNodes || (depends && node->device != device_)) return refuse();
  if (!depends) return;
  NodeRef copy = bare_copy(*node);
  if (random != nullptr) draws_.push_back({copy, random->draw - first_draw_});
  for (const NodeRef& input : node->inputs) copy->inputs.push_back(copy_of(input));
  copies_.emplace(node->id, std::move(copy));
}

std::unique_ptr<Captured> Capture::finish(std::span<const Tensor> outputs) {
  take_down();
  const Generator& generator = default_generator();
  if (refused_ || generator.seed() != seed_ || generator.draws() - first_draw_ != drawn_) return nullptr;
  auto captured = std::make_unique<Captured>();
  captured->device_ = device_;
  captured->inputs_ = inputs_;
  captured->draws_ = draws_;
  captured->drawn_ = drawn_;
  for (const Tensor& output : outputs) {
    if (Access::handle(output)->record != nullptr) return nullptr;
    const Reading reading = reading_of(Access::node(output));
    const auto copy = copies_.find(reading.base->id);
    Captured::Output& entry = captured->outputs_.emplace_back();
    if (copy == copies_.end()) {
      entry.constant = output;
      continue;
    }
    const auto input = std::find(inputs_.begin(), inputs_.end(), copy->second);
    if (input != inputs_.end()) entry.input = static_cast<int>(input - inputs_.begin());
    entry.base = copy->second;
    if (form_of(Access::node(output)->op) == Form::view) entry.view = reading.view;
    entry.dtype = output.dtype();
  }
  // What depends on no input is computed once; a source, and much that is made of sources alone, takes no longer than
  // reading it would.
  for (const auto& [address, handle] : constants_) {
    const NodeRef& node = handle->node;
    const bool takes_long = !node->source || node->bytes() <= kFewBytes;
    if (takes_long && form_of(node->op) != Form::source) compute(node);  // settled: errors are not for later runs
    const bool has_value = node->ready.load(std::memory_order_acquire);
    if (has_value && node->buffer == nullptr) return nullptr;
    captured->constants_.push_back(handle);
  }
  return cut(*captured) ? std::move(captured) : nullptr;
}

// Copies that outputs need, and what was read, oldest first; no views and no inputs.
std::vector<NodeRef> Capture::needed_by(std::span<const Captured::Output> outputs) const {
  std::unordered_set<const Node*> copies;
  for (const auto& [original, copy] : copies_) copies.insert(copy.get());
  for (const NodeRef& input : inputs_) copies.erase(input.get());
  std::unordered_set<const Node*> seen;
  std::vector<NodeRef> needed, open;
  for (const Captured::Output& output : outputs) {
    if (output.base != nullptr) open.push_back(output.base);
  }
  for (const auto& [address, read] : reads_) open.push_back(read.base);
  while (!open.empty()) {
    const NodeRef node = base_of(open.back());
    open.pop_back();
    if (!copies.contains(node.get()) || !seen.insert(node.get()).second) continue;
    for (const NodeRef& input : node->inputs) {
      if (input != nullptr) open.push_back(input);
    }
    needed.push_back(node);
  }
  std::sort(needed.begin(), needed.end(), [](const NodeRef& a, const NodeRef& b) { return a->id < b->id; });
  return needed;
}

// Which plan computes each of them.
std::vector<std::size_t> Capture::pieces_of(std::span<const NodeRef> needed) const {
  std::vector<std::size_t> pieces;
  std::size_t piece = 0, length = 0;
  for (const NodeRef& node : needed) {
    pieces.push_back(piece);
    ++length;
    if (length < kSegment && (length < kShortSegment || !is_read(*node))) continue;
    ++piece;
    length = 0;
  }
  return pieces;
}

// Inputs whose memory a run may write over: nothing is read of them later, and they are no results themselves. None
// where a run may come to nothing in the middle.
void Capture::find_stand_ins(std::span<const NodeRef> needed, std::span<const std::size_t> pieces,
                             const Captured& captured) const {
  if (!reads_.empty()) return;
  std::unordered_map<const Node*, std::size_t> last;  // the piece that reads it, counted from 1
  for (const NodeRef& input : inputs_) last[input.get()] = 0;
  for (const Captured::Output& output : captured.outputs_) {
    if (output.base != nullptr) last.erase(output.base.get());
  }
  for (std::size_t i = 0; i < needed.size(); ++i) {
    for (const NodeRef& input : needed[i]->inputs) {
      const auto read = input == nullptr ? last.end() : last.find(base_of(input).get());
      if (read == last.end()) continue;
      const std::size_t piece = pieces[i] + 1;
      if (read->second == 0) read->second = piece;
      if (read->second != piece) last.erase(read);
    }
  }
  for (const NodeRef& input : inputs_) input->stands_in = last.contains(input.get());
}

// Plans for pieces of the computation, each of which stores what later ones read.
bool Capture::cut(Captured& captured) {
  const std::vector<NodeRef> needed = needed_by(captured.outputs_);
  const std::vector<std::size_t> pieces = pieces_of(needed);
  find_stand_ins(needed, pieces, captured);
  std::unordered_map<const Node*, std::size_t> segment, last_use;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    segment[needed[i].get()] = pieces[i];
    if (is_read(*needed[i])) last_use[needed[i].get()] = pieces[i];
  }
  for (const NodeRef& node : needed) {
    for (const NodeRef& input : node->inputs) {
      if (input == nullptr) continue;
      const Node* const base = base_of(input).get();
      if (segment.contains(base)) last_use[base] = segment[node.get()];
    }
  }
  constexpr std::size_t kNever = ~std::size_t{0};
  for (const Captured::Output& output : captured.outputs_) {
    if (output.base != nullptr) last_use[output.base.get()] = kNever;
  }
  Backend& backend = backend_of(device_);
  captured.segments_.resize(pieces.empty() ? 0 : pieces.back() + 1);
  std::size_t next = 0;
  for (std::size_t s = 0; s < captured.segments_.size(); ++s) {
    std::vector<NodeRef> roots;
    Captured::Segment& made = captured.segments_[s];
    for (; next < needed.size() && pieces[next] == s; ++next) {
      const NodeRef& node = needed[next];
      if (last_use[node.get()] > s || is_read(*node)) roots.push_back(node);
      if (is_read(*node)) made.reads.push_back(std::move(reads_.at(node.get())));
    }
    // A flush of another thread would compute a source that both read, and let go of what that is made of.
    run_exclusively(device_, [&] {
      made.window = describe(roots);
      made.plan = make_plan(backend, made.window);
    });
    // Whoever reads a result looks at the indices of the run, which have to be there still.
    for (const Plan::Prepared& prepared : made.plan->steps) {
      for (const int entry : prepared.step.checks) {
        if (is_host(device_)) break;
        const NodeRef& index = base_of(made.window.nodes[static_cast<std::size_t>(entry)]->inputs[1]);
        const auto input = std::find(inputs_.begin(), inputs_.end(), index);
        if (input == inputs_.end()) return false;
        (*input)->stands_in = false;
      }
    }
    for (const NodeRef& root : roots) {
      root->ready = true;
      const std::size_t last = last_use[root.get()];
      if (last != kNever) captured.segments_[last].released.push_back(root);
    }
  }
  for (const NodeRef& input : inputs_) {
    if (is_read(*input)) captured.reads_.push_back(std::move(reads_.at(input.get())));
  }
  return true;
}

// Gives the inputs' elements to those that stand for them; false where they do not fit.
bool Captured::bind(std::span<const Tensor> inputs) {
  if (inputs.size() != inputs_.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const NodeRef& node = Access::node(inputs[i]);
    if (form_of(node->op) == Form::view) return false;
    if (!node->ready.load(std::memory_order_acquire)) start_computing(node);
    const Node& mine = *inputs_[i];
    if (node->shape != mine.shape || node->dtype != mine.dtype || !is_plain(*node, device_)) return false;
    if (find_canonical(*node) != (mine.canonical == 1)) return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = *Access::node(inputs[i]);
    inputs_[i]->buffer = node.buffer;
    inputs_[i]->checks = is_unsettled(node) ? node.checks : nullptr;
  }
  return true;
}

bool Captured::are_same(std::span<const Read> reads) {
  const bool same =
      std::all_of(reads.begin(), reads.end(), [](const Read& read) { return elements_of(*read.base) == read.bytes; });
  if (!same) ++misses_;
  return same;
}

// The numbers that a recorded run would draw now.
void Captured::draw() {
  const Generator& generator = default_generator();
  for (const Draw& draw : draws_) {
    auto& random = std::get<Random>(draw.node->op);
    random.seed = generator.seed();
    random.draw = generator.draws() + draw.number;
  }
}

// The only references to the buffers are then those of what stands for them.
void Captured::take(std::span<const Tensor> given_up) {
  const std::size_t first = inputs_.size() - given_up.size();
  for (std::size_t i = 0; i < given_up.size(); ++i) {
    const auto& handle = Access::handle(given_up[i]);
    Node& node = *handle->node;
    const bool is_ours = form_of(node.op) != Form::given || node.computed;
    if (!inputs_[first + i]->stands_in || !is_ours || handle.use_count() != 1 || handle->node.use_count() != 1)
      continue;
    node.checks = lost_value();
    node.buffer = nullptr;
  }
}

void Captured::let_go() {
  const auto forget = [](const NodeRef& node) {
    node->buffer = nullptr;
    node->checks = nullptr;
  };
  for (const NodeRef& input : inputs_) forget(input);
  for (const Output& output : outputs_) {
    if (output.base != nullptr) forget(output.base);
  }
  for (const Segment& segment : segments_) {
    for (const NodeRef& node : segment.released) forget(node);
  }
}

std::optional<std::vector<Tensor>> Captured::run(std::span<const Tensor> inputs, std::span<const Tensor> given_up) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  all.insert(all.end(), given_up.begin(), given_up.end());
  struct LetGo {
    Captured& captured;
    ~LetGo() { captured.let_go(); }
  } const at_the_end{*this};
  if (!bind(all) || !are_same(reads_)) return std::nullopt;
  draw();
  all.clear();  // who shares a value's handle holds it
  take(given_up);
  const auto given_at = [&](std::size_t i) -> const NodeRef& {
    return Access::node(i < inputs.size() ? inputs[i] : given_up[i - inputs.size()]);
  };
  const auto index_of = [&](const NodeRef& mine) -> NodeRef {
    const Reading reading = reading_of(mine);
    const auto found = std::find(inputs_.begin(), inputs_.end(), reading.base);
    const NodeRef& given = given_at(static_cast<std::size_t>(found - inputs_.begin()));
    if (form_of(mine->op) != Form::view) return given;
    return make_node(ViewOf{reading.view}, {given}, reading.view.shape, given->dtype, device_);
  };
  for (const Segment& segment : segments_) {
    auto run = run_plan(device_, segment.window, *segment.plan, index_of);
    if (!run) return std::nullopt;
    for (std::size_t e = 0; e < run->buffers.size(); ++e) {
      if (!segment.window.values[e].wanted) continue;
      segment.window.nodes[e]->buffer = std::move(run->buffers[e]);
      if (!run->checks.empty()) segment.window.nodes[e]->checks = run->checks[e];
    }
    if (!are_same(segment.reads)) return std::nullopt;
    for (const NodeRef& node : segment.released) node->buffer = nullptr;
  }
  misses_ = 0;
  Generator& generator = default_generator();
  generator.restore(generator.seed(), generator.draws() + drawn_);
  std::vector<Tensor> results;
  std::vector<NodeRef> made;
  std::unordered_map<const Node*, NodeRef> values;
  for (const Output& output : outputs_) {
    if (output.base == nullptr) {
      results.push_back(output.constant);
      continue;
    }
    NodeRef& value = values[output.base.get()];
    if (value == nullptr) {
      value = output.input >= 0 ? given_at(static_cast<std::size_t>(output.input)) : made_of(*output.base);
      if (output.input < 0) made.push_back(value);
    }
    results.push_back(Access::tensor(
        output.view ? make_node(ViewOf{*output.view}, {value}, output.view->shape, output.dtype, device_) : value));
  }
  remember_stored(made);
  return results;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
