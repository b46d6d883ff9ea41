// Fourier transforms: all stages of a line, or of lines that are neighbours in memory, in memory of the kernel's own
// that fits the nearest caches where the line does. Where there are fewer lines than threads, threads share each stage.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/fourier_table.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/irregular/scratch.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 19;  // of lines that are transformed together
constexpr std::int64_t kNarrowest = 16, kWidest = 64;        // and how many these are
constexpr std::int64_t kTaskNumbers = std::int64_t{1} << 13;
constexpr std::int64_t kSharedStage = std::int64_t{1} << 14;  // numbers of a stage that is worth several threads

/// Neighbours are the lines of the last line dim, if there are several and they are closer than a line's elements.
bool in_columns(const FourierKernel& kernel) {
  const int last = kernel.lines.rank() - 1;
  return last >= 0 && kernel.lines[last] > 1 && kernel.out_strides[last] < kernel.out_strides[last + 1];
}

/// Dims of (lines..., elements[, 2]) with the elements before the last line dim.
Shape column_order(int lines, int rank) {
  Shape order;
  for (int d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[lines - 1], order[lines]);
  return order;
}

struct Layout {
  explicit Layout(const FourierKernel& kernel)
      : columns(in_columns(kernel)),
        lines(kernel.lines.numel()),
        neighbours(columns ? kernel.lines.back() : 1),
        outer_dims(kernel.lines.rank()) {}

  View view(const FourierKernel& kernel) const {
    const View& view = kernel.input.view;
    return columns ? view.permuted(column_order(kernel.lines.rank(), view.rank())) : view;
  }
  Shape out_shape(const FourierKernel& kernel, const FourierPlan& plan) const {
    Shape shape = kernel.lines;
    shape.push_back(plan.outputs());
    if (plan.writes_pairs()) shape.push_back(2);
    return ordered(kernel, shape);
  }
  Shape ordered(const FourierKernel& kernel, const Shape& dims) const {
    Shape result = dims;
    if (columns) std::swap(result[kernel.lines.rank() - 1], result[kernel.lines.rank()]);
    return result;
  }

  bool columns;
  std::int64_t lines;
  std::int64_t neighbours;  ///< lines that are next to each other
  int outer_dims;           ///< (lines...), in columns (the lines but the last..., elements)
};

Input ordered_input(const FourierKernel& kernel, const Layout& layout) {
  Input input = kernel.input;
  input.view = layout.view(kernel);
  return input;
}

template <typename T> struct Numbers { T *re, *im; };

/// Lines of one outer index, from `first` on.
struct Block {
  std::int64_t outer, first, width;
};

