// Barriers, and what the lanes of a simdgroup tell each other. Every call is a place where the emulator changes
// threads.
#pragma once

extern "C" const ::emulator::Runtime* emulator_runtime;

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
EMULATOR_INLINE mem_flags operator|(mem_flags x, mem_flags y) {
  return mem_flags(uint(x) | uint(y));
}

// Two calls must stay two, or threads that wait at different ones would seem to wait at the same. One may become two,
// in copies of a branch: barriers go by their line.
#define EMULATOR_SITE static __attribute__((noinline, nomerge, convergent, unused))

EMULATOR_SITE void threadgroup_barrier(mem_flags, int line = __builtin_LINE()) {
  emulator_runtime->barrier(line);
}
EMULATOR_SITE void simdgroup_barrier(mem_flags, int line = __builtin_LINE()) {
  uint active;
  emulator_runtime->exchange(nullptr, 0, __builtin_return_address(0), line, &active);
}

namespace emulator_detail {
template <class T> EMULATOR_SITE char* publish(T value, uint& active, int line) {
  static_assert(sizeof(T) <= ::emulator::kSlot, "a value of a simdgroup function");
  return emulator_runtime->exchange(&value, sizeof(T), __builtin_return_address(0), line, &active);
}
template <class T> EMULATOR_INLINE T slot(char* slots, uint lane) {
  T value;
  __builtin_memcpy(&value, slots + ::emulator::kSlot * lane, sizeof(T));
  return value;
}
}  // namespace emulator_detail

// A lane that is not active gives an undefined value: poison here.
#define EMULATOR_SHUFFLE(name, parameter, from, valid)                                                \
  template <class T> EMULATOR_INLINE T name(T value, ushort parameter, int line = __builtin_LINE()) { \
    uint active;                                                                                      \
    char* slots = emulator_detail::publish(value, active, line);                                      \
    const uint lane = emulator_runtime->lane(), source = from;                                        \
    if (!(valid)) return value;                                                                       \
    if (source < 32 && (active >> source & 1) != 0) return emulator_detail::slot<T>(slots, source);   \
    T poison;                                                                                         \
    __builtin_memset(&poison, 0xff, sizeof(T));                                                       \
    return poison;                                                                                    \
  }
EMULATOR_SHUFFLE(simd_shuffle, source_lane, (void(lane), source_lane), true)
EMULATOR_SHUFFLE(simd_broadcast, source_lane, (void(lane), source_lane), true)
EMULATOR_SHUFFLE(simd_shuffle_xor, mask, lane ^ mask, true)
EMULATOR_SHUFFLE(simd_shuffle_down, delta, lane + delta, source < 32)
EMULATOR_SHUFFLE(simd_shuffle_up, delta, lane - delta, delta <= lane)

EMULATOR_INLINE bool simd_any(bool value, int line = __builtin_LINE()) {
  uint active;
  char* slots = emulator_detail::publish(char(value), active, line);
  bool any = false;
  for (uint i = 0; i < 32; ++i) any = any || ((active >> i & 1) != 0 && slots[::emulator::kSlot * i] != 0);
  return any;
}
EMULATOR_INLINE bool simd_all(bool value, int line = __builtin_LINE()) {
  return !simd_any(!value, line);
}

}  // namespace metal
