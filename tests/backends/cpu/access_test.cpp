// Reads through views of every form, element by element, against View::address.
#include "backends/cpu/row/access.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "backends/cpu/row/plan.h"
#include "support/program_builder.h"

namespace lockstep {
namespace {

using testing::Random;

/// Any linear form with any bounds; most of its elements may be outside.
View random_form(Random& random, const Shape& shape) {
  View view;
  view.shape = shape;
  view.fill = 0x1234567;
  const auto coefficient = [&](std::int64_t most) {
    return random.one_in(3) ? 0 : random.below(2 * static_cast<int>(most) + 1) - most;
  };
  for (int d = 0; d < shape.rank(); ++d) view.strides.push_back(coefficient(6));
  if (random.one_in(2)) {
    view.strides = View::contiguous(shape).strides;
    if (random.one_in(2)) view.strides[random.below(shape.rank())] = coefficient(3);
  }
  const int bounds = random.below(4);
  for (int k = 0; k < bounds; ++k) {
    Bound bound;
    bound.offset = random.below(9) - 4;
    for (int d = 0; d < shape.rank(); ++d) bound.m.push_back(random.one_in(2) ? 0 : coefficient(3));
    bound.lo = random.below(8) - 4;
    bound.hi = bound.lo + random.below(1 << (1 + random.below(8)));
    bound.step = random.one_in(2) ? 1 : 1 + random.below(4);
    bound.stride = coefficient(5);
    if (random.one_in(3)) {
      for (std::int64_t& m : bound.m) m *= bound.step;
    }
    view.bounds.push_back(bound);
  }
  return view;
}

/// Moves the view such that its lowest address is 0 and returns how many elements it reaches.
std::int64_t move_to_start(View& view) {
  const std::int64_t count = view.shape.numel();
  std::int64_t lowest = 0, highest = 0;
  const auto each = [&](auto fn) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::array<std::int64_t, Shape::kCapacity> index{};
      std::int64_t rest = i;
      for (int d = view.rank() - 1; d >= 0; rest /= view.shape[d], --d) {
        index[static_cast<std::size_t>(d)] = rest % view.shape[d];
      }
      fn(index.data());
    }
  };
  // Addresses below 0 cannot be told from failed bounds, so start far above.
  constexpr std::int64_t kFar = 1 << 20;
  view.offset = kFar;
  bool any = false;
  each([&](const std::int64_t* index) {
    const std::int64_t address = view.address(index);
    if (address < 0) return;
    lowest = any ? std::min(lowest, address) : address;
    highest = any ? std::max(highest, address) : address;
    any = true;
  });
  view.offset -= lowest;
  return highest - lowest + 1;
}

TEST(Access, ReadsWhatTheViewSays) {
  Random random(41);
  for (int round = 0; round < 500; ++round) {
    Shape rows, inner;
    for (int d = random.below(2); d >= 0; --d) rows.push_back(1 + random.below(6));
    for (int d = random.below(3); d >= 0; --d) inner.push_back(1 + random.below(7));
    if (random.one_in(4)) inner.push_back(30 + random.below(10));
    Shape dims = rows;
    for (std::int64_t size : inner) dims.push_back(size);
    View view = random_form(random, dims);
    const std::int64_t reach = move_to_start(view);
    const bool wide = random.one_in(2);
    const DType dtype = wide ? DType::i32 : DType::u8;
    std::vector<std::int32_t> words(static_cast<std::size_t>(reach));
    std::vector<std::uint8_t> bytes(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = static_cast<std::int32_t>(i * 2654435761u);
      bytes[i] = static_cast<std::uint8_t>(words[i]);
    }
    Program program;
    program.rows = rows;
    program.inner = inner;
    program.inputs.push_back({0, dtype, view, true});
    const Layout layout = random.one_in(2) ? Layout::rows : Layout::columns;
    const Mapping mapping = map_space(program, layout, random.one_in(3));
    const Access& access = mapping.inputs[0];
    const Loader loader{convert_table(Isa::scalar).load_canonical[index_of(dtype)], 4, wide};
    const auto* data =
        wide ? reinterpret_cast<const std::byte*>(words.data()) : reinterpret_cast<const std::byte*>(bytes.data());
    const std::int64_t outer = random.below(static_cast<int>(mapping.space.outer_count));
    const std::int64_t begin = random.below(static_cast<int>(mapping.space.along_count));
    const std::int64_t count = random.below(static_cast<int>(mapping.space.along_count - begin) + 1);
    std::vector<std::int32_t> out(static_cast<std::size_t>(count) + 1, -7);
    fetch(access, loader, data, outer, begin, count, reinterpret_cast<std::byte*>(out.data()));
    EXPECT_EQ(out.back(), -7);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t linear = layout == Layout::rows ? outer * mapping.space.along_count + begin + i
                                                         : (begin + i) * mapping.space.outer_count + outer;
      std::array<std::int64_t, Shape::kCapacity> index{};
      std::int64_t rest = linear;
      for (int d = dims.rank() - 1; d >= 0; rest /= dims[d], --d) index[static_cast<std::size_t>(d)] = rest % dims[d];
      const std::int64_t address = view.address(index.data());
      const auto at = static_cast<std::size_t>(address);
      const std::int32_t expected = address < 0 ? (wide ? 0x1234567 : 0x67) : wide ? words[at] : bytes[at];
      ASSERT_EQ(out[static_cast<std::size_t>(i)], expected) << "round " << round << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace lockstep
