// The parts of a language model that one rank has (lockstep/models/columns.h): columns of projections, rows of
// embeddings, whole experts.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/dist.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Rank r has those of `count` things with the numbers cuts[r] ... cuts[r + 1] - 1.
struct RankCuts {
  RankCuts(const dist::Group& of, std::int64_t count);

  dist::Group group;
  std::vector<std::int64_t> cuts;

  std::int64_t first() const { return cuts[static_cast<std::size_t>(group.rank())]; }
  std::int64_t count() const { return cuts[static_cast<std::size_t>(group.rank()) + 1] - first(); }
  bool has(std::int64_t number) const { return number >= first() && number < first() + count(); }
};

/// The rows of a matrix [out, in], each for a column of what a projection by it gives.
struct ColumnPart : RankCuts {
  /// Keeps this rank's rows of `matrix`, on `device`, in memory of their own.
  ColumnPart(const dist::Group& of, const Tensor& matrix, Device device);

  Tensor weight;  ///< [own, in]

  /// Of all ranks, from this one's [..., own].
  Tensor all_columns(const Tensor& own) const;
  /// The rows of the whole matrix with these numbers, i64: [..., in]. IndexError.
  Tensor rows(const Tensor& numbers) const;
};

/// This rank's slices of the first dimension, on `device`, in memory of their own. Packed ones stay so.
Tensor own_slices(const Tensor& whole, const RankCuts& cuts, Device device);
/// The parameter keeps its shape, and to read it is a ValueError.
void take_away(nn::Parameter& parameter, Device device);

/// The results of experts that are divided among ranks: `compute` gives rows[e] rows of `like`'s width, for the experts
/// of this rank that have some. Returns those of all, by expert.
std::vector<Tensor> parts_of_all(const RankCuts& experts, const std::vector<std::int64_t>& rows, const Tensor& like,
                                 const std::function<Tensor(std::int64_t expert)>& compute);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
