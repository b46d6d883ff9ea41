// Attention in exact numerics, without scores in memory: a thread takes some queries of a head at a time, whose scores
// stay in its own caches from the product with the keys to the product with the values. The bits are those of the
// composition (graph/ops/attention.cpp).
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "backends/cpu/irregular/attention_table.h"
#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/irregular/scratch.h"
#include "backends/cpu/quads.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

// Queries that read the values of the same keys: docs/numerics.md section 6.
constexpr std::int64_t kTileQueries = 128;
// Scores that stay in a second cache beside keys and values.
constexpr std::int64_t kMostScores = std::int64_t{1} << 18;

/// Rows of `from`, `rows` of them, become columns, and its columns rows.
void turn(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, float* to,
          std::int64_t to_stride) {
  constexpr std::int64_t kBytes = sizeof(float);
  for (std::int64_t r = 0; r < rows; r += kQuad) {
    for (std::int64_t c = 0; c < columns; c += kQuad) {
      if (r + kQuad <= rows && c + kQuad <= columns) {
        transpose_quad(reinterpret_cast<const std::byte*>(from + r * from_stride + c), from_stride * kBytes,
                       reinterpret_cast<std::byte*>(to + c * to_stride + r), to_stride * kBytes);
        continue;
      }
      for (std::int64_t i = r; i < std::min(rows, r + kQuad); ++i) {
        for (std::int64_t j = c; j < std::min(columns, c + kQuad); ++j)
          to[j * to_stride + i] = from[i * from_stride + j];
      }
    }
  }
}

class AttentionExecutable final : public Executable {
 public:
  AttentionExecutable(const AttentionKernel& kernel, Isa isa, std::shared_ptr<MemoryPool> memory)
      : kernel_(kernel),
        sizes_(kernel.sizes),
        memory_(std::move(memory)),
        table_(attention_table(isa)),
        query_(kernel.query, 2, Form::value, isa),
        key_(kernel.key, 2, Form::value, isa),
        value_(kernel.value, 2, Form::value, isa) {
    const std::int64_t vectors =
        std::clamp<std::int64_t>(kMostScores / (sizes_.keys * table_.lanes), 1, kAttentionVectors);
    const std::int64_t tile = kernel.causal ? kTileQueries : sizes_.rows;
    for (std::int64_t row = 0; row < sizes_.rows; row += tile) cut(row, std::min(sizes_.rows, row + tile), vectors);
  }

