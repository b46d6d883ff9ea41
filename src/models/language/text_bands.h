// The texts of a batch and what is remembered of them. Those that have room for equally many tokens (256, 512, 1,024
// ..) lie side by side, so that none takes, or reads, as much as the longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/language/cache.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct BatchText {
  std::int64_t number = kNone;  ///< or a row that is free
  std::int64_t length = 0;      ///< tokens that are remembered
  static constexpr std::int64_t kNone = -1;
};

/// Only the row of one text; views.
Memories row_of(const Memories& band, std::int64_t row);

class TextBands {
 public:
  struct Band {
    std::int64_t room = 0;         ///< 0: layers without keys
    std::vector<BatchText> texts;  ///< in the order of the rows
    int idle_steps = 0;            ///< with a row that is free
    std::int64_t free_rows() const;
  };
  struct Place {
    std::size_t band = 0;
    std::size_t row = 0;
  };

  /// By room.
  std::span<const Band> bands() const { return bands_; }
  /// Of the bands.
  std::span<Memories> memories() { return memories_; }
  /// IndexError if there is no text of that number.
  Place at(std::int64_t number) const;
  BatchText& text(std::int64_t number);

  /// If there is no memory for all of it, nothing has changed.
  void put(const BatchText& text, Memories memory);
  /// The memory of a row stays until a text comes, or it is given back.
  void remove(Place place);
  /// Texts that have filled their band go into one with more room.
  void move_full();
  /// Rows that are free are given back once nobody has taken them for some steps: until then a step has the shapes, and
  /// so the plan, of the one before. If there is no memory for what stays, the next step computes it.
  void give_back_rows();

 private:
  std::vector<Band> bands_;
  std::vector<Memories> memories_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
