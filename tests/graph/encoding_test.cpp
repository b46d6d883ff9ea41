// Packed weights: what reads them has the bits of the unpacked ones, and whatever else needs elements says so.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>
#include <lockstep/threads.h>

#include "core/hash.h"
#include "graph/make.h"
#include "graph/numerics.h"
#include "graph/stored_hash.h"
#include "graph/stored_tensor.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using namespace graph;

constexpr Encoding kPacked = Encoding::q8_0;

// By the definition, one element after the other.
std::vector<float> values_of(const std::vector<std::byte>& blocks) {
  std::vector<float> values;
  for (std::size_t block = 0; block < blocks.size(); block += 34) {
    Float16 scale;
    std::memcpy(&scale.bits, blocks.data() + block, 2);
    for (std::size_t i = 0; i < 32; ++i) {
      values.push_back(to_f32(scale) * static_cast<float>(static_cast<std::int8_t>(blocks[block + 2 + i])));
    }
  }
  return values;
}

struct Weights {
  Tensor packed;
  Tensor dense;  ///< the same values, unpacked by the test
};
Weights weights(const Shape& shape, std::uint64_t seed, Device device, bool special = false) {
  const std::vector<std::byte> blocks = random_blocks(shape, kPacked, seed, special);
  return {Tensor::from_blocks(blocks.data(), blocks.size(), shape, kPacked, device),
          Tensor::from(values_of(blocks), shape, device)};
}

const std::vector<std::string> kRefusal = {"packed as q8_0", "f32 (q8_0)", "fix: ", "dequantize("};

TEST(Packed, ATensorSaysWhatItIs) {
  for (const Device& device : test_devices()) {
    const Tensor packed = random_packed({3, 64}, kPacked, 1, device);
    EXPECT_EQ(packed.encoding(), kPacked);
    EXPECT_EQ(packed.dtype(), DType::f32);
    EXPECT_EQ(packed.shape(), Shape({3, 64}));
    EXPECT_EQ(packed.device(), device);
    EXPECT_EQ(node_of(packed)->bytes(), 3u * 2 * 34);
    EXPECT_EQ(dequantize(packed).encoding(), Encoding::dense);
    EXPECT_EQ(zeros_like(packed).encoding(), Encoding::dense);
    EXPECT_EQ(detach(packed).encoding(), kPacked);
    EXPECT_EQ(packed.eval().encoding(), kPacked);
  }
  EXPECT_EQ(ones({2}).encoding(), Encoding::dense);
}

TEST(Packed, BlocksThatDoNotFitAreRefused) {
  const std::vector<std::byte> bytes(680);
  const auto make = [&](std::size_t count, const Shape& shape, Encoding encoding = kPacked) {
    return [&bytes, count, shape, encoding] { Tensor::from_blocks(bytes.data(), count, shape, encoding); };
  };
  expect_error<ShapeError>(make(34, {2, 32}), {"34 bytes", "[2, 32]", "q8_0", "68", "encoding_test.cpp"});
  expect_error<ShapeError>(make(68, {1, 33}), {"no multiple of 32"});
  expect_error<ShapeError>(make(34, {32, 1}), {"no multiple of 32"});
  expect_error<ShapeError>(make(34, {}), {"no multiple of 32"});
  expect_error<ShapeError>(make(34, {-1, 32}), {"negative"});
  expect_error<ValueError>(make(128, {32}, Encoding::dense), {"no blocks"});
  EXPECT_EQ(Tensor::from_blocks(nullptr, 0, {0, 64}, kPacked).shape(), Shape({0, 64}));
}

TEST(Packed, DequantizeGivesTheValues) {
  for (const bool special : {false, true}) {
    for (const Shape& shape : {Shape{32}, Shape{1, 32}, Shape{37, 96}, Shape{2, 3, 5, 64}, Shape{0, 32}, Shape{3, 0}}) {
      const Tensor values =
          same_everywhere([&](Device device) { return dequantize(random_packed(shape, kPacked, 7, device, special)); });
      EXPECT_BITS_EQ(values, weights(shape, 7, {}, special).dense);
    }
  }
  const Tensor dense = ones({2, 3});
  EXPECT_EQ(node_of(dequantize(dense)), node_of(dense));
  expect_error<ValueError>([] { dequantize(3.0); }, {"dequantize"});
}