  void run(const Binding& binding) const override {
    const std::uint64_t bits = binding.parameters[static_cast<std::size_t>(kernel_.scale)].bits;
    const auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const auto parts = static_cast<std::int64_t>(parts_.size());
    parallel_for(sizes_.batches * sizes_.heads * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      Worker worker(*this, binding, scale);
      for (std::int64_t i = begin; i < end; ++i) {
        worker.run(i / parts / sizes_.heads, i / parts % sizes_.heads, parts_[static_cast<std::size_t>(i % parts)]);
      }
    });
  }

 private:
  /// Queries that are taken together, `keys` of whose values are read.
  struct Part {
    std::int64_t row, rows, vectors, keys;
  };

  /// Parts of about the same size, of at most so many vectors.
  void cut(std::int64_t row, std::int64_t end, std::int64_t most) {
    std::int64_t keys = sizes_.keys;
    if (kernel_.causal) keys = std::min(keys, end + kernel_.behind);
    const std::int64_t all = (end - row + table_.lanes - 1) / table_.lanes;
    const std::int64_t parts = (all + most - 1) / most;
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t vectors = all * (i + 1) / parts - all * i / parts;
      const std::int64_t rows = std::min(vectors * table_.lanes, end - row);
      parts_.push_back({row, rows, vectors, keys});
      row += rows;
    }
  }

  /// What a thread needs; keys and values of a head are read once for all of its queries in a row.
  class Worker {
   public:
    Worker(const AttentionExecutable& self, const Binding& binding, float scale)
        : self_(self),
          binding_(binding),
          scale_(scale),
          keys_(*self.memory_, self.sizes_.keys * self.sizes_.width),
          values_(*self.memory_, self.sizes_.keys * self.sizes_.width),
          scores_(*self.memory_, (self.sizes_.keys + kAttentionTogether) * self.most_queries()),
          queries_(*self.memory_, 3 * self.most_queries() * self.sizes_.width) {}

    void run(std::int64_t batch, std::int64_t head, const Part& part) {
      const AttentionSizes& sizes = self_.sizes_;
      const std::int64_t key_head = batch * sizes.key_heads + head / (sizes.heads / sizes.key_heads);
      if (std::exchange(key_head_, key_head) != key_head) {
        const std::int64_t count = sizes.keys * sizes.width;
        key_ = static_cast<const float*>(self_.key_.read(binding_, key_head, 0, count, keys_.get()));
        value_ = static_cast<const float*>(self_.value_.read(binding_, key_head, 0, count, values_.get()));
      }
      const std::int64_t queries = part.vectors * self_.table_.lanes;
      const std::int64_t room = queries * sizes.width;
      float* const turned = queries_.get();
      float* const out = turned + room;
      const auto* const rows = static_cast<const float*>(self_.query_.read(
          binding_, batch * sizes.heads + head, part.row * sizes.width, part.rows * sizes.width, out + room));
      if (part.rows < queries) std::fill_n(turned, room, 0.0f);
      turn(rows, sizes.width, part.rows, sizes.width, turned, queries);
      const bool causal = self_.kernel_.causal;
      const std::int64_t behind = causal ? part.row + self_.kernel_.behind : part.keys;
      self_.table_.run({.width = sizes.width,
                        .keys = part.keys,
                        .seen = std::min(part.keys, behind + part.rows),
                        .behind = behind,
                        .vectors = part.vectors,
                        .scale = scale_,
                        .query = turned,
                        .key = key_,
                        .value = value_,
                        .scores = scores_.get(),
                        .out = out});
      auto* const results = reinterpret_cast<float*>(slot_of(binding_, self_.kernel_.out));
      const std::int64_t first = ((batch * sizes.rows + part.row) * sizes.heads + head) * sizes.width;
      turn(out, queries, sizes.width, part.rows, results + first, sizes.heads * sizes.width);
    }

   private:
    const AttentionExecutable& self_;
    const Binding& binding_;
    const float scale_;
    const Scratch<float> keys_, values_, scores_;
    const Scratch<float> queries_;  ///< as the table takes them, its results, and as they are stored
    std::int64_t key_head_ = -1;
    const float* key_ = nullptr;
    const float* value_ = nullptr;
  };

  std::int64_t most_queries() const { return kAttentionVectors * table_.lanes; }

  const AttentionKernel kernel_;
  const AttentionSizes sizes_;
  const std::shared_ptr<MemoryPool> memory_;
  const AttentionTable& table_;
  const Reader query_, key_, value_;
  std::vector<Part> parts_;
};

}  // namespace
}  // namespace irregular

bool has_attention(Isa isa) {
  return attention_table(isa).run != nullptr;
}

std::unique_ptr<Executable> compile_attention(const AttentionKernel& kernel, Isa isa,
                                              std::shared_ptr<MemoryPool> memory) {
  if (kernel.numerics != Numerics::exact || kernel.gradients || kernel.masked || !has_attention(isa)) {
    throw BackendError("cpu: attention as one kernel is there in exact numerics alone, without masks and gradients");
  }
  const AttentionSizes& sizes = kernel.sizes;
  LOCKSTEP_ASSERT(sizes.width % kAttentionTile == 0 && sizes.width <= kMostAttentionWidth);
  LOCKSTEP_ASSERT(sizes.keys >= kAttentionTile && (!kernel.causal || kernel.behind >= 0));
  return std::make_unique<irregular::AttentionExecutable>(kernel, isa, std::move(memory));
}

}  // namespace v0
}  // namespace lockstep
