// 256 neighbours of packed weights in a thread's registers: expressions of what their blocks (kernels/encodings.h)
// hold, four codes at a time. Every position is known when the text is written, so that nothing is computed but shifts.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class PackedPiece {
 public:
  static constexpr int kElements = 256;

  explicit PackedPiece(Encoding encoding);

  /// Of all blocks, and the words of the text's array `UINT piece[words()]` that holds them from its first byte on.
  int bytes() const { return bytes_; }
  int words() const { return (bytes_ + 3) / 4; }

  /// What the expressions below call, for KernelText::functions.
  std::string functions() const;

  /// UINT: the codes of elements 32 · block + 4 · word and its three successors, plus bias() each, as signed bytes; or
  /// the floats.
  std::string codes(int block, int word) const;
  int bias() const;
  bool has_signed_codes() const;

  /// The same without the bias, times code_step().
  std::string signed_codes(int block, int word) const;
  int code_step() const;
  /// The same where that is not 1, too.
  std::string unscaled_codes(int block, int word) const;

  // Of the block of 32, or of either half of it, with the meaning that group_<name> has: value = scale · factor · code
  // + offset · share.
  std::string scale(int block) const;
  std::string offset(int block) const;
  std::string factor(int block, int half) const;
  std::string share(int block, int half) const;

 private:
  int first_of(int block) const;
  std::string word(int byte) const;
  std::string byte(int at) const;
  std::string half_word(int byte) const;
  std::string half(int byte) const;
  std::string nibbles(int first, int word) const;

  Encoding encoding_;
  int each_;   ///< bytes of a block
  int bytes_;  ///< of 256 elements
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
