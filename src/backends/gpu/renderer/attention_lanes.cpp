#include "backends/gpu/renderer/attention_lanes.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kEighths = 8;  ///< lanes are joined by eights

}  // namespace

const char* const kExponentialText =
    "FUNCTION float exponential_of(float score, float largest) {\n"
    "  FLOAT distance = score - largest;\n"
    "  FLOAT result = ls_exp(CANONICAL_F32(distance));\n"
    "  return CANONICAL_F32(result);\n"
    "}\n";

// Two steps: lanes l, l + 8, ... of one of eight, and those eight.
void join_lanes(Lines& lines, int passes, const char* value, const char* operation) {
  const auto halve = [&](int count) {
    lines.add("UNROLL");
    lines.open("for (int apart = {}; apart > 0; apart /= 2) {{", count / 2);
    lines.add("UNROLL");
    lines.add("for (int i = 0; i < apart; i++) some[i] = {}(some[i], some[i + apart]);", operation);
    lines.close();
  };
  lines.add("UNROLL");
  lines.add("for (int t = 0; t < {0}; t++) lanes[t * {1} + thread_id] = {2}[t];", passes, kLaneThreads, value);
  lines.add("BARRIER();");
  lines.add("UNROLL");
  lines.open("for (int t = 0; t < {}; t++) {{", passes);
  lines.add("float some[{}];", kEighths);
  lines.add("UNROLL");
  lines.add("for (int i = 0; i < {0}; i++) some[i] = lanes[t * {1} + (thread_id & {2}) + (thread_id & {3}) + i * {0}];",
            kEighths, kLaneThreads, kLaneThreads - order::kLanes, kEighths - 1);
  halve(kEighths);
  lines.add("if ((thread_id & {0}) < {1}) eighths[(t * {2} + thread_id / {3}) * {1} + (thread_id & {4})] = some[0];",
            order::kLanes - 1, kEighths, kLaneTeams, order::kLanes, kEighths - 1);
  lines.close();
  lines.add("BARRIER();");
  lines.add("UNROLL");
  lines.open("for (int t = 0; t < {}; t++) {{", passes);
  lines.add("float some[{}];", kEighths);
  for (int i = 0; i < kEighths; i += 4) {
    lines.add("READ4(eighths, (t * {0} + thread_id / {1}) * {2} + {3}, some, {3})", kLaneTeams, order::kLanes, kEighths,
              i);
  }
  halve(kEighths);
  lines.add("{}[t] = some[0];", value);
  lines.close();
}

void add_lanes(KernelText& text, int passes) {
  text.shared.push_back({ComputeType::f32, "lanes", passes * kLaneThreads});
  text.shared.push_back({ComputeType::f32, "eighths", passes * kLaneTeams * kEighths});
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
