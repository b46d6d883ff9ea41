// Scalars, vectors and address spaces of Metal 2. An address space is nothing when the text shall run, and one that
// does not convert to another when it shall be checked (EMULATOR_CHECK).
#pragma once

#define EMULATOR_INLINE inline __attribute__((always_inline))

#define kernel static
#define thread
#ifdef EMULATOR_CHECK
#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#else
#define device
#define constant const
#define threadgroup
#endif

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef signed char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
typedef ulong size_t;
typedef long ptrdiff_t;

#define EMULATOR_VECTORS(T)                           \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##3 __attribute__((ext_vector_type(3))); \
  typedef T T##4 __attribute__((ext_vector_type(4)));
#define EMULATOR_INTEGERS(M) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)
EMULATOR_INTEGERS(EMULATOR_VECTORS)
EMULATOR_VECTORS(half)
EMULATOR_VECTORS(float)

namespace metal {

namespace emulator_detail {
template <class V> struct Vector {
  static constexpr int size = 1;
  typedef V element;
};
template <class T, int N> struct Vector<T __attribute__((ext_vector_type(N)))> {
  static constexpr int size = N;
  typedef T element;
};

template <class V, class A> EMULATOR_INLINE void append(V& vector, int& at, A value) {
  typedef typename Vector<V>::element T;
  if constexpr (Vector<A>::size == 1) {
    vector[at++] = T(value);
  } else {
    for (int i = 0; i < Vector<A>::size; ++i) vector[at++] = T(value[i]);
  }
}

/// V(a), a splat or a conversion, and V(a, b, ...) of as many components as V has.
template <class V, class A, class... B> EMULATOR_INLINE V construct(A a, B... b) {
  typedef typename Vector<V>::element T;
  V vector;
  if constexpr (sizeof...(B) == 0 && Vector<A>::size == 1) {
    for (int i = 0; i < Vector<V>::size; ++i) vector[i] = T(a);
  } else {
    static_assert((Vector<A>::size + ... + Vector<B>::size) == Vector<V>::size, "as many components as the vector has");
    int at = 0;
    append(vector, at, a);
    (append(vector, at, b), ...);
  }
  return vector;
}
}  // namespace emulator_detail

template <class To, class From> EMULATOR_INLINE To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  return __builtin_bit_cast(To, value);
}

}  // namespace metal
using metal::as_type;

constexpr half operator""h(long double value) {
  return half(value);
}
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define MAXFLOAT 0x1.fffffep+127f
