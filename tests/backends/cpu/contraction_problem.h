// Products and convolutions for tests of the CPU's contractions: random ones, and whether the CPU's bits are the reference's.
#pragma once

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/contraction.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/planner.h"
#include "backends/reference/contraction.h"
#include "support/bytes.h"
#include "support/isa_ways.h"
#include "support/random_numbers.h"

namespace lockstep {
inline namespace v0 {
namespace testing {

using Bytes = std::vector<std::byte>;

constexpr int kSlotA = 0;
constexpr int kSlotB = 1;
constexpr int kSlotOut = 2;

// Values that exercise rounding, and now and then one of the special values.
template <typename T> T random_value(std::mt19937_64& random, bool special) {
  if constexpr (std::is_floating_point_v<T>) {
    if (special && random() % 97 == 0) {
      using Limits = std::numeric_limits<T>;
      const T values[] = {T(0),          -T(0),          Limits::infinity(),   -Limits::infinity(), Limits::quiet_NaN(),
                          Limits::min(), -Limits::min(), Limits::denorm_min(), -Limits::min() / 3,  Limits::max()};
      return values[random() % std::size(values)];
    }
    return static_cast<T>(uniform_number(random, -2, 2));
  } else {
    return static_cast<T>(random());
  }
}

inline Bytes random_bytes(DType dtype, std::int64_t count, std::mt19937_64& random, bool special) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype) + 64);
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + static_cast<std::size_t>(i) * size_of(dtype);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (dtype) {
      case DType::f32: put(random_value<float>(random, special)); break;
      case DType::f64: put(random_value<double>(random, special)); break;
      // Every f16 and bf16 is a value to multiply when special ones are asked for.
      case DType::f16:
        put(special ? static_cast<std::uint16_t>(random()) : to_f16(random_value<float>(random, false)).bits);
        break;
      case DType::bf16:
        put(special ? static_cast<std::uint16_t>(random()) : to_bf16(random_value<float>(random, false)).bits);
        break;
      case DType::boolean: put(static_cast<std::uint8_t>(random() % 2)); break;
      case DType::u8: put(random_value<std::uint8_t>(random, false)); break;
      case DType::i8: put(random_value<std::int8_t>(random, false)); break;
      case DType::i16: put(random_value<std::int16_t>(random, false)); break;
      case DType::i32: put(random_value<std::int32_t>(random, false)); break;
      case DType::u32: put(random_value<std::uint32_t>(random, false)); break;
      case DType::i64: put(random_value<std::int64_t>(random, false)); break;
      default: ADD_FAILURE() << "not a type of kernels";
    }
  }
  return bytes;
}

inline Shape concat(std::initializer_list<Shape> parts) {
  Shape all;
  for (const Shape& part : parts) {
    for (const std::int64_t size : part) all.push_back(size);
  }
  return all;
}

inline DType stored_type(ComputeType type) {
  switch (type) {
    case ComputeType::f32: return DType::f32;
    case ComputeType::f64: return DType::f64;
    case ComputeType::i32: return DType::i32;
    case ComputeType::i64: return DType::i64;
  }
  return DType::f32;
}

/// An epilogue that only stores, row-major over (b, m, n) unless other strides are given.
inline Program plain_epilogue(const ContractionKernel& kernel) {
  Program program;
  program.rows = concat({kernel.b, kernel.m});
  program.inner = kernel.n;
  const DType dtype = stored_type(kernel.type);
  program.code = {{.kind = Instruction::Kind::accumulator, .type = kernel.type, .dtype = dtype}};
  program.outputs = {{.slot = kSlotOut,
                      .dtype = dtype,
                      .value = 0,
                      .strides = View::contiguous(concat({kernel.b, kernel.m, kernel.n})).strides}};
  return program;
}

struct Problem {
  ContractionKernel kernel;
  std::vector<Bytes> buffers;  ///< slots; the output's is overwritten
  std::string name;
};

struct Way {
  int threads = 1;
  bool is_given = false;  ///< the operands as values that come again, three times
};