// Elements are found by their number, so that a view is what it is of dense ones.
TEST(Packed, ViewsArePackedAndShowTheSameElements) {
  using View = Tensor (*)(const Tensor&);
  const View views[] = {
      [](const Tensor& t) { return t.transpose(0, 2); },
      [](const Tensor& t) {
        return t.permute({1, 2, 0});
      },
      [](const Tensor& t) { return t.reshape({-1}); },
      [](const Tensor& t) {
        return t.reshape({24, 16});
      },
      [](const Tensor& t) {
        return t.reshape({24, 16}).narrow(1, 5, 7);
      },
      [](const Tensor& t) { return t.select(0, 1); },
      [](const Tensor& t) { return t.select(2, 33); },
      [](const Tensor& t) { return t.select(0, 1).select(0, 2).select(0, 40); },
      [](const Tensor& t) { return t.slice(2, {.start = 3, .step = 7}); },
      [](const Tensor& t) {
        return t.flip({0, 2});
      },
      [](const Tensor& t) {
        return t.unsqueeze(0).expand({4, 2, 3, 64}).transpose(1, 3);
      },
      [](const Tensor& t) { return t.unfold(2, 8, 5); },
      [](const Tensor& t) { return t.diagonal(0, 0, 1); },
      [](const Tensor& t) { return t.slice(1, {.start = 3}); },
  };
  for (const View view : views) {
    const Tensor seen = same_everywhere([&](Device device) {
      const Tensor shown = view(random_packed({2, 3, 64}, kPacked, 3, device));
      EXPECT_EQ(shown.encoding(), kPacked);
      return dequantize(shown);
    });
    EXPECT_BITS_EQ(seen, view(weights({2, 3, 64}, 3, {}).dense));
  }
}

TEST(Packed, ViewsThatWouldStoreElementsAreRefused) {
  const Tensor packed = random_packed({2, 64}, kPacked, 3);
  expect_error<DTypeError>([&] { packed.transpose(0, 1).reshape({-1}); }, kRefusal);
  expect_error<DTypeError>([&] { pad(packed, {1, 1}); }, kRefusal);
  expect_error<DTypeError>([&] { cat({packed, packed}, 0); }, kRefusal);
  expect_error<DTypeError>([&] { packed.repeat({2, 1}); }, kRefusal);
  EXPECT_EQ(contiguous(packed).encoding(), kPacked);  // as it is
  expect_error<DTypeError>([&] { contiguous(packed.transpose(0, 1)); }, kRefusal);
}

// One row, many rows, odd numbers of columns, k of one block and of many canonical ones: all ways that products have.
TEST(Packed, LinearHasTheBitsOfTheUnpackedWeight) {
  const int before = num_threads();
  for (const Device& device : test_devices()) {
    if (device.kind != DeviceKind::ref && device.kind != DeviceKind::cpu) continue;
    for (const std::int64_t rows : {1, 2, 5, 17, 64, 512}) {
      for (const std::int64_t k : {32, 96, 288, 1056}) {
        for (const std::int64_t n : {1, 7, 33, 130}) {
          if (device.kind == DeviceKind::ref && rows * k * n > 1'000'000) continue;
          const Weights w = weights({n, k}, static_cast<std::uint64_t>(k + n), device);
          const Tensor x = random_tensor({rows, k}, DType::f32, static_cast<std::uint64_t>(rows), device);
          const Tensor bias = random_tensor({n}, DType::f32, 5, device);
          const Tensor expected = relu(linear(x, w.dense, bias)).eval();
          for (const int threads : {1, 2, 3}) {
            set_num_threads(threads);
            SCOPED_TRACE(device.to_string() + " " + Shape({rows, k, n, threads}).to_string());
            EXPECT_BITS_EQ(relu(linear(x, w.packed, bias)), expected);
            EXPECT_BITS_EQ(relu(linear(x, dequantize(w.packed), bias)), expected);
          }
          set_num_threads(before);
        }
      }
    }
  }
}

constexpr Encoding kEncodings[] = {
#define ENCODING(name, ...) Encoding::name,
#define FLOATS(name, ...) ENCODING(name)
#include <lockstep/encodings.def>
#undef ENCODING
};

