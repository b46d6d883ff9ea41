// Pieces of a tensor along one dimension: views all of them.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// More pieces than that, most of them empty, are a mistake and not a wish.
constexpr std::int64_t kMostPieces = std::int64_t{1} << 24;

}  // namespace

std::vector<Tensor> Tensor::split(std::int64_t size, int dim, CallSite site) const {
  const CallScope call("split", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  const std::int64_t whole = shape()[d];
  if (size < 0 || (size == 0 && whole != 0)) {
    fail<ValueError>(fmt::format("pieces of {} do not cover dimension {} of size {}", size, d, whole),
                     {{"input", *this}}, "use a positive size");
  }
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  do {
    const std::int64_t length = std::min(size, whole - start);
    pieces.push_back(narrow(d, start, length));
    start += length;
  } while (start < whole);
  return pieces;
}

std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, int dim, CallSite site) const {
  const CallScope call("split", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  std::int64_t total = 0;
  bool valid = true;
  for (const std::int64_t size : sizes) valid = valid && size >= 0 && !__builtin_add_overflow(total, size, &total);
  if (!valid || total != shape()[d]) {
    fail<ShapeError>(fmt::format("the sizes do not add up to dimension {} of size {}", d, shape()[d]),
                     {{"input", *this}}, "the sizes, none negative, must have the dimension's size as their sum");
  }
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    pieces.push_back(narrow(d, start, size));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> Tensor::chunk(std::int64_t chunks, int dim, CallSite site) const {
  const CallScope call("chunk", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  if (chunks < 1 || (chunks > kMostPieces && shape()[d] == 0)) {
    fail<ValueError>(fmt::format("{} chunks", chunks), {{"input", *this}}, "ask for at least one");
  }
  const std::int64_t whole = shape()[d];
  const std::int64_t size = whole / chunks + (whole % chunks != 0 ? 1 : 0);
  if (size > 0) return split(size, d);
  // Of nothing: as many empty ones, as PyTorch gives.
  return std::vector<Tensor>(static_cast<std::size_t>(chunks), *this);
}

std::vector<Tensor> Tensor::tensor_split(std::int64_t sections, int dim, CallSite site) const {
  const CallScope call("tensor_split", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  if (sections < 1 || sections > kMostPieces) {
    fail<ValueError>(fmt::format("{} sections", sections), {{"input", *this}},
                     fmt::format("ask for 1 to {}", kMostPieces));
  }
  const std::int64_t whole = shape()[d];
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < sections; ++i) {
    const std::int64_t length = whole / sections + (i < whole % sections ? 1 : 0);
    pieces.push_back(narrow(d, start, length));
    start += length;
  }
  return pieces;
}

std::vector<Tensor> Tensor::tensor_split(const std::vector<std::int64_t>& positions, int dim, CallSite site) const {
  const CallScope call("tensor_split", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const std::int64_t stop : positions) {
    pieces.push_back(slice(d, Slice{start, stop}));
    start = stop;
  }
  pieces.push_back(slice(d, Slice{start}));
  return pieces;
}

std::vector<Tensor> Tensor::unbind(int dim, CallSite site) const {
  const CallScope call("unbind", site);
  check_defined({{"input", *this}});
  const int d = check_dim(*this, dim);
  std::vector<Tensor> slices;
  for (std::int64_t i = 0; i < shape()[d]; ++i) slices.push_back(select(d, i));
  return slices;
}

}  // namespace v0
}  // namespace lockstep