// Runs everywhere and compares the whole output buffer, so that a write outside the output shows as well.
inline void expect_reference_bits(Problem& problem, const std::vector<int>& threads = {1, 2}) {
  const auto run = [&](const auto& execute) {
    Bytes& out = problem.buffers[kSlotOut];
    std::fill(out.begin(), out.end(), std::byte{0xab});
    std::vector<std::byte*> slots;
    for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
    execute(Binding{.slots = slots, .parameters = {}});
    return out;
  };
  const Bytes expected = run([&](const Binding& binding) { run_kernel(problem.kernel, binding); });
  const int before = num_threads();
  // The operands as values that come again: packed forms of them are made in the second run and used in the third.
  const auto kept = std::make_shared<KeptPanels>(std::make_shared<MemoryPool>(), std::size_t{1} << 30);
  std::vector<std::unique_ptr<Buffer>> values;
  std::vector<Buffer*> given(problem.buffers.size());
  for (const int slot : {kSlotA, kSlotB}) {
    Bytes& bytes = problem.buffers[static_cast<std::size_t>(slot)];
    values.push_back(std::make_unique<Buffer>(Device{DeviceKind::cpu, 0}, bytes.data(), bytes.size(), nullptr));
    given[static_cast<std::size_t>(slot)] = values.back().get();
  }
  std::vector<Way> ways;
  for (const int count : threads) {
    if (count > 1 || threads.size() == 1 || !looks_for_races()) ways.push_back({count});
  }
  ways.push_back({threads.back(), true});
  for (const Isa isa : available_isas()) {
    const auto executable = compile_contraction(problem.kernel, isa, kept);
    std::vector<std::pair<int, bool>> runs;
    for (const Way& way : ways_on(isa, ways))
      runs.insert(runs.end(), way.is_given ? 3 : 1, {way.threads, way.is_given});
    for (const auto& [count, again] : runs) {
      set_num_threads(count);
      const Bytes got = run([&, is_given = again](Binding binding) {
        if (is_given) binding.given = given;
        executable->run(binding);
      });
      if (same_bytes(got, expected)) continue;
      std::size_t at = 0;
      while (got[at] == expected[at]) ++at;
      ADD_FAILURE() << problem.name << " on " << name_of(isa) << " with " << count << " threads"
                    << (again ? ", operands given" : "") << ": byte " << at << " of " << got.size()
                    << " differs: " << std::to_integer<int>(got[at]) << ", expected "
                    << std::to_integer<int>(expected[at]);
      break;
    }
  }
  set_num_threads(before);
}

// Columns that may hold subnormals are flushed, or packed; others are read where they are. These hold none.
inline void expect_with_and_without_subnormals(Problem& problem, const std::vector<int>& threads = {1, 2}) {
  for (const bool canonical : {false, true}) {
    problem.kernel.b_operand.canonical = canonical;
    expect_reference_bits(problem, threads);
  }
}

inline std::int64_t output_elements(const Program& program) {
  std::int64_t last = 0;
  const Shape space = concat({program.rows, program.inner});
  if (space.numel() == 0) return 0;
  for (int d = 0; d < space.rank(); ++d) last += program.outputs[0].strides[d] * (space[d] - 1);
  return last + 1;
}

/// From 1 to `limit`; one in four from 1 to 4.
inline std::int64_t random_size(std::mt19937_64& random, std::int64_t limit) {
  const bool small = random() % 4 == 0;
  return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(small ? 4 : limit));
}

struct MatmulOptions {
  DType a = DType::f32;
  DType b = DType::f32;
  ComputeType type = ComputeType::f32;
  bool transpose_a = false, transpose_b = false, transpose_out = false;
  bool flip_a = false, flip_b = false;  ///< k runs backwards through memory
  bool broadcast_a = false, broadcast_b = false;
  bool special = false;
  std::uint64_t seed = 1;
  Numerics numerics = Numerics::exact;
};

inline Problem matmul_problem(Shape batch, std::int64_t m, std::int64_t n, std::int64_t k, const MatmulOptions& options = {}) {
  Problem problem;
  std::mt19937_64 random(options.seed * 1000003 + static_cast<std::uint64_t>(m * 7919 + n * 104729 + k));
  ContractionKernel& kernel = problem.kernel;
  kernel.b = batch;
  kernel.m = {m};
  kernel.n = {n};
  kernel.k = {k};
  kernel.type = options.type;
  kernel.numerics = options.numerics;
  const int rank = batch.rank();
  const auto operand = [&](int slot, DType dtype, std::int64_t rows, std::int64_t columns, bool transposed,
                           bool flipped, int k_dim, bool broadcast) {
    const Shape own = broadcast ? Shape::filled(rank, 1) : batch;
    Shape stored = own;
    stored.push_back(transposed ? columns : rows);
    stored.push_back(transposed ? rows : columns);
    View view = View::contiguous(stored);
    if (transposed) {
      Shape order;
      for (int d = 0; d < rank; ++d) order.push_back(d);
      order.push_back(rank + 1);
      order.push_back(rank);
      view = view.permuted(order);
    }
    if (flipped && k > 0) view = view.sliced(rank + k_dim, k - 1, -1, k);
    problem.buffers.push_back(random_bytes(dtype, stored.numel(), random, options.special));
    return Input{
        .slot = slot, .dtype = dtype, .view = view.expanded(concat({batch, {rows, columns}})), .canonical = false};
  };
  kernel.a = operand(kSlotA, options.a, m, k, options.transpose_a, options.flip_a, 1, options.broadcast_a);
  kernel.b_operand = operand(kSlotB, options.b, k, n, options.transpose_b, options.flip_b, 0, options.broadcast_b);
  kernel.epilogue = plain_epilogue(kernel);
  if (options.transpose_out) {
    Shape& strides = kernel.epilogue.outputs[0].strides;
    strides[rank] = 1;
    strides[rank + 1] = m;
  }
  problem.buffers.emplace_back(
      static_cast<std::size_t>(output_elements(kernel.epilogue)) * size_of(stored_type(options.type)) + 64);
  problem.name = "matmul " + batch.to_string() + " m=" + std::to_string(m) + " n=" + std::to_string(n) +
                 " k=" + std::to_string(k) + " seed " + std::to_string(options.seed);
  return problem;
}