// The values themselves: tests/kernels/encodings_test.cpp. Lines that begin and end anywhere in a block, one row and
// many.
TEST(Packed, EveryEncodingHasTheBitsOfItsElements) {
  for (const Encoding encoding : kEncodings) {
    const std::int64_t block = info_of(encoding).elements;
    for (const std::int64_t k : {block, 3 * block, 9 * block}) {
      for (const std::int64_t rows : {1, 3, 8, 70}) {
        const auto product = [&](bool packed, std::int64_t cut) {
          return same_everywhere([&](Device device) {
            const Tensor blocks = random_packed({35, k}, encoding, static_cast<std::uint64_t>(k), device, rows == 3);
            const Tensor weight = packed ? blocks : dequantize(blocks);
            const Tensor x = random_tensor({rows, k - cut}, DType::f32, 12, device);
            return linear(x, weight.narrow(1, cut / 2, k - cut));
          });
        };
        for (const std::int64_t cut : {0, 14}) {
          EXPECT_BITS_EQ(product(true, cut), product(false, cut)) << name_of(encoding) << " " << k << " " << rows;
        }
      }
    }
  }
}

// f32 numbers held in 16 bits, subnormals and what is no number among them: one row to many, along k and across it.
TEST(Packed, SixteenBitsHaveTheBitsOfTheirNumbers) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Encoding encoding = dtype == DType::f16 ? Encoding::f16 : Encoding::bf16;
    const auto numbers = [&](bool packed, const Shape& shape, Device device, bool special) {
      const Tensor held = random_tensor(shape, dtype, 31, device, special);
      const Tensor result = packed ? packed_as_f32(held) : held.to(DType::f32);
      EXPECT_EQ(result.dtype(), DType::f32);
      EXPECT_EQ(result.encoding(), packed ? encoding : Encoding::dense);
      return result;
    };
    const auto compare = [&](const std::function<Tensor(const Tensor& weight, Device device)>& compute,
                             const Shape& shape, bool special) {
      const auto by = [&](bool packed) {
        return same_everywhere([&](Device device) { return compute(numbers(packed, shape, device, special), device); });
      };
      EXPECT_BITS_EQ(by(true), by(false)) << name_of(dtype) << " " << shape.to_string();
    };
    for (const bool special : {false, true}) {
      for (const std::int64_t rows : {1, 2, 7, 70}) {
        const std::int64_t k = rows == 7 ? 37 : 520;
        compare(
            [&](const Tensor& w, Device device) {
              return linear(random_tensor({rows, k}, DType::f32, 5, device), w);
            },
            {35, k}, special);
        if (rows == 2 || rows == 7) continue;
        compare(
            [&](const Tensor& w, Device device) {
              const Tensor cut = w.narrow(1, 3, k - 5);  // begins anywhere
              return linear(random_tensor({rows, k - 5}, DType::f32, 5, device), cut, ones({18}, {.device = device}));
            },
            {18, k}, special);
      }
      compare(
          [&](const Tensor& w, Device device) {
            return matmul(random_tensor({3, 21}, DType::f32, 5, device), w);
          },
          {21, 40}, special);
      compare(
          [&](const Tensor& w, Device device) {
            return matmul(random_tensor({3, 2, 21}, DType::f32, 5, device), w.select(1, 1).transpose(1, 2));
          },
          {3, 2, 9, 21}, special);
      compare(
          [&](const Tensor& w, Device device) {
            return embedding(w, Tensor::from<std::int64_t>({3, 9, 0, 3}, {2, 2}, device)) * 0.5;
          },
          {10, 24}, special);
      compare([&](const Tensor& w, Device) { return dequantize(w.flip({0}).slice(1, {.step = 3})); }, {5, 11}, special);
    }
  }
}

// Activations of 16 bits multiply packed weights as they are: exactly, and in blocked numerics as f32 numbers would.
TEST(Packed, MultiplyFloatsOfSixteenBits) {
  for (const Encoding encoding :
       {Encoding::e4m3, Encoding::e4m3_squares, Encoding::e5m2, Encoding::mxfp4, Encoding::q4_k}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const std::int64_t rows : {1, 5, 40}) {
        const std::int64_t k = info_of(encoding).elements == 256 ? 512 : 384;
        const auto product = [&](Numerics numerics, bool packed) {
          return same_everywhere([&](Device device) {
            const Tensor w = random_packed({48, k}, encoding, 3, device);
            const Tensor x = random_tensor({rows, k}, dtype, 4, device);
            const NumericsScope scope(numerics);
            if (packed) return linear(x, w);
            const graph::InnerNumerics inner(dtype);
            return linear(x.to(DType::f32), dequantize(w)).to(dtype);
          });
        };
        const Tensor exact = product(Numerics::exact, true);
        for (const Numerics numerics : {Numerics::exact, Numerics::blocked}) {
          const Tensor got = numerics == Numerics::exact ? exact : product(numerics, true);
          EXPECT_EQ(got.dtype(), dtype);
          EXPECT_BITS_EQ(got, product(numerics, false)) << name_of(encoding) << " " << name_of(numerics) << " " << rows;
        }
        // In q8 numerics they are exact.
        EXPECT_BITS_EQ(product(Numerics::q8, true), exact);
      }
    }
  }
}

