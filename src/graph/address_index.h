// From an object's address to its index in a list: flushes and gradients look up every node several times. Open
// addressing in one block of memory, which stays when the list begins anew.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace graph {

template <typename T> class AddressIndex {
 public:
  /// Gives `object` the next index, counted from 0. False if it has one.
  bool add(const T* object) {
    if (2 * (used_ + 1) > table_.size()) grow();
    Place& place = place_of(object);
    if (is_taken(place)) return false;
    place = {object, static_cast<int>(used_++), round_};
    return true;
  }
  /// -1 for one that was not added.
  int find(const T* object) const {
    if (table_.empty()) return -1;
    const Place& place = const_cast<AddressIndex*>(this)->place_of(object);
    return is_taken(place) ? place.index : -1;
  }
  /// Of one that was added; may be changed.
  int& operator[](const T* object) { return place_of(object).index; }
  std::size_t size() const { return used_; }
  /// Takes as long for a large table as for a small one.
  void clear() {
    used_ = 0;
    if (++round_ == 0) *this = {};
  }

 private:
  struct Place {
    const T* object = nullptr;
    int index = 0;
    std::uint32_t round = 0;
  };
  bool is_taken(const Place& place) const { return place.round == round_; }
  Place& place_of(const T* object) {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = (reinterpret_cast<std::uintptr_t>(object) * 0x9e3779b97f4a7c15u) >> 32 & mask;
    while (is_taken(table_[at]) && table_[at].object != object) at = (at + 1) & mask;
    return table_[at];
  }
  void grow() {
    std::vector<Place> old(std::max<std::size_t>(64, 4 * table_.size()));
    old.swap(table_);
    for (const Place& place : old) {
      if (is_taken(place)) place_of(place.object) = place;
    }
  }

  std::vector<Place> table_;  ///< a power of two
  std::size_t used_ = 0;
  std::uint32_t round_ = 1;  ///< places of other rounds are free
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
