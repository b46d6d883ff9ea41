#include "backends/cpu/contraction/way.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

void Way::pack(const Binding& binding, Operand operand, const Position& batch, std::int64_t outer_begin,
               std::int64_t outer_count, std::int64_t k_block, void* panels, Workspace& workspace) const {
  PackArgs args;
  args.side = &side(operand);
  args.data = data(binding, operand);
  args.batch = batch;
  args.outer_begin = outer_begin;
  args.outer_count = outer_count;
  args.k_begin = k_block * kBlock;
  args.k_count = k_count(k_block);
  args.panels = panels;
  args.panel_stride = panel_stride(operand);
  args.workspace = &workspace.pack;
  (operand == Operand::rows ? kernels_.pack_rows : kernels_.pack_columns)(args);
}

void Way::pack_all(const Binding& binding, Operand operand, bool serial, std::byte* to) const {
  const std::int64_t stride = block_stride(operand) * element_size();
  constexpr std::int64_t kPanels = 4;  // one task
  const std::int64_t group = kPanels * width(operand);
  const std::int64_t groups = divide_up(outer(operand), group);
  const std::int64_t tasks = plan_.batches * k_blocks() * groups;
  parallel_for(tasks, serial ? tasks : 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace& workspace = Workspace::of_this_thread();
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t block = task / groups;
      const std::int64_t at = task % groups * group;
      std::byte* panels = to + block * stride + task % groups * kPanels * panel_stride(operand) * element_size();
      pack(binding, operand, side(operand).geometry.batch_position(block / k_blocks()), at,
           std::min(group, outer(operand) - at), block % k_blocks(), panels, workspace);
    }
  });
}

namespace {

// An element that meets more of the other operand's rows than this costs little to pack.
constexpr std::int64_t kMostUses = 1024;
constexpr std::int64_t kLeastBytes = 4096;

class Form {
 public:
  explicit Form(std::initializer_list<std::int64_t> numbers) {
    for (const std::int64_t number : numbers) add(number);
  }
  void add(std::int64_t number) { text_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void add(const Group& group) {
    add(group.sizes.rank());
    for (int d = 0; d < group.sizes.rank(); ++d) {
      add(group.sizes[d]);
      add(group.strides[d]);
      for (const Shape& coefficients : group.coefficients) add(coefficients[d]);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string Way::form(Operand operand) const {
  const Side& side = this->side(operand);
  const Geometry& geometry = side.geometry;
  Form form{width(operand),
            static_cast<std::int64_t>(plan_.type),
            static_cast<std::int64_t>(plan_.numerics),
            static_cast<std::int64_t>(side.dtype),
            static_cast<std::int64_t>(side.encoding),
            side.flush ? 1 : 0,
            static_cast<std::int64_t>(side.fill),
            geometry.offset,
            geometry.bounds()};
  for (const Limit& limit : geometry.limits) {
    for (const std::int64_t number : {limit.offset, limit.lo, limit.hi, limit.step, limit.stride}) form.add(number);
  }
  form.add(geometry.batch);
  form.add(geometry.outer);
  form.add(geometry.k);
  return form.text();
}

KeptPanels::Panels Way::kept(const Binding& binding, Operand operand, bool serial) const {
  if (kept_ == nullptr || binding.given.empty()) return nullptr;
  const Side& side = this->side(operand);
  const Side& other = this->side(operand == Operand::rows ? Operand::columns : Operand::rows);
  Buffer* const buffer = binding.given[static_cast<std::size_t>(side.slot)];
  const std::int64_t uses = outer(operand == Operand::rows ? Operand::columns : Operand::rows);
  // Weights that are packed, or of fewer bits than what they meet, are a fraction of their panels.
  const bool is_packed = side.encoding != Encoding::dense || size_of(side.dtype) < size_of(other.dtype);
  if (buffer == nullptr || is_packed || uses > kMostUses) return nullptr;
  const std::int64_t bytes = packed_bytes(operand);
  if (bytes < kLeastBytes) return nullptr;
  const std::uint64_t contents = buffer->contents();
  const std::size_t which = operand == Operand::rows ? 0 : 1;
  if (std::exchange(last_contents_[which], contents) != contents) {
    last_panels_[which].reset();
    return nullptr;
  }
  if (auto panels = last_panels_[which].lock()) return panels;
  std::string name = form(operand);
  KeptPanels::Panels panels = kept_->find(contents, name);
  if (panels == nullptr) {
    panels = kept_->allocate(static_cast<std::size_t>(bytes));
    if (panels == nullptr) return nullptr;
    pack_all(binding, operand, serial, panels.get());
    kept_->keep(*buffer, std::move(name), panels, static_cast<std::size_t>(bytes));
  }
  last_panels_[which] = panels;
  return panels;
}

const void* Way::panels(const Binding& binding, Operand operand, const std::byte* packed, const Position& position,
                        std::int64_t batch, std::int64_t begin, std::int64_t count, std::int64_t k_block,
                        Workspace& workspace) const {
  if (packed != nullptr) {
    const std::int64_t panel = begin / width(operand);
    return packed +
           ((batch * k_blocks() + k_block) * block_stride(operand) + panel * panel_stride(operand)) * element_size();
  }
  GrowingBuffer& buffer = operand == Operand::rows ? workspace.rows : workspace.columns;
  std::byte* to = buffer.reserve(divide_up(count, width(operand)) * panel_stride(operand) * element_size());
  pack(binding, operand, position, begin, count, k_block, to, workspace);
  return to;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
