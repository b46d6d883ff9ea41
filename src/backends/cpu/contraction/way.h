// What the ways to run a contraction share: the kernel as the CPU sees it, and packing. A way decides what is packed,
// which blocks of results are a unit of work, and which inner loop multiplies; each has a file, *_way.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/contraction/direct.h"
#include "backends/cpu/contraction/epilogue.h"
#include "backends/cpu/contraction/in_place.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/workspace.h"
#include "backends/cpu/kept_panels.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// A contraction with its loops.
struct Task {
  const KernelSet& kernels;
  Plan plan;
  const Program& epilogue;
  Isa isa;
  std::shared_ptr<KeptPanels> kept;  ///< null: nothing is kept
};

/// Any contraction: both operands packed, block by block.
std::unique_ptr<Executable> make_packed_way(Task task);
/// In q8 numerics.
std::unique_ptr<Executable> make_q8_way(Task task);
/// Products of one left operand, of a row or two: whether it pays to round its rows once and to make them one unit of
/// work, at whose end threads wait for each other once; and that.
bool q8_runs_together(const KernelList& products, Isa isa);
std::unique_ptr<Executable> make_q8_siblings(const KernelList& products, Isa isa);
/// Few rows: columns from the view.
std::unique_ptr<Executable> make_thin_way(Task task, ThinTable table);
/// Convolutions of few output channels: rows packed, columns in vectors from the view or a padded copy of it.
std::unique_ptr<Executable> make_lines_way(Task task, LineTable table);
/// Convolutions: columns packed, rows from the view or a padded copy of it.
std::unique_ptr<Executable> make_direct_way(Task task, DirectTable table);
/// Few columns and a long k: columns packed, rows from the view or a padded copy of it.
std::unique_ptr<Executable> make_in_place_way(Task task, InPlaceTable table, InPlaceFunction loop);

/// What depends on the number of threads alone, made again only when that changes: choosing among tilings takes as long
/// as a small kernel.
template <typename Choice> class OfThreads {
 public:
  template <typename Choose> const Choice& get(int threads, const Choose& choose) {
    if (threads != threads_) {
      choice_ = choose(threads);
      threads_ = threads;
    }
    return choice_;
  }

 private:
  int threads_ = 0;
  Choice choice_{};
};

class Way : public Executable {
 public:
  void run(const Binding& binding) const final {
    if (plan_.batches * plan_.rows * plan_.columns != 0) compute(binding);
    held_ = {};
  }
  bool reads(std::size_t slot, Buffer& given) const final;

 protected:
  enum class Operand : std::uint8_t { rows, columns };

  explicit Way(Task task)
      : kernels_(task.kernels),
        plan_(std::move(task.plan)),
        epilogue_(task.epilogue, plan_, element_size(), task.isa),
        isa_(task.isa),
        kept_(std::move(task.kept)) {
    for (const Input& input : task.epilogue.inputs) epilogue_slots_.push_back(input.slot);
    for (const Table& table : task.epilogue.tables) epilogue_slots_.push_back(table.slot);
  }

  /// There are results to compute.
  virtual void compute(const Binding& binding) const = 0;
  /// What compute() asks kept() for.
  enum class Keeps : std::uint8_t { nothing, panels, halves };
  virtual Keeps keeps(Operand /*operand*/) const { return Keeps::nothing; }

  std::int64_t element_size() const { return static_cast<std::int64_t>(kernels_.element_size); }
  const Side& side(Operand operand) const { return operand == Operand::rows ? plan_.row_side : plan_.column_side; }
  const std::byte* data(const Binding& binding, Operand operand) const {
    return binding.slots[static_cast<std::size_t>(side(operand).slot)];
  }
  std::int64_t k_blocks() const { return std::max<std::int64_t>(1, divide_up(plan_.k, kBlock)); }
  std::int64_t k_count(std::int64_t block) const { return std::min(kBlock, plan_.k - block * kBlock); }

