// Results made canonical (docs/numerics.md section 1), a vector at a time. No guard: included once per instruction set,
// inside its anonymous namespace.

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using WordTag = hn::RebindToUnsigned<D>;
using IntegerTag = hn::RebindToSigned<D>;

/// Magnitudes up to the smallest normal are the zero of their sign.
HWY_INLINE V flushed(V v) {
  const WordTag words;
  const auto bits = hn::BitCast(words, v);
#if HWY_TARGET == HWY_AVX3
  // Twice the bits is twice the magnitude; and comparisons give masks.
  const auto small = hn::Lt(hn::Add(bits, bits), hn::Set(words, 0x01000001u));
  return hn::BitCast(D(), hn::IfThenElse(small, hn::And(bits, hn::Set(words, 0x80000000u)), bits));
#else
  const IntegerTag integers;
  const auto magnitude_bits = hn::Set(words, 0x7fffffffu);
  const auto magnitude = hn::BitCast(integers, hn::And(bits, magnitude_bits));
  const auto small = hn::VecFromMask(integers, hn::Lt(magnitude, hn::Set(integers, 0x00800001)));
  return hn::BitCast(D(), hn::AndNot(hn::And(hn::BitCast(words, small), magnitude_bits), bits));
#endif
}

HWY_INLINE V with_one_nan(V v) {
  const auto nan = hn::BitCast(D(), hn::Set(WordTag(), 0x7fc00000u));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}
