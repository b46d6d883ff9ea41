// Loops over the elements of states and gates, and the cell of an LSTM: what recurrences of floats and of bytes share.
// No guard: included once per instruction set, inside its anonymous namespace.

#include "backends/cpu/row/canonical-inl.h"
#include "backends/cpu/row/together-inl.h"

HWY_INLINE V canonical_vector(V v) {
  return with_one_nan(flushed(v));
}
constexpr std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::MaxLanes(D()));
}

/// to = value(i) for whole vectors from element 0 on, until there are `count`.
template <typename Value> HWY_INLINE void fill(float* to, std::int64_t count, const Value& value) {
  for (std::int64_t i = 0; i < count; i += lanes()) hn::StoreU(value(i), D(), to + i);
}
template <typename Function> HWY_INLINE void apply(float* x, std::int64_t count, const Function& function) {
  constexpr std::int64_t kStep = static_cast<std::int64_t>(together::kVectors) * lanes();
  for (std::int64_t i = 0; i < count; i += kStep) together::store(function(together::load(x + i)), x + i);
}
void sigmoids(float* x, std::int64_t count) {
  const auto sigmoid = [](const together::Floats& v)
                           HWY_ATTR { return together::canonical_result(together::ls_sigmoid(v)); };
  apply(x, count, sigmoid);
}
void tanhs(float* x, std::int64_t count) {
  const auto tanh = [](const together::Floats& v) HWY_ATTR { return together::canonical_result(together::ls_tanh(v)); };
  apply(x, count, tanh);
}
HWY_INLINE V at(const float* from, std::int64_t i) {
  return hn::LoadU(D(), from + i);
}
HWY_INLINE V plus(V a, V b) {
  return canonical_vector(hn::Add(a, b));
}
HWY_INLINE V times(V a, V b) {
  return canonical_vector(hn::Mul(a, b));
}

// Of gates behind their functions, of which `fresh` and `out` become scratch: memory = forget * memory + in * fresh,
// hidden = out * tanh(memory). The states behind their elements stay as they are.
void finish_lstm(std::int64_t size, const float* in, const float* forget, float* fresh, float* out, float* hidden,
                 float* memory) {
  fill(fresh, size, [&](std::int64_t i) HWY_ATTR {
    return plus(times(at(forget, i), at(memory, i)), times(at(in, i), at(fresh, i)));
  });
  std::copy_n(fresh, size, memory);
  tanhs(fresh, size);
  fill(out, size, [&](std::int64_t i) HWY_ATTR { return times(at(out, i), at(fresh, i)); });
  std::copy_n(out, size, hidden);
}
