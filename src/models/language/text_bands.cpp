#include "models/language/text_bands.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

bool is_free(const BatchText& text) {
  return text.number == BatchText::kNone;
}

// `one` behind the other rows, or instead of the free one.
void put_state(State& all, std::optional<std::int64_t> free, const State& one) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) continue;
    all[i] = free ? slice_scatter(all[i], one[i], 0, {.start = *free, .stop = *free + 1}) : cat({all[i], one[i]}, 0);
    all[i].eval();
  }
}

void put_heads(HeldHeads& all, std::optional<std::int64_t> free, const HeldHeads& one) {
  if (free) {
    all.set_row(*free, one);
  } else {
    all.append_rows(one);
  }
  all.eval();
}

bool has_keys(const Memories& memories) {
  return std::any_of(memories.begin(), memories.end(), [](const LayerMemory& layer) { return layer.keys.defined(); });
}

void keep_rows(Memories& band, const std::vector<std::int64_t>& kept) {
  for (LayerMemory& layer : band) {
    for (HeldHeads* heads : {&layer.keys, &layer.values}) {
      heads->keep_rows(kept);
      heads->eval();
    }
    for (Tensor& part : layer.state) {
      if (part.defined()) part = rows_of(part, kept).eval();
    }
  }
}

}  // namespace

Memories row_of(const Memories& band, std::int64_t row) {
  Memories result(band.size());
  for (std::size_t i = 0; i < band.size(); ++i) {
    result[i].keys = band[i].keys.row(row);
    result[i].values = band[i].values.row(row);
    for (const Tensor& part : band[i].state) {
      result[i].state.push_back(part.defined() ? part.narrow(0, row, 1) : part);
    }
  }
  return result;
}

std::int64_t TextBands::Band::free_rows() const {
  return std::count_if(texts.begin(), texts.end(), is_free);
}

TextBands::Place TextBands::at(std::int64_t number) const {
  for (std::size_t band = 0; number >= 0 && band < bands_.size(); ++band) {
    const std::vector<BatchText>& texts = bands_[band].texts;
    const auto found =
        std::find_if(texts.begin(), texts.end(), [&](const BatchText& text) { return text.number == number; });
    if (found != texts.end()) return {band, static_cast<std::size_t>(found - texts.begin())};
  }
  throw IndexError(fmt::format("StepBatch: there is no text {}", number));
}

BatchText& TextBands::text(std::int64_t number) {
  const Place place = at(number);
  return bands_[place.band].texts[place.row];
}

void TextBands::put(const BatchText& text, Memories memory) {
  const std::int64_t room = has_keys(memory) ? room_for(text.length + 1) : 0;
  for (LayerMemory& layer : memory) {
    for (HeldHeads* heads : {&layer.keys, &layer.values}) {
      heads->resize(room);
      heads->eval();
    }
  }
  const auto band = std::lower_bound(bands_.begin(), bands_.end(), room,
                                     [](const Band& one, std::int64_t asked) { return one.room < asked; });
  const auto number = band - bands_.begin();
  if (band == bands_.end() || band->room != room) {
    memories_.insert(memories_.begin() + number, std::move(memory));
    bands_.insert(band, {.room = room, .texts = {text}});
    return;
  }
  const auto row = std::find_if(band->texts.begin(), band->texts.end(), is_free);
  std::optional<std::int64_t> free;
  if (row != band->texts.end()) free = row - band->texts.begin();
  Memories& all = memories_[static_cast<std::size_t>(number)];
  for (std::size_t i = 0; i < all.size(); ++i) {
    put_heads(all[i].keys, free, memory[i].keys);
    put_heads(all[i].values, free, memory[i].values);
    put_state(all[i].state, free, memory[i].state);
  }
  if (free) {
    *row = text;
  } else {
    band->texts.push_back(text);
  }
}

void TextBands::remove(Place place) {
  Band& band = bands_[place.band];
  band.texts[place.row] = {};
  band.idle_steps = 0;
  if (band.free_rows() < static_cast<std::int64_t>(band.texts.size())) return;
  bands_.erase(bands_.begin() + static_cast<std::ptrdiff_t>(place.band));
  memories_.erase(memories_.begin() + static_cast<std::ptrdiff_t>(place.band));
}

void TextBands::move_full() {
  std::vector<std::int64_t> full;
  for (const Band& band : bands_) {
    for (const BatchText& text : band.texts) {
      if (band.room > 0 && text.length >= band.room) full.push_back(text.number);
    }
  }
  for (const std::int64_t number : full) {
    const Place from = at(number);
    const BatchText text = bands_[from.band].texts[from.row];
    Memories memory = row_of(memories_[from.band], static_cast<std::int64_t>(from.row));
    put(text, std::move(memory));  // into a later band; if there is no memory for it, it stays where it is
    remove(from);
  }
}

void TextBands::give_back_rows() {
  constexpr int kPatience = 4;
  for (std::size_t number = 0; number < bands_.size(); ++number) {
    Band& band = bands_[number];
    if (band.free_rows() == 0) {
      band.idle_steps = 0;
      continue;
    }
    if (++band.idle_steps <= kPatience) continue;
    std::vector<std::int64_t> kept;
    std::vector<BatchText> going_on;
    for (std::size_t i = 0; i < band.texts.size(); ++i) {
      if (is_free(band.texts[i])) continue;
      kept.push_back(static_cast<std::int64_t>(i));
      going_on.push_back(band.texts[i]);
    }
    keep_rows(memories_[number], kept);
    band.texts = std::move(going_on);
    band.idle_steps = 0;
  }
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
