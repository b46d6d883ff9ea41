// From the emulator into a kernel. The rewriter writes the calls; the types come from the kernel's own signature, by
// way of these conversions, so a binding that does not fit the text does not compile.
#pragma once

namespace emulator {

struct Pointer {
  void* address;
  template <class T> EMULATOR_INLINE operator T*() const { return static_cast<T*>(address); }
};
struct Reference {
  void* address;
  template <class T> EMULATOR_INLINE operator T&() const { return *static_cast<T*>(address); }
};
/// A built-in number of up to three dimensions: uint, uint2, uint3 or ushort, ushort2, ushort3.
struct Number {
  Size3 value;
  EMULATOR_INLINE operator uint() const { return value.x; }
  EMULATOR_INLINE operator ushort() const { return ushort(value.x); }
  EMULATOR_INLINE operator ::uint2() const { return ::uint2{value.x, value.y}; }
  EMULATOR_INLINE operator ::uint3() const { return ::uint3{value.x, value.y, value.z}; }
  EMULATOR_INLINE operator ::ushort2() const { return ::ushort2{ushort(value.x), ushort(value.y)}; }
  EMULATOR_INLINE operator ::ushort3() const { return ::ushort3{ushort(value.x), ushort(value.y), ushort(value.z)}; }
};

/// The sizes of what a kernel's parameters refer to; 0 for pointers and numbers.
template <class... P> void referred_bytes(void (*)(P...), ulong* bytes) {
  ((*bytes++ = std::is_reference_v<P> ? sizeof(P) : 0), ...);
}

constexpr uint round_up(uint value, uint unit) {
  return (value + unit - 1) / unit * unit;
}
/// Where a threadgroup variable stands after one that ends at `end`: a gap between them shows who wrote past his end,
/// and no variable is aligned better than its type asks for.
constexpr uint place(uint end, uint alignment) {
  return round_up(end + 64, 64) + (alignment < 64 ? alignment : 0);
}

}  // namespace emulator
