// What up to 8 rows are made before they meet packed weights (contraction_packed_few.cpp), in shared memory or in
// scratch memory: codes of 8 bits with their scales, or the numbers themselves, so that threads which have neighbouring
// pieces of 256 k read neighbouring words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class PackedRows {
 public:
  /// `sums`: how many of a block's two sums of codes are needed, none or both.
  PackedRows(const Geometry& geometry, const Side& a, bool exact, int sums);

  std::int64_t words() const { return rows_ * row_words(); }
  /// Where 4 neighbours begin, number `four` of 8 of a block, as a multiple of 4 words.
  std::string numbers_at(const std::string& row, const std::string& block, const std::string& four,
                         const std::string& piece) const;
  /// Where the codes of half a block begin, `side` 0 or 1, as a multiple of 4 words.
  std::string codes_at(const std::string& row, const std::string& block, const std::string& side,
                       const std::string& piece) const;
  /// The word of a block's scale (0), or of a half's sum (1, 2).
  std::string single_at(const std::string& which, const std::string& row, const std::string& block,
                        const std::string& piece) const;

  using Store = std::function<void(Lines& lines, const std::string& at, const std::string& word)>;
  /// Makes all of it: thread `first` of `step` makes every step-th block by itself.
  void prepare(Lines& lines, Words& words, const std::string& first, const std::string& step, const Store& store) const;
  /// The same, into the shared array `prepared` by all of a workgroup's threads, of which 4 neighbours make a block, so
  /// that they read neighbouring memory. For KernelText::copies.
  void prepare_together(Lines& lines, Words& words, int threads) const;

 private:
  std::int64_t row_words() const;

  const Geometry& geometry_;
  const Side& a_;
  bool exact_;
  int sums_;
  std::int64_t rows_;    ///< of all batches
  std::int64_t blocks_;  ///< of 32 k
  std::int64_t pieces_;  ///< of 256 k
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
