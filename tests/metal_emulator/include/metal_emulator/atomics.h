// Atomics of 32-bit integers in device and threadgroup memory; relaxed is the only order before Metal 3.2. Atomic
// floats exist on some devices only, and their sums have no order: left out.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T> struct atomic { T emulator_value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;

#ifdef EMULATOR_CHECK  // only declared: the address spaces are what counts
#define EMULATOR_ATOMIC_BODY(...) ;
#else
#define EMULATOR_ATOMIC_BODY(...) __VA_ARGS__
#endif
// clang-format off
#define EMULATOR_ATOMIC_FETCH(space, name, builtin)                                                  \
  template <class T>                                                                                 \
  T atomic_fetch_##name##_explicit(volatile space atomic<T>* object, T operand, memory_order)        \
  EMULATOR_ATOMIC_BODY({ return builtin(&object->emulator_value, operand, __ATOMIC_RELAXED); })
#define EMULATOR_ATOMICS(space)                                                                      \
  template <class T>                                                                                 \
  T atomic_load_explicit(const volatile space atomic<T>* object, memory_order)                       \
  EMULATOR_ATOMIC_BODY({ return __atomic_load_n(&object->emulator_value, __ATOMIC_RELAXED); })       \
  template <class T>                                                                                 \
  void atomic_store_explicit(volatile space atomic<T>* object, T value, memory_order)                \
  EMULATOR_ATOMIC_BODY({ __atomic_store_n(&object->emulator_value, value, __ATOMIC_RELAXED); })      \
  template <class T>                                                                                 \
  T atomic_exchange_explicit(volatile space atomic<T>* object, T value, memory_order)                \
  EMULATOR_ATOMIC_BODY({ return __atomic_exchange_n(&object->emulator_value, value, __ATOMIC_RELAXED); }) \
  template <class T>                                                                                 \
  bool atomic_compare_exchange_weak_explicit(volatile space atomic<T>* object, thread T* expected, T desired, \
                                             memory_order, memory_order)                             \
  EMULATOR_ATOMIC_BODY({ return __atomic_compare_exchange_n(&object->emulator_value, expected, desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED); }) \
  EMULATOR_ATOMIC_FETCH(space, add, __atomic_fetch_add)                                              \
  EMULATOR_ATOMIC_FETCH(space, sub, __atomic_fetch_sub)                                              \
  EMULATOR_ATOMIC_FETCH(space, and, __atomic_fetch_and)                                              \
  EMULATOR_ATOMIC_FETCH(space, or, __atomic_fetch_or)                                                \
  EMULATOR_ATOMIC_FETCH(space, xor, __atomic_fetch_xor)                                              \
  EMULATOR_ATOMIC_FETCH(space, min, __atomic_fetch_min)                                              \
  EMULATOR_ATOMIC_FETCH(space, max, __atomic_fetch_max)
// clang-format on
EMULATOR_ATOMICS(device)
#ifdef EMULATOR_CHECK
EMULATOR_ATOMICS(threadgroup)
#endif

}  // namespace metal