template <typename T> class FourierExecutable final : public Executable {
 public:
  FourierExecutable(const FourierKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory)
      : kernel_(kernel),
        memory_(std::move(memory)),
        plan_(kernel.kind, kernel.n),
        layout_(kernel),
        loops_(fourier_table(isa).loops<T>()),
        rows_(std::max(plan_.size, plan_.paired ? plan_.points + 1 : plan_.points)),
        reader_(ordered_input(kernel, layout_), layout_.outer_dims, Form::value, isa),
        writer_(kernel.input.dtype, layout_.out_shape(kernel, plan_), layout_.ordered(kernel, kernel.out_strides), 0,
                layout_.outer_dims, Form::value, isa) {}

  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    if (layout_.lines == 0) return;
    const auto bytes = static_cast<std::int64_t>(4 * sizeof(T)) * rows_;
    const std::int64_t width =
        std::min(layout_.neighbours, std::clamp(kBlockBytes / bytes / kNarrowest * kNarrowest, kNarrowest, kWidest));
    const std::int64_t across = (layout_.neighbours + width - 1) / width;
    const std::int64_t blocks = layout_.lines / layout_.neighbours * across;
    const auto block_of = [&](std::int64_t i) {
      const std::int64_t first = i % across * width;
      return Block{i / across, first, std::min(width, layout_.neighbours - first)};
    };
    if (blocks < num_threads() && plan_.size * width >= kSharedStage) {
      for (std::int64_t i = 0; i < blocks; ++i) Lines(*this, binding, width).transform(block_of(i), true);
      return;
    }
    parallel_for(blocks, std::max<std::int64_t>(1, kTaskNumbers / (plan_.size * width)),
                 [&](std::int64_t begin, std::int64_t end) {
                   const Lines lines(*this, binding, width);
                   for (std::int64_t i = begin; i < end; ++i) lines.transform(block_of(i), false);
                 });
  }

 private:
  /// Memory for blocks of lines, and what is done with them.
  class Lines {
   public:
    Lines(const FourierExecutable& self, const Binding& binding, std::int64_t width)
        : self_(self),
          plan_(self.plan_),
          binding_(binding),
          table_(reinterpret_cast<const T*>(slot_of(binding, self.kernel_.table))),
          memory_(*self.memory_, 6 * self.rows_ * width + 32),
          step_(self.rows_ * width),
          side_by_side_(memory_.get() + 4 * step_) {
      const std::uint64_t bits = binding.parameters[static_cast<std::size_t>(self.kernel_.scale)].bits;
      if constexpr (std::is_same_v<T, double>) {
        scale_ = FROM_BITS64(bits);
      } else {
        scale_ = FROM_BITS(bits);
      }
    }

    void transform(const Block& block, bool shared) const {
      T* at = memory_.get();
      Numbers<T> x{at, at + step_};
      Numbers<T> y{at + 2 * step_, at + 3 * step_};
      read(block, x, y);
      if (plan_.is_inverse()) std::swap(x.re, x.im);
      if (plan_.chirped) {
        self_.loops_.turn(x.re, x.im, table_ + plan_.chirp, plan_.points, block.width);
        const std::int64_t from = plan_.points * block.width, to = plan_.size * block.width;
        std::fill(x.re + from, x.re + to, T(0));
        std::fill(x.im + from, x.im + to, T(0));
        stages(block, x, y, shared);
        self_.loops_.turn(x.re, x.im, table_ + plan_.filter, plan_.size, block.width);
        std::swap(x.re, x.im);
        stages(block, x, y, shared);
        std::swap(x.re, x.im);
        self_.loops_.turn(x.re, x.im, table_ + plan_.chirp, plan_.points, block.width);
      } else {
        stages(block, x, y, shared);
      }
      if (plan_.is_inverse()) std::swap(x.re, x.im);
      write(block, x, y);
    }

   private:
    /// x through all stages; y is memory for them.
    void stages(const Block& block, Numbers<T>& x, Numbers<T>& y, bool shared) const {
      for (const FourierStage& stage : plan_.stages) {
        FourierStageWork<T> work{.radix = stage.radix,
                                 .rest = stage.rest,
                                 .run = stage.done * block.width,
                                 .re = x.re,
                                 .im = x.im,
                                 .out_re = y.re,
                                 .out_im = y.im,
                                 .twiddles = stage.twiddles < 0 ? nullptr : table_ + stage.twiddles,
                                 .roots = stage.roots < 0 ? nullptr : table_ + stage.roots,
                                 .p_begin = 0,
                                 .p_end = stage.rest,
                                 .q_begin = 0,
                                 .q_end = stage.done * block.width};
        if (!shared) {
          self_.loops_.stage(work);
        } else if (stage.rest >= work.run) {
          const std::int64_t grain = std::max<std::int64_t>(kNarrowest, kTaskNumbers / (work.run * stage.radix));
          parallel_for(stage.rest, grain, [&](std::int64_t begin, std::int64_t end) {
            FourierStageWork<T> part = work;
            part.p_begin = begin;
            part.p_end = end;
            self_.loops_.stage(part);
          });
        } else {
          const std::int64_t grain = std::max<std::int64_t>(kNarrowest, kTaskNumbers / (stage.rest * stage.radix));
          parallel_for(work.run, grain, [&](std::int64_t begin, std::int64_t end) {
            FourierStageWork<T> part = work;
            part.q_begin = begin;
            part.q_end = end;
            self_.loops_.stage(part);
          });
        }
        std::swap(x, y);
      }
    }

    /// Element i of all lines.
    const T* row(const Block& block, std::int64_t i, std::int64_t parts) const {
      const std::int64_t outer = block.outer * plan_.inputs() + i;
      return static_cast<const T*>(
          self_.reader_.read(binding_, outer, block.first * parts, block.width * parts, side_by_side_));
    }
    const T* line(const Block& block, std::int64_t count) const {
      return static_cast<const T*>(self_.reader_.read(binding_, block.outer, 0, count, side_by_side_));
    }

    void read(const Block& block, Numbers<T>& x, Numbers<T>& y) const {
      switch (plan_.kind) {
        case FourierKind::forward:
        case FourierKind::inverse: return read_pairs(block, plan_.points, x);
        case FourierKind::real: return plan_.paired ? read_neighbours(block, x) : read_values(block, x);
        case FourierKind::real_inverse: return read_half(block, x, y);
      }
    }
    void read_pairs(const Block& block, std::int64_t rows, const Numbers<T>& x) const {
      if (!self_.layout_.columns) return self_.loops_.split(x.re, x.im, line(block, 2 * rows), rows);
      for (std::int64_t i = 0; i < rows; ++i) {
        self_.loops_.split(x.re + i * block.width, x.im + i * block.width, row(block, i, 2), block.width);
      }
    }
    void read_neighbours(const Block& block, const Numbers<T>& x) const {
      if (!self_.layout_.columns) return self_.loops_.split(x.re, x.im, line(block, plan_.n), plan_.points);
      for (std::int64_t i = 0; i < plan_.n; ++i) {
        std::copy_n(row(block, i, 1), block.width, (i % 2 == 0 ? x.re : x.im) + i / 2 * block.width);
      }
    }
    void read_values(const Block& block, const Numbers<T>& x) const {
      if (!self_.layout_.columns) {
        std::copy_n(line(block, plan_.n), plan_.n, x.re);
      } else {
        for (std::int64_t i = 0; i < plan_.n; ++i) std::copy_n(row(block, i, 1), block.width, x.re + i * block.width);
      }
      std::fill_n(x.im, plan_.n * block.width, T(0));
    }
    void read_half(const Block& block, Numbers<T>& x, Numbers<T>& y) const {
      const std::int64_t width = block.width;
      read_pairs(block, plan_.inputs(), y);
      std::fill_n(y.im, width, T(0));
      if (plan_.paired) {
        std::fill_n(y.im + plan_.points * width, width, T(0));
        return self_.loops_.join(x.re, x.im, y.re, y.im, table_ + plan_.turns, plan_.points, width);
      }
      for (std::int64_t i = plan_.inputs(); i < plan_.n; ++i) {
        const std::int64_t from = (plan_.n - i) * width;
        for (std::int64_t l = 0; l < width; ++l) {
          y.re[i * width + l] = y.re[from + l];
          y.im[i * width + l] = -y.im[from + l];
        }
      }
      std::swap(x, y);
    }

    /// Writes element i of all lines, or the whole line as element 0, by `fill(to)`.
    template <typename Fill> void put(std::int64_t outer, std::int64_t begin, std::int64_t count, Fill fill) const {
      std::byte* out = slot_of(binding_, self_.kernel_.out);
      void* place = self_.writer_.place(out, outer, begin, count);
      fill(place != nullptr ? static_cast<T*>(place) : side_by_side_);
      if (place == nullptr) self_.writer_.write(out, outer, begin, count, side_by_side_);
    }
    void write(const Block& block, Numbers<T> x, Numbers<T> y) const {
      const std::int64_t width = block.width;
      if (plan_.kind == FourierKind::real && plan_.paired) {
        self_.loops_.halves(y.re, y.im, x.re, x.im, table_ + plan_.turns, plan_.points, width);
        std::swap(x, y);
      }
      if (!self_.layout_.columns) {
        const std::int64_t count = plan_.outputs() * (plan_.writes_pairs() ? 2 : 1);
        return put(block.outer, 0, count, [&](T* to) {
          if (plan_.writes_pairs() || plan_.paired) return self_.loops_.pairs(to, x.re, x.im, scale_, count / 2);
          self_.loops_.values(to, x.re, scale_, count);
        });
      }
      for (std::int64_t i = 0; i < plan_.outputs(); ++i) {
        const std::int64_t outer = block.outer * plan_.outputs() + i;
        if (plan_.writes_pairs()) {
          put(outer, 2 * block.first, 2 * width,
              [&](T* to) { self_.loops_.pairs(to, x.re + i * width, x.im + i * width, scale_, width); });
        } else {
          const T* part = !plan_.paired ? x.re + i * width : (i % 2 == 0 ? x.re : x.im) + i / 2 * width;
          put(outer, block.first, width, [&](T* to) { self_.loops_.values(to, part, scale_, width); });
        }
      }
    }

    const FourierExecutable& self_;
    const FourierPlan& plan_;
    const Binding& binding_;
    const T* table_;
    Scratch<T> memory_;
    std::int64_t step_;
    T* side_by_side_;  ///< elements that are not in memory as they are needed
    T scale_ = 1;
  };

  FourierKernel kernel_;
  std::shared_ptr<MemoryPool> memory_;
  FourierPlan plan_;
  Layout layout_;
  const FourierLoops<T>& loops_;
  std::int64_t rows_;  ///< of memory: the numbers of a line, and the ends of half a spectrum
  Reader reader_;
  Writer writer_;
};

}  // namespace
}  // namespace irregular

std::unique_ptr<Executable> compile_fourier(const FourierKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory) {
  if (kernel.input.dtype == DType::f64) {
    return std::make_unique<irregular::FourierExecutable<double>>(kernel, isa, std::move(memory));
  }
  return std::make_unique<irregular::FourierExecutable<float>>(kernel, isa, std::move(memory));
}

}  // namespace v0
}  // namespace lockstep
