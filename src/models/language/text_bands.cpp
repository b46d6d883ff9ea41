#include "models/language/text_bands.h"

#include <algorithm>
#include <exception>
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

// The tensors of all layers, [rows, ..].
std::vector<Tensor*> tensors_of(Memories& memories) {
  std::vector<Tensor*> all;
  for (LayerMemory& layer : memories) {
    for (Tensor* part : layer.tensors()) all.push_back(part);
  }
  return all;
}

// `one` behind the `count` rows of a band. If there is no memory for a tensor, those before it become views of their
// first rows, which takes none.
void append_row(Memories& band, std::int64_t count, Memories& one) {
  const std::vector<Tensor*> all = tensors_of(band);
  const std::vector<Tensor*> more = tensors_of(one);
  std::size_t done = 0;
  try {
    for (; done < all.size(); ++done) *all[done] = cat({*all[done], *more[done]}, 0).eval();
  } catch (...) {
    while (done-- > 0) *all[done] = all[done]->narrow(0, 0, count);
    throw;
  }
}

// `one` instead of a row that is free, in place: whatever fails, the row is as good as before. Tensors are computed one
// by one, since what the failure of a later one finds written over is lost.
void set_row(Memories& band, std::int64_t row, Memories& one) {
  const std::vector<Tensor*> all = tensors_of(band);
  const std::vector<Tensor*> more = tensors_of(one);
  for (std::size_t i = 0; i < all.size(); ++i) {
    *all[i] = slice_scatter(*all[i], *more[i], 0, {.start = row, .stop = row + 1});
    all[i]->eval();
  }
}

bool has_keys(const Memories& memories) {
  return std::any_of(memories.begin(), memories.end(), [](const LayerMemory& layer) { return layer.keys.defined(); });
}

// Tensors stay pending from the first for which there is no memory; returns its failure.
std::exception_ptr keep_rows(Memories& band, const std::vector<std::int64_t>& kept) {
  std::exception_ptr failure;
  for (Tensor* all : tensors_of(band)) {
    Tensor rest = rows_of(*all, kept);
    try {
      if (failure == nullptr) rest.eval();
    } catch (...) {
      failure = std::current_exception();
    }
    *all = rest;
  }
  return failure;
}

}  // namespace

Memories row_of(const Memories& band, std::int64_t row) {
  Memories result = band;
  for (Tensor* part : tensors_of(result)) *part = part->narrow(0, row, 1);
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
  bands_.reserve(bands_.size() + 1);
  const auto band = std::lower_bound(bands_.begin(), bands_.end(), room,
                                     [](const Band& one, std::int64_t asked) { return one.room < asked; });
  const auto number = band - bands_.begin();
  if (band == bands_.end() || band->room != room) {
    Band further{.room = room, .texts = {text}};
    memories_.insert(memories_.begin() + number, std::move(memory));
    bands_.insert(band, std::move(further));
    return;
  }
  std::vector<BatchText>& texts = band->texts;
  Memories& all = memories_[static_cast<std::size_t>(number)];
  const auto free = std::find_if(texts.begin(), texts.end(), is_free);
  if (free != texts.end()) {
    set_row(all, free - texts.begin(), memory);
    *free = text;
  } else {
    texts.reserve(texts.size() + 1);
    append_row(all, static_cast<std::int64_t>(texts.size()), memory);
    texts.push_back(text);
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
    const std::exception_ptr failure = keep_rows(memories_[number], kept);
    band.texts = std::move(going_on);
    band.idle_steps = 0;
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