TEST(Packed, AutocastLeavesWeightsAsTheyAre) {
  const Tensor w = random_packed({32, 256}, Encoding::e4m3, 3);
  const Tensor x = random_tensor({4, 256}, DType::f32, 4, {});
  const Autocast scope(DType::bf16);
  EXPECT_BITS_EQ(linear(x, w), linear(x.to(DType::bf16), w));
}

TEST(Packed, ScalesAreWhatAnEncodingPromises) {
  std::vector<std::byte> blocks = random_blocks({256, 256}, Encoding::e4m3, 5, false);
  const auto made = [&](Encoding encoding) {
    return Tensor::from_blocks(blocks.data(), blocks.size(), {256, 256}, encoding);
  };
  expect_error<ValueError>([&] { made(Encoding::e4m3_rows); }, {"block 1 of row 0", "Encoding::e4m3"});
  expect_error<ValueError>([&] { made(Encoding::e4m3_squares); }, {"block 0 of row 1", "128 rows"});
  for (std::size_t row = 0; row < 256; ++row)
    std::memcpy(blocks.data() + (2 * row + 1) * 132, blocks.data() + 2 * row * 132, sizeof(float));
  EXPECT_EQ(made(Encoding::e4m3_rows).encoding(), Encoding::e4m3_rows);
  EXPECT_BITS_EQ(dequantize(made(Encoding::e4m3_rows)), dequantize(made(Encoding::e4m3)));
}

TEST(Packed, SixteenBitsStayWhereTheyLie) {
  const Tensor held = random_tensor({6, 40}, DType::bf16, 3, {});
  const Tensor packed = packed_as_f32(held.narrow(0, 2, 3));
  EXPECT_EQ(graph::read(packed).base->buffer->data(), node_of(held)->buffer->data());
  EXPECT_BITS_EQ(dequantize(packed), held.narrow(0, 2, 3).to(DType::f32));
  const Tensor whole = ones({2});
  EXPECT_EQ(node_of(packed_as_f32(whole)), node_of(whole));
  expect_error<DTypeError>([&] { packed + 1.0; }, {"packed as bf16", "f32 (bf16)", "dequantize("});
  // Elements that start at an odd byte, as files may have them.
  std::vector<std::byte> bytes(1 + 2 * 240);
  std::vector<BFloat16> values = held.to_vector<BFloat16>();
  std::memcpy(bytes.data() + 1, values.data(), 2 * values.size());
  const Tensor odd = Tensor::from_blob(bytes.data() + 1, {6, 40}, Encoding::bf16);
  const Tensor x = random_tensor({2, 40}, DType::f32, 4, {});
  EXPECT_BITS_EQ(linear(x, odd), linear(x, held.to(DType::f32)));
  for (const Device& device : test_devices()) {
    EXPECT_EQ(packed.to(device).encoding(), Encoding::bf16);
    EXPECT_EQ(node_of(packed.to(device))->bytes(), 240u);
    EXPECT_BITS_EQ(dequantize(packed.to(device)), dequantize(packed));
  }
}

