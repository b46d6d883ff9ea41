// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), as docs/numerics.md
// section 8 uses it. In the kernel subset, see prelude.h. 64-bit quantities come as two words, since not every device
// has 64-bit integers.

/// The four words for one key and counter; word 0 of a quantity is its low half.
FUNCTION void philox4x32(UINT key0, UINT key1, UINT counter0, UINT counter1, UINT counter2, UINT counter3,
                         OUT(UINT, word0), OUT(UINT, word1), OUT(UINT, word2), OUT(UINT, word3)) {
  for (int round = 0; round < 10; round++) {
    UINT high0 = MUL_HIGH(0xd2511f53u, counter0);
    UINT low0 = 0xd2511f53u * counter0;
    UINT high2 = MUL_HIGH(0xcd9e8d57u, counter2);
    UINT low2 = 0xcd9e8d57u * counter2;
    counter0 = high2 ^ counter1 ^ key0;
    counter1 = low2;
    counter2 = high0 ^ counter3 ^ key1;
    counter3 = low0;
    key0 = key0 + 0x9e3779b9u;
    key1 = key1 + 0xbb67ae85u;
  }
  word0 = counter0;
  word1 = counter1;
  word2 = counter2;
  word3 = counter3;
}

/// The random word of element `position` in draw `draw` under `seed`.
FUNCTION UINT philox_word(UINT seed_low, UINT seed_high, UINT draw_low, UINT draw_high, UINT position_low,
                          UINT position_high) {
  UINT block_low = (position_low >> 2) | (position_high << 30);
  UINT word0;
  UINT word1;
  UINT word2;
  UINT word3;
  philox4x32(seed_low, seed_high, block_low, position_high >> 2, draw_low, draw_high, word0, word1, word2, word3);
  // Masks instead of a chain of selects, which GCC turns into a switch that it cannot vectorise.
  UINT odd = 0u - (position_low & 1u);
  UINT upper = 0u - ((position_low >> 1) & 1u);
  UINT first = word0 ^ ((word0 ^ word1) & odd);
  UINT second = word2 ^ ((word2 ^ word3) & odd);
  return first ^ ((first ^ second) & upper);
}
