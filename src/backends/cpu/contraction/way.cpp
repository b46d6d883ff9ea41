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
// Windows of a value overlap: packed they may take many times its memory, as those of a sound do.
constexpr std::int64_t kMostGrowth = 4;
constexpr std::int64_t kMostOfSmall = 1 << 20;

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
  Form form{static_cast<std::int64_t>(isa_),
            width(operand),
            kernels_.panel_words(kBlock),
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

Way::Met& Way::met(Operand operand, std::uint64_t contents) const {
  constexpr std::size_t kMost = 16;
  const std::size_t which = operand == Operand::rows ? 0 : 1;
  std::vector<Met>& all = met_[which];
  const auto found = std::find_if(all.begin(), all.end(), [&](const Met& met) { return met.contents == contents; });
  if (found != all.end()) return *found;
  if (all.size() < kMost) return all.emplace_back(Met{.contents = contents});
  return all[next_[which]++ % kMost] = Met{.contents = contents};
}

// An operand whose panels are kept, perhaps for a kernel of other sizes, is not looked at, unless it is something else,
// too.
bool Way::reads(std::size_t slot, Buffer& given) const {
  const auto number = static_cast<int>(slot);
  const bool is_rows = plan_.row_side.slot == number;
  const bool is_columns = plan_.column_side.slot == number;
  if (is_rows == is_columns || std::count(epilogue_slots_.begin(), epilogue_slots_.end(), number) != 0) return true;
  const Operand operand = is_rows ? Operand::rows : Operand::columns;
  if (!may_keep(operand, given)) return true;
  KeptPanels::Panels& held = held_[is_rows ? 0 : 1];
  held = find_kept(met(operand, given.contents()), operand).panels;
  return held == nullptr;
}

bool Way::may_keep(Operand operand, const Buffer& buffer) const {
  if (kept_ == nullptr || keeps(operand) == Keeps::nothing) return false;
  const Side& side = this->side(operand);
  const Side& other = this->side(operand == Operand::rows ? Operand::columns : Operand::rows);
  // Weights that are packed, or of fewer bits than what they meet, are a fraction of their panels.
  const bool is_packed = side.encoding != Encoding::dense || size_of(side.dtype) < size_of(other.dtype);
  if (is_packed || outer(operand == Operand::rows ? Operand::columns : Operand::rows) > kMostUses) return false;
  const std::int64_t bytes = packed_bytes(operand);
  if (bytes < kLeastBytes) return false;
  return bytes <= kMostOfSmall || bytes <= kMostGrowth * static_cast<std::int64_t>(buffer.bytes());
}

Way::Kept Way::find_kept(Met& met, Operand operand) const {
  Kept found{met.panels.lock(), met.halves};
  if (found.panels != nullptr) return found;
  const std::string name = form(operand);
  if (keeps(operand) == Keeps::halves) found = {kept_->find(met.contents, name + "halves"), true};
  if (found.panels == nullptr) found = {kept_->find(met.contents, name), false};
  met.panels = found.panels;
  met.halves = found.halves;
  return found;
}

bool Way::halve_all(const std::byte* panels, std::byte* halves) const {
  const std::int64_t blocks = plan_.batches * k_blocks();
  const std::int64_t stride = panel_stride(Operand::columns);
  const std::int64_t count = block_stride(Operand::columns) / stride;
  for (std::int64_t panel = 0; panel < blocks * count; ++panel) {
    // What lies behind a panel's last k was never written.
    const std::int64_t k = k_count(panel / count % k_blocks());
    const auto* const from = reinterpret_cast<const std::int32_t*>(panels) + panel * stride;
    auto* const to = reinterpret_cast<std::int16_t*>(halves) + panel * stride;
    if (!kernels_.halve(from, (k + 1) / 2 * width(Operand::columns), to)) return false;
  }
  return true;
}

Way::Kept Way::kept(const Binding& binding, Operand operand, bool serial) const {
  const auto slot = static_cast<std::size_t>(side(operand).slot);
  Buffer* const buffer = binding.given.empty() ? nullptr : binding.given[slot];
  if (buffer == nullptr || !may_keep(operand, *buffer)) return {};
  Met& met = this->met(operand, buffer->contents());
  const bool is_first = met.runs++ == 0;
  Kept found = find_kept(met, operand);
  if (found.panels != nullptr) return found;
  // Elements at an odd address of a file are read from a copy, which can go once they are packed.
  const bool is_copy = binding.slots[slot] != buffer->data();
  if (is_first && !is_copy) return {};
  std::string name = form(operand);
  const std::int64_t bytes = packed_bytes(operand);
  if (keeps(operand) == Keeps::halves) {
    GrowingBuffer whole;
    pack_all(binding, operand, serial, whole.reserve(bytes));
    KeptPanels::Panels halves = kept_->allocate(static_cast<std::size_t>(bytes / 2));
    if (halves == nullptr) return {};
    if (halve_all(whole.reserve(bytes), halves.get())) {
      found = {std::move(halves), true};
      kept_->keep(*buffer, name + "halves", found.panels, static_cast<std::size_t>(bytes / 2));
    }
  }
  if (found.panels == nullptr) {
    found.panels = kept_->allocate(static_cast<std::size_t>(bytes));
    if (found.panels == nullptr) return {};
    pack_all(binding, operand, serial, found.panels.get());
    kept_->keep(*buffer, std::move(name), found.panels, static_cast<std::size_t>(bytes));
  }
  met.panels = found.panels;
  met.halves = found.halves;
  return found;
}

void* Way::direct_results(const Binding& binding, const Block& block) const {
  const DirectOutput& direct = *plan_.direct;
  std::int64_t address = direct.offset + block.row * direct.row_stride + block.column;
  std::int64_t index = block.batch;
  for (int d = plan_.batch.rank() - 1; d >= 0; --d) {
    address += index % plan_.batch[d] * direct.batch_strides[d];
    index /= plan_.batch[d];
  }
  return binding.slots[static_cast<std::size_t>(direct.slot)] + address * element_size();
}

const void* Way::panels(const Binding& binding, Operand operand, const std::byte* packed, const Position& position,
                        std::int64_t batch, std::int64_t begin, std::int64_t count, std::int64_t k_block,
                        Workspace& workspace) const {
  if (packed != nullptr) return packed + panel_at(operand, batch, begin, k_block) * element_size();
  GrowingBuffer& buffer = operand == Operand::rows ? workspace.rows : workspace.columns;
  std::byte* to = buffer.reserve(divide_up(count, width(operand)) * panel_stride(operand) * element_size());
  pack(binding, operand, position, begin, count, k_block, to, workspace);
  return to;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