TEST(Packed, EveryProductHasTheBitsOfTheUnpackedOperand) {
  using Product = Tensor (*)(const Tensor&, const Tensor&);
  struct Row {
    Shape x, weight;
    Product product;
  };
  const Row rows[] = {
      {{5, 9}, {9, 64}, [](const Tensor& x, const Tensor& w) { return matmul(x, w); }},
      {{9}, {9, 64}, [](const Tensor& x, const Tensor& w) { return matmul(x, w); }},
      {{5, 64}, {64}, [](const Tensor& x, const Tensor& w) { return matmul(x, w); }},
      {{64}, {64}, [](const Tensor& x, const Tensor& w) { return dot(x, w); }},
      {{2, 1, 5, 9}, {3, 9, 32}, [](const Tensor& x, const Tensor& w) { return matmul(x, w); }},
      {{3, 5, 32}, {3, 9, 32}, [](const Tensor& x, const Tensor& w) { return bmm(x, w.transpose(1, 2)); }},
      {{5, 300},
       {300, 32},
       [](const Tensor& x, const Tensor& w) { return matmul(x.slice(1, {.step = 2}), w.slice(0, {.step = 2})); }},
      {{5, 7},
       {9, 64},
       [](const Tensor& x, const Tensor& w) { return matmul(x, w.slice(0, {.start = 1, .stop = 8}).flip({0})); }},
      {{5, 25}, {9, 64}, [](const Tensor& x, const Tensor& w) { return linear(x, w.narrow(1, 30, 25)); }},
      {{5, 64}, {9, 64}, [](const Tensor& x, const Tensor& w) { return inner(x, w); }},
      {{4, 3, 5},
       {5, 3, 32},
       [](const Tensor& x, const Tensor& w) {
         return tensordot(x, w, {2, 1}, {0, 1});
       }},
      {{4, 9},
       {9, 64},
       [](const Tensor& x, const Tensor& w) {
         return einsum("mk,kn->nm", {x, w});
       }},
      {{4, 9},
       {9, 64},
       [](const Tensor& x, const Tensor& w) { return addmm(ones({64}, {.device = x.device()}), x, w); }},
  };
  for (const Row& row : rows) {
    const auto product = [&](bool packed, bool special) {
      return same_everywhere([&](Device device) {
        const Weights w = weights(row.weight, 11, device, special);
        const Tensor x = random_tensor(row.x, DType::f32, 12, device, special);
        return row.product(x, packed ? w.packed : w.dense);
      });
    };
    for (const bool special : {false, true}) EXPECT_BITS_EQ(product(true, special), product(false, special));
  }
}

TEST(Packed, TablesHaveTheBitsOfUnpackedOnes) {
  using Lookup = Tensor (*)(const Tensor& table, const Tensor& index);
  const Lookup lookups[] = {
      [](const Tensor& table, const Tensor& index) { return embedding(table, index); },
      [](const Tensor& table, const Tensor& index) { return embedding(table, index) * 2.0 + 1.0; },
      [](const Tensor& table, const Tensor& index) { return index_select(table, 0, index.reshape({-1})); },
      [](const Tensor& table, const Tensor& index) { return index_select(table, 1, index.reshape({-1})); },
      [](const Tensor& table, const Tensor& index) { return lockstep::gather(table, 0, index); },
      [](const Tensor& table, const Tensor& index) { return lockstep::gather(table.flip({1}), 1, index); },
      [](const Tensor& table, const Tensor& index) { return take(table, index); },
      [](const Tensor& table, const Tensor& index) { return linear(embedding(table, index), table); },
  };
  for (const Lookup lookup : lookups) {
    const auto found = [&](bool packed) {
      return same_everywhere([&](Device device) {
        const Weights w = weights({10, 64}, 21, device, true);
        const Tensor index = Tensor::from<std::int64_t>({3, 9, 0, 3, 1, 7}, {2, 3}, device);
        return lookup(packed ? w.packed : w.dense, index);
      });
    };
    EXPECT_BITS_EQ(found(true), found(false));
  }
  for (const Device& device : test_devices()) {
    const Tensor bad =
        embedding(random_packed({4, 32}, kPacked, 1, device), Tensor::from<std::int64_t>({4}, {1}, device));
    expect_error<IndexError>(
        [&] {
          bad.eval();
          bad.to_vector<float>();
        },
        {"embedding", "4"});
  }
}

