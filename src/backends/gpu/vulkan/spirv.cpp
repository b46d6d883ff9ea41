#include "backends/gpu/vulkan/spirv.h"

#include <cstddef>
#include <initializer_list>
#include <set>
#include <string_view>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// Numbers of the SPIR-V specification.
constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::size_t kHeader = 5;
enum Op : std::uint32_t {
  kExtension = 10,
  kExtInst = 12,
  kMemoryModel = 14,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kCapability = 17,
  kDecorate = 71,
  kTypeFloat = 22,
  kFNegate = 127,
  kFAdd = 129,
  kFSub = 131,
  kFMul = 133,
  kFDiv = 136,
  kFRem = 140,
  kFMod = 141,
};
constexpr std::uint32_t kNoContraction = 42;
constexpr std::uint32_t kPackHalf = 58, kUnpackHalf = 62;  // of GLSL.std.450
struct Mode {
  bool FloatControls::*wanted;
  std::uint32_t capability, mode, width;
};
constexpr Mode kModes[] = {
    {&FloatControls::keep_subnormals_16, 4464, 4459, 16}, {&FloatControls::keep_specials_16, 4466, 4461, 16},
    {&FloatControls::nearest_16, 4467, 4462, 16},         {&FloatControls::keep_subnormals_32, 4464, 4459, 32},
    {&FloatControls::keep_specials_32, 4466, 4461, 32},   {&FloatControls::nearest_32, 4467, 4462, 32},
    {&FloatControls::keep_subnormals_64, 4464, 4459, 64}, {&FloatControls::keep_specials_64, 4466, 4461, 64},
    {&FloatControls::nearest_64, 4467, 4462, 64},
};

class Writer {
 public:
  void add(std::uint32_t op, std::initializer_list<std::uint32_t> operands) {
    words_.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16 | op);
    words_.insert(words_.end(), operands);
  }
  void add_text(std::uint32_t op, std::string_view text) {
    const std::size_t count = text.size() / 4 + 1;
    words_.push_back(static_cast<std::uint32_t>(count + 1) << 16 | op);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word = 0;
      for (std::size_t b = 0; b < 4 && 4 * i + b < text.size(); ++b) {
        word |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[4 * i + b])) << (8 * b);
      }
      words_.push_back(word);
    }
  }
  void copy(const std::uint32_t* from, std::size_t count) { words_.insert(words_.end(), from, from + count); }
  std::vector<std::uint32_t> take() { return std::move(words_); }

 private:
  std::vector<std::uint32_t> words_;
};

bool rounds(std::uint32_t op) {
  return op == kFNegate || op == kFAdd || op == kFSub || op == kFMul || op == kFDiv || op == kFRem || op == kFMod ||
         op == kExtInst;
}

}  // namespace

std::vector<std::uint32_t> with_exact_arithmetic(const std::vector<std::uint32_t>& words,
                                                 const FloatControls& controls) {
  if (words.size() < kHeader || words[0] != kMagic) throw BackendError("vulkan: the compiler made no SPIR-V");
  // Results to decorate, widths in use, and the entry point.
  std::set<std::uint32_t> results;
  std::set<std::uint32_t> decorated;
  std::set<std::uint32_t> float_types;
  std::set<std::uint32_t> widths;
  std::uint32_t entry = 0;
  const auto each = [&](auto visit) {
    for (std::size_t at = kHeader; at < words.size();) {
      const std::uint32_t count = words[at] >> 16;
      if (count == 0 || at + count > words.size()) throw BackendError("vulkan: the compiler made broken SPIR-V");
      visit(words[at] & 0xffff, &words[at], count);
      at += count;
    }
  };
  each([&](std::uint32_t op, const std::uint32_t* at, std::uint32_t) {
    if (op == kEntryPoint) entry = at[2];
    if (op == kTypeFloat) {
      widths.insert(at[2]);
      float_types.insert(at[1]);
    }
    // These round to 16 bits, or read them, without a type of that width.
    if (op == kExtInst && (at[4] == kPackHalf || at[4] == kUnpackHalf)) widths.insert(16);
    if (op == kDecorate && at[2] == kNoContraction) decorated.insert(at[1]);
    if (rounds(op) && float_types.contains(at[1])) results.insert(at[2]);
  });
  std::vector<Mode> modes;
  std::set<std::uint32_t> capabilities;
  for (const Mode& mode : kModes) {
    if (!(controls.*mode.wanted) || !widths.contains(mode.width)) continue;
    modes.push_back(mode);
    capabilities.insert(mode.capability);
  }
  Writer out;
  out.copy(words.data(), kHeader);
  // The order of a module's sections: capabilities, extensions, memory model, entry points, modes, names, decorations.
  int section = 0;
  const auto reach = [&](int wanted) {
    for (; section < wanted; ++section) {
      if (section == 0) {
        for (const std::uint32_t capability : capabilities) out.add(kCapability, {capability});
        if (!capabilities.empty()) out.add_text(kExtension, "SPV_KHR_float_controls");
      } else if (section == 1) {
        for (const Mode& mode : modes) out.add(kExecutionMode, {entry, mode.mode, mode.width});
      } else {
        for (const std::uint32_t result : results) {
          if (!decorated.contains(result)) out.add(kDecorate, {result, kNoContraction});
        }
      }
    }
  };
  each([&](std::uint32_t op, const std::uint32_t* at, std::uint32_t count) {
    constexpr std::uint32_t kFirstType = 19;  // OpTypeVoid; types and constants follow all decorations
    constexpr std::uint32_t kFirstName = 2;   // OpSourceContinued .. OpLine
    if (op != kCapability && section < 1) reach(1);
    const bool debug = op >= kFirstName && op <= 8;
    if ((debug || op == kDecorate || op == 72 || op == 330) && section < 2) reach(2);
    if (op >= kFirstType && op <= 59 && section < 3) reach(3);
    out.copy(at, count);
  });
  return out.take();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