  /// Elements from one panel to the next; the same for every block of k.
  std::int64_t panel_stride(Operand operand) const {
    return width(operand) * kernels_.panel_words(std::min(kBlock, plan_.k)) + kPanelSlack / element_size();
  }
  /// Packs [outer_begin, outer_begin + outer_count) of one block of k.
  void pack(const Binding& binding, Operand operand, const Position& batch, std::int64_t outer_begin,
            std::int64_t outer_count, std::int64_t k_block, void* panels, Workspace& workspace) const;
  /// The whole operand as pack_all leaves it, if it is a value that this kernel met before or another one has kept, and
  /// few enough results use an element for packing to matter; otherwise null.
  struct Kept {
    KeptPanels::Panels panels;
    bool halves = false;  ///< in half as many bytes, where kernels_ has such a form and the elements fit
  };
  Kept kept(const Binding& binding, Operand operand, bool serial) const;
  std::int64_t packed_bytes(Operand operand) const {
    return plan_.batches * k_blocks() * block_stride(operand) * element_size();
  }
  /// Elements from one block of k to the next, and of a panel from k to k.
  std::int64_t block_stride(Operand operand) const {
    return divide_up(outer(operand), width(operand)) * panel_stride(operand);
  }
  std::int64_t width(Operand operand) const {
    return operand == Operand::rows ? kernels_.tile_rows : kernels_.tile_columns;
  }
  /// The whole operand, as [batch][block of k][panel].
  const std::byte* pack_all(const Binding& binding, Operand operand, bool serial, GrowingBuffer& buffer) const {
    std::byte* const to = buffer.reserve(packed_bytes(operand));
    pack_all(binding, operand, serial, to);
    return to;
  }
  /// The panels of one block, out of what pack_all returned, or packed now if that is null. `position`: of the batch.
  const void* panels(const Binding& binding, Operand operand, const std::byte* packed, const Position& position,
                     std::int64_t batch, std::int64_t begin, std::int64_t count, std::int64_t k_block,
                     Workspace& workspace) const;
  /// Words before a panel of a block of k in what pack_all returned.
  std::int64_t panel_at(Operand operand, std::int64_t batch, std::int64_t begin, std::int64_t k_block) const {
    return (batch * k_blocks() + k_block) * block_stride(operand) + begin / width(operand) * panel_stride(operand);
  }

  const KernelSet& kernels_;
  const Plan plan_;
  const Epilogue epilogue_;
  const Isa isa_;
  const std::shared_ptr<KeptPanels> kept_;

  /// Where a block is in the output that a plan with `direct` computes it in.
  void* direct_results(const Binding& binding, const Block& block) const;

  /// What of the plan decides how the operand's panels look.
  std::string form(Operand operand) const;

 private:
  void pack_all(const Binding& binding, Operand operand, bool serial, std::byte* to) const;
  bool may_keep(Operand operand, const Buffer& buffer) const;
  bool halve_all(const std::byte* panels, std::byte* halves) const;
  std::int64_t outer(Operand operand) const { return operand == Operand::rows ? plan_.rows : plan_.columns; }

  std::vector<int> epilogue_slots_;  ///< that it reads
  /// Contents that an operand had, to know a value that comes again, and its panels, as long as they are kept. Layers
  /// of a network that is computed in several parts share their kernels, so that their weights come by turns.
  struct Met {
    std::uint64_t contents = 0;
    std::uint32_t runs = 0;
    bool halves = false;
    std::weak_ptr<std::byte> panels{};
  };
  Met& met(Operand operand, std::uint64_t contents) const;
  /// What is kept of it, also by other kernels.
  Kept find_kept(Met& met, Operand operand) const;
  mutable std::array<std::vector<Met>, 2> met_;
  mutable std::array<std::size_t, 2> next_{};
  mutable std::array<KeptPanels::Panels, 2> held_;  ///< from reads() to the run
};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