TEST(Packed, OtherOperandsAreRefusedByNameOfDequantize) {
  for (const Device& device : test_devices()) {
    const Tensor packed = random_packed({32, 32}, kPacked, 3, device);
    const Tensor x = ones({32, 32}, {.device = device});
    const Tensor index = zeros({32, 32}, {.dtype = DType::i64, .device = device});
    const std::vector<std::pair<std::string, std::function<void()>>> calls = {
        {"add", [&] { packed + x; }},
        {"exp", [&] { exp(packed); }},
        {"where", [&] { where(x > 0.0, x, packed); }},
        {"to", [&] { packed.to(DType::f16); }},
        {"sum", [&] { sum(packed); }},
        {"argmax", [&] { argmax(packed, 0); }},
        {"softmax", [&] { softmax(packed, -1); }},
        {"matmul", [&] { matmul(packed, x); }},
        {"matmul", [&] { matmul(packed, packed); }},
        {"linear", [&] { linear(packed, packed); }},
        {"linear", [&] { linear(x, packed, packed.select(0, 0)); }},
        {"scatter_add", [&] { scatter_add(packed, 0, index, x); }},
        {"scatter_add", [&] { scatter_add(x, 0, index, packed); }},
        {"cumsum", [&] { cumsum(packed, 0); }},
        {"sort", [&] { sort(packed, 0); }},
        {"stack",
         [&] {
           stack({packed, packed});
         }},
        {"masked_fill", [&] { masked_fill(packed, x > 0.0, 1.0); }},
        {"requires_grad", [&] { requires_grad(packed); }},
    };
    for (const auto& [op, call] : calls) {
      std::vector<std::string> parts = kRefusal;
      parts.push_back(op + ": ");
      parts.emplace_back("encoding_test.cpp");
      expect_error<DTypeError>(call, parts);
    }
  }
  const Tensor packed = random_packed({32, 32}, kPacked, 3);
  expect_error<DTypeError>([&] { linear(ones({2, 32}, {.dtype = DType::f64}), packed); }, {"different dtypes", "q8_0"});
}

TEST(Packed, ElementsAreReadUnpackedOnly) {
  const TemporaryFolder folder;
  const Tensor packed = random_packed({2, 32}, kPacked, 3).named("w");
  float element = 0;
  expect_error<DTypeError>([&] { packed.to_vector<float>(); }, kRefusal);
  expect_error<DTypeError>([&] { packed.read_bytes(&element); }, kRefusal);
  expect_error<DTypeError>([&] { packed.select(0, 0).select(0, 0).item<float>(); }, kRefusal);
  expect_error<DTypeError>([&] { packed.hash(); }, kRefusal);
  expect_error<DTypeError>([&] { packed.bitcast(DType::u8); }, kRefusal);
  expect_error<DTypeError>([&] { to_dlpack(packed); }, kRefusal);
  expect_error<DTypeError>([&] { io::save_safetensors(folder.path("w.safetensors"), {{"w", packed}}); }, kRefusal);
  expect_error<DTypeError>([&] { io::save_npy(folder.path("w.npy"), packed); }, kRefusal);
  expect_error<DTypeError>([&] { io::save_npz(folder.path("w.npz"), {{"w", packed}}); }, kRefusal);
  expect_error<DTypeError>([&] { io::save_pytorch(folder.path("w.pt"), {{"w", packed}}); }, kRefusal);
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(dequantize(packed).hash(), weights({2, 32}, 3, {}).dense.hash());
}

// What is unpacked for it is no whole blocks.
TEST(Packed, WeightsAreToldApartByTheirBlocks) {
  const std::vector<std::byte> blocks = random_blocks({4, 64}, kPacked, 3, false);
  for (const Device& device : test_devices()) {
    const Tensor packed = random_packed({4, 64}, kPacked, 3, device);
    EXPECT_EQ(stored_hash(packed), hash_bytes(blocks)) << device.to_string();
    EXPECT_EQ(stored_hash(packed.narrow(0, 1, 2)), hash_bytes(std::span(blocks).subspan(68, 136)));
    const Tensor columns = packed.narrow(1, 0, 32);
    EXPECT_EQ(stored_hash(columns), dequantize(columns).hash());
    const Tensor dense = dequantize(packed);
    EXPECT_EQ(stored_hash(dense), dense.hash());
  }
}

TEST(Packed, PrintsItsValuesAndItsEncoding) {
  for (const Shape& shape : {Shape{32}, Shape{2, 32}, Shape{64, 64}, Shape{2, 512, 32}}) {
    const Weights w = weights(shape, 3, {});
    const std::string dense = w.dense.to_string();
    const std::string text = w.packed.to_string();
    EXPECT_EQ(text.substr(0, dense.size() - 1), dense.substr(0, dense.size() - 1));
    EXPECT_NE(text.find("encoding=q8_0)"), std::string::npos) << text;
  }
  EXPECT_EQ(random_packed({0, 32}, kPacked, 1).to_string(), "tensor([], size=(0, 32), encoding=q8_0)");
}

