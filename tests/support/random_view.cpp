#include "support/random_view.h"

#include <algorithm>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace testing {

RandomView random_view(Random& random, const Shape& dims, DType dtype, int broadcast_from) {
  // The dims in the order of storage, each a broadcast, a slice, a padded or a dilated piece of what is stored.
  std::vector<int> order;
  for (int d = 0; d < dims.rank(); ++d) order.insert(order.begin() + random.below(d + 1), d);
  if (random.one_in(2)) {
    for (int d = 0; d < dims.rank(); ++d) order[static_cast<std::size_t>(d)] = d;
  }
  enum class Piece { whole, broadcast, slice, reversed, padded, dilated };
  std::vector<Piece> pieces;
  Shape stored;
  const bool plain = random.one_in(2);
  for (int d : order) {
    Piece piece = plain ? Piece::whole : static_cast<Piece>(random.below(6));
    if (broadcast_from >= 0 && d >= broadcast_from) piece = Piece::broadcast;
    std::int64_t size = dims[d];
    if (piece == Piece::broadcast) size = 1;
    if (piece == Piece::slice) size = 2 * size + 3;
    if (piece == Piece::padded) size = std::max<std::int64_t>(1, size - 3);
    if (piece == Piece::dilated) size = (size + 1) / 2;
    pieces.push_back(piece);
    stored.push_back(std::max<std::int64_t>(size, 1));
  }
  RandomView result;
  result.elements = stored.numel();
  result.view = View::contiguous(stored);
  const std::uint64_t fill = random_element(random, dtype);
  for (int p = 0; p < dims.rank(); ++p) {
    const std::int64_t size = dims[order[static_cast<std::size_t>(p)]];
    View& view = result.view;
    switch (pieces[static_cast<std::size_t>(p)]) {
      case Piece::whole: break;
      case Piece::broadcast: {
        Shape shape = view.shape;
        shape[p] = size;
        view = view.expanded(shape);
        break;
      }
      case Piece::slice: view = view.sliced(p, random.below(3), 2, size); break;
      case Piece::reversed: view = view.sliced(p, size - 1, -1, size); break;
      case Piece::padded: {
        const std::int64_t missing = size - stored[p];
        const std::int64_t before = missing <= 0 ? 0 : random.below(static_cast<int>(missing) + 1);
        if (auto padded = view.padded(p, before, missing - before, fill)) {
          view = *padded;
        } else {
          view = view.sliced(p, 0, 0, size);
        }
        break;
      }
      case Piece::dilated: {
        auto dilated = view.dilated(p, 2, fill);
        if (dilated) dilated = dilated->padded(p, 0, size - (2 * stored[p] - 1), fill);
        view = dilated ? *dilated : view.sliced(p, 0, 0, size);
        break;
      }
    }
  }
  Shape permutation = Shape::filled(dims.rank(), 0);
  for (int p = 0; p < dims.rank(); ++p) permutation[order[static_cast<std::size_t>(p)]] = p;
  result.view = result.view.permuted(permutation);
  return result;
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