struct Convolution {
  std::int64_t batch = 1, groups = 1, in = 3, out = 4;  ///< channels per group
  Shape size{9, 9}, kernel{3, 3};
  std::int64_t padding = 1, stride = 1, dilation = 1;
  bool channels_last = false;    ///< input memory
  bool positions_first = false;  ///< order of k
  Shape backwards{};             ///< windows are walked against dimension d where [d] is 1
  std::uint64_t fill = 0;
  bool special = false;
  DType weight = DType::f32, input = DType::f32;
};

inline Problem convolution_problem(const Convolution& c) {
  Problem problem;
  std::mt19937_64 random(17);
  ContractionKernel& kernel = problem.kernel;
  const int spatial = c.size.rank();
  // [N, G, C, spatial...] over memory of either layout.
  Shape input_shape{c.batch, c.groups, c.in};
  for (const std::int64_t s : c.size) input_shape.push_back(s);
  View view = View::contiguous(input_shape);
  if (c.channels_last) {
    Shape memory{c.batch};
    for (const std::int64_t s : c.size) memory.push_back(s);
    memory.push_back(c.groups);
    memory.push_back(c.in);
    Shape order{0, spatial + 1, spatial + 2};
    for (int d = 0; d < spatial; ++d) order.push_back(d + 1);
    view = View::contiguous(memory).permuted(order);
  }
  Shape outputs;
  for (int d = 0; d < spatial; ++d) {
    view = view.padded(3 + d, c.padding, c.padding, c.fill).value();
    const std::int64_t reach = (c.kernel[d] - 1) * c.dilation + 1;
    outputs.push_back((c.size[d] + 2 * c.padding - reach) / c.stride + 1);
    view = view.windowed(3 + d, c.kernel[d], outputs[d], c.stride, c.dilation);
  }
  for (int d = 0; d < c.backwards.rank(); ++d) {
    if (c.backwards[d] == 1) view = view.sliced(3 + spatial + d, c.kernel[d] - 1, -1, c.kernel[d]);
  }
  // Now [N, G, C, out..., window...]; wanted: (N, G), k, out...
  kernel.b = {c.batch, c.groups};
  kernel.m = {c.out};
  kernel.n = outputs;
  Shape order{0, 1};
  Shape weight_order{0, 1};
  Shape weight_shape{c.groups, c.out, c.in};
  for (const std::int64_t s : c.kernel) weight_shape.push_back(s);
  const auto push_channel = [&] {
    order.push_back(2);
    weight_order.push_back(2);
    kernel.k.push_back(c.in);
  };
  if (!c.positions_first) push_channel();
  for (int d = 0; d < spatial; ++d) {
    order.push_back(3 + spatial + d);
    weight_order.push_back(3 + d);
    kernel.k.push_back(c.kernel[d]);
  }
  if (c.positions_first) push_channel();
  for (int d = 0; d < spatial; ++d) order.push_back(3 + d);
  kernel.type = compute_type(c.weight);
  kernel.b_operand = {.slot = kSlotB, .dtype = c.input, .view = view.permuted(order), .canonical = false};
  const View weight = View::contiguous(weight_shape).permuted(weight_order);
  kernel.a = {.slot = kSlotA,
              .dtype = c.weight,
              .view = weight.expanded(concat({{c.batch}, weight.shape})),
              .canonical = false};
  kernel.epilogue = plain_epilogue(kernel);
  problem.buffers.push_back(random_bytes(c.weight, weight_shape.numel(), random, c.special));
  problem.buffers.push_back(random_bytes(c.input, input_shape.numel(), random, c.special));
  problem.buffers.emplace_back(static_cast<std::size_t>(output_elements(kernel.epilogue)) * 4 + 64);
  problem.name = "convolution of " + input_shape.to_string() + " with " + weight_shape.to_string() + " padding " +
                 std::to_string(c.padding) + " stride " + std::to_string(c.stride) + " dilation " +
                 std::to_string(c.dilation);
  return problem;
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