TEST(Packed, MovesToOtherDevicesAsBlocks) {
  for (const Device& from : test_devices()) {
    for (const Device& to : test_devices()) {
      const Tensor packed = random_packed({6, 64}, kPacked, 5, from, true).named("table");
      const Tensor dense = weights({6, 64}, 5, to, true).dense;
      const Tensor moved = packed.to(to);
      EXPECT_EQ(moved.encoding(), kPacked);
      EXPECT_EQ(moved.device(), to);
      EXPECT_EQ(moved.name(), "table");
      EXPECT_BITS_EQ(dequantize(moved), dense);
      EXPECT_BITS_EQ(dequantize(packed.transpose(0, 1).to(to)), dense.transpose(0, 1));
      EXPECT_BITS_EQ(dequantize(packed.narrow(1, 3, 40).to(to)), dense.narrow(1, 3, 40));
      const Tensor rows = packed.narrow(0, 2, 3).to(to);
      EXPECT_BITS_EQ(dequantize(rows), dense.narrow(0, 2, 3));
      if (from == to) continue;
      EXPECT_EQ(reading_of(node_of(rows)).base->buffer->bytes(), 3u * 2 * 34);  // no blocks but its own
    }
  }
}

// Tensors of a mapped file begin at any byte; blocks are read there.
TEST(Packed, BorrowedBlocksNeedNoAlignment) {
  const std::vector<std::byte> blocks = random_blocks({3, 32}, kPacked, 9);
  for (const Device& device : {Device{DeviceKind::ref, 0}, Device{DeviceKind::cpu, 0}}) {
    std::vector<std::byte> memory(blocks.size() + 1);
    std::memcpy(memory.data() + 1, blocks.data(), blocks.size());
    int deleted = 0;
    {
      const Tensor packed = Tensor::from_blob(
          memory.data() + 1, {3, 32}, kPacked, [&] { ++deleted; }, device);
      EXPECT_BITS_EQ(dequantize(packed), Tensor::from(values_of(blocks), {3, 32}));
      const Tensor x = random_tensor({2, 32}, DType::f32, 1, device);
      EXPECT_BITS_EQ(linear(x, packed), linear(x, dequantize(packed)));
      EXPECT_EQ(node_of(packed)->aligned, nullptr);
      EXPECT_EQ(deleted, 0);
    }
    EXPECT_EQ(deleted, 1);
  }
  expect_error<ShapeError>([&] { Tensor::from_blob(blocks.data(), {3, 31}, kPacked); }, {"multiple of 32"});
  expect_error<DeviceError>(
      [&] {
        Tensor::from_blob(blocks.data(), {3, 32}, kPacked, {}, {DeviceKind::cuda, 0});
      },
      {"host's memory"});
}

TEST(Packed, TheOtherOperandHasItsGradient) {
  using Loss = Tensor (*)(const Tensor& x, const Tensor& w);
  const Loss losses[] = {
      [](const Tensor& x, const Tensor& w) { return sum(square(linear(x, w))); },
      [](const Tensor& x, const Tensor& w) { return sum(square(linear(x.select(0, 0), w))); },
      [](const Tensor& x, const Tensor& w) { return sum(square(matmul(x, w.transpose(0, 1)))); },
      [](const Tensor& x, const Tensor& w) {
        return sum(square(matmul(x, w.narrow(1, 0, 32).transpose(0, 1).unsqueeze(0))));
      },
      [](const Tensor& x, const Tensor& w) { return sum(square(tensordot(x, w, {2}, {1}))); },
  };
  for (const Loss loss : losses) {
    const auto gradient = [&](bool packed, bool again) {
      return same_everywhere([&](Device device) {
        const Weights w = weights({9, 32}, 31, device);
        const Tensor x = requires_grad(random_tensor({2, 5, 32}, DType::f32, 32, device));
        const Tensor value = loss(x, packed ? w.packed : w.dense);
        const Tensor first = gradients(value, {x}, {.create_graph = again})[0];
        return again ? gradients(sum(square(first)), {x})[0] : first;
      });
    };
    EXPECT_BITS_EQ(gradient(true, false), gradient(false, false));
    EXPECT_BITS_EQ(gradient(true, true), gradient(false, true));
  }
}

TEST(Packed, HasNoGradientItself) {
  const Tensor packed = random_packed({4, 32}, kPacked, 1);
  expect_error<DTypeError>([&] { requires_grad(packed); }, {"packed as q8_0 has no gradient", "dequantize("});
  EXPECT_FALSE(is_tracked(embedding(packed, zeros({2}, {.dtype = DType::i64}))));
  // Recomputation asks for the gradients of those inputs that have one.
  const Tensor x = requires_grad(random_tensor({3, 32}, DType::f32, 2));
  const auto layer = [](const std::vector<Tensor>& inputs) { return sum(square(linear(inputs[0], inputs[1]))); };
  EXPECT_BITS_EQ(gradients(checkpoint(layer, {x, packed}), {x})[0], gradients(layer({x, packed}), {x})[0]);
}

TEST(Packed, LayersTakePackedWeightsThatAreFrozen) {
  nn::Module model;
  nn::Linear layer(model, "layer", 64, 10);
  const Weights w = weights({10, 64}, 3, {});
  expect_error<DTypeError>([&] { layer.weight.set(w.packed); }, {"q8_0", "has no gradient"});
  layer.weight.requires_grad(false);
  layer.weight.set(w.packed);
  const Tensor x = random_tensor({2, 64}, DType::f32, 4);
  EXPECT_BITS_EQ(layer(x), linear(x, w.dense, layer.bias.tensor()));
  expect_error<DTypeError>([&] { layer.weight.requires_grad(true); }, {"has no gradient"});
}

TEST(Packed, PlansAreNotThoseOfDenseWeights) {
  for (const Device& device : test_devices()) {
    const Weights w = weights({16, 32}, 3, device);
    const Weights other = weights({16, 32}, 4, device);
    const Tensor x = random_tensor({2, 32}, DType::f32, 4, device);
    // What these need and have not computed yet is computed before plans are counted.
    for (const Tensor& t : {w.dense, other.dense, x}) t.eval();
    const Tensor first = linear(x, w.dense).eval();
    const graph::WindowStatistics before = graph::window_statistics(device);
    EXPECT_BITS_EQ(linear(x, w.packed).eval(), first);
    const graph::WindowStatistics packed = graph::window_statistics(device);
    linear(x, other.packed).eval();
    const graph::WindowStatistics again = graph::window_statistics(device);
    EXPECT_EQ(packed.plans_made, before.plans_made + 1);
    EXPECT_EQ(again.plans_made, packed.plans_made);
    // 34 bytes instead of 128 for each block.
    EXPECT_EQ(again.bytes - packed.bytes, (2 * 32 + 2 * 16) * 4u + 16 * 34u);
  }
}

TEST(Packed, ProductsAreOneKernelThatSaysWhatItReads) {
  const Tensor packed = random_packed({16, 32}, kPacked, 3);
  const Tensor x = random_tensor({2, 32}, DType::f32, 4).eval();
  EXPECT_EQ(plan({relu(linear(x, packed))}), std::vector<std::string>{"contract[b1 m2 n16 k32 f32 q8_0] + relu"});
  const Tensor index = Tensor::from<std::int64_t>({3, 1}, {2});
  EXPECT_EQ(plan({relu(embedding(packed, index))}).size(), 1u);
  EXPECT_EQ(plan({dequantize(packed)}).size(), 1u);
}

TEST(Packed, CheckFiniteLooksIntoBlocks) {
  const Tensor x = ones({2, 32}).eval();
  const Tensor huge = Tensor::from<float>(std::vector<float>(64, 3e38f), {2, 32});
  std::vector<std::byte> blocks = random_blocks({4, 32}, kPacked, 3);
  const Tensor packed = Tensor::from_blocks(blocks.data(), blocks.size(), {4, 32}, kPacked);
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(blocks.data(), &infinity, 2);
  const Tensor infinite = Tensor::from_blocks(blocks.data(), blocks.size(), {4, 32}, kPacked);
  const CheckFinite scope;
  linear(x, packed);
  embedding(infinite, zeros({1}, {.dtype = DType::i64}));  // its table is no better
  expect_error<ValueError>([&] { linear(huge, packed); }, {"linear: ", "operands hold none", "f32 (q8_0)"});
}

}  // namespace
}  // namespace lockstep::test
