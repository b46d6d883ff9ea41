#include "support/tensors.h"

#include "backends/backend.h"
#include "support/bytes.h"
#include "support/long_forms.h"
#include "support/random_numbers.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>

namespace lockstep {
inline namespace v0 {
namespace {

bool is_nan(DType dtype, const std::byte* element) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, element, 4);
    return std::isnan(value);
  }
  if (dtype == DType::f64) {
    double value;
    std::memcpy(&value, element, 8);
    return std::isnan(value);
  }
  std::uint16_t bits;
  std::memcpy(&bits, element, 2);
  if (dtype == DType::f16) return (bits & 0x7fffu) > 0x7c00u;
  if (dtype == DType::bf16) return (bits & 0x7fffu) > 0x7f80u;
  return false;
}

}  // namespace

::testing::AssertionResult bits_equal(const char* a_text, const char* b_text, const Tensor& a, const Tensor& b) {
  const auto differ = [&] { return ::testing::AssertionFailure() << a_text << " and " << b_text << " differ: "; };
  if (a.dtype() != b.dtype()) return differ() << name_of(a.dtype()) << " and " << name_of(b.dtype());
  if (a.shape() != b.shape()) return differ() << a.shape().to_string() << " and " << b.shape().to_string();
  const std::size_t size = size_of(a.dtype());
  const auto count = static_cast<std::size_t>(a.numel());
  std::vector<std::byte> x(count * size);
  std::vector<std::byte> y(count * size);
  a.read_bytes(x.data());
  b.read_bytes(y.data());
  if (testing::same_bytes(x, y)) return ::testing::AssertionSuccess();
  std::size_t different = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* p = x.data() + i * size;
    const std::byte* q = y.data() + i * size;
    if (std::memcmp(p, q, size) == 0 || (is_nan(a.dtype(), p) && is_nan(a.dtype(), q))) continue;
    if (different++ == 0) first = i;
  }
  if (different == 0) return ::testing::AssertionSuccess();
  const auto at = [&](const Tensor& tensor) {
    return tensor.reshape({tensor.numel()}).narrow(0, static_cast<std::int64_t>(first), 1).to_string();
  };
  return differ() << different << " of " << count << " elements of " << a.shape().to_string() << ", first at " << first
                  << ": " << at(a) << " and " << at(b);
}

Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed, Device device, bool special) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  if (!is_float(dtype)) {
    const double span = dtype == DType::boolean ? 2 : 200;
    const double low = dtype == DType::boolean || dtype == DType::u8 || dtype == DType::u32 ? 0 : -100;
    for (double& value : values) value = low + std::floor(testing::uniform_number(random, 0, span));
    return Tensor::from(values, shape).to(dtype).to(device);
  }
  const double kinds[] = {std::numeric_limits<double>::quiet_NaN(), INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40,
                          0x1p-126, -0x1p-126, 0x1p-149, 3e38, -3e38, 0x1p-14, 0x1p-24, 65504.0, 1.0};
  for (double& value : values) {
    value = testing::normal_number(random);
    if (special && random() % 4 == 0) value = kinds[random() % std::size(kinds)];
  }
  if (dtype != DType::f32) return Tensor::from(values, shape).to(dtype).to(device);
  // Not through the cast: it would turn subnormals into zeros, and tensors may hold them.
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape, device);
}

std::vector<std::byte> random_blocks(const Shape& shape, Encoding encoding, std::uint64_t seed, bool special) {
  std::mt19937_64 random(seed);
  const EncodingInfo& info = info_of(encoding);
  std::vector<std::byte> bytes(encoded_bytes(encoding, info.dtype, shape.numel()));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t block = 0; block < bytes.size(); block += info.bytes) {
    const auto put_scale = [&](std::size_t at) {
      constexpr std::uint16_t kSpecial[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400,
                                            0x7bff, 0x7c00, 0xfc00, 0x7e00, 0xfd55};
      std::uint16_t scale = to_f16(static_cast<float>(0.02 * testing::normal_number(random))).bits;
      if (special && random() % 4 == 0) scale = kSpecial[random() % std::size(kSpecial)];
      std::memcpy(bytes.data() + block + at, &scale, sizeof scale);
    };
    for (std::size_t i = 0; i < info.halves; ++i) put_scale(info.first_half + 2 * i);
    if (is_floats(encoding)) {
      constexpr float kSpecial[] = {0.0F, -0.0F, 0x1p-126F, 0x1p-140F, 0x1p-105F, 0x1p110F, INFINITY, -INFINITY, NAN};
      float scale = static_cast<float>(0.02 * testing::normal_number(random));
      if (special && random() % 4 == 0) scale = kSpecial[random() % std::size(kSpecial)];
      // What the encoding promises of scales.
      const auto number = static_cast<std::int64_t>(block / info.bytes);
      const std::int64_t across = shape.back() / info.elements;
      const std::int64_t row = number / across;
      const std::int64_t rows = shape.rank() < 2 ? 1 : shape[shape.rank() - 2];
      const std::int64_t like = encoding == Encoding::e4m3_rows      ? row * across
                                : encoding == Encoding::e4m3_squares ? number - row % rows % info.elements * across
                                                                     : number;
      if (like < number) std::memcpy(&scale, bytes.data() + static_cast<std::size_t>(like) * info.bytes, sizeof scale);
      std::memcpy(bytes.data() + block, &scale, sizeof scale);
      // Few codes are no numbers; without `special` none.
      for (std::size_t i = sizeof scale; !special && i < info.bytes; ++i) {
        std::byte& code = bytes[block + i];
        if ((code & std::byte{0x7c}) == std::byte{0x7c}) code &= std::byte{0xbf};
      }
    }
  }
  return bytes;
}

Tensor random_packed(const Shape& shape, Encoding encoding, std::uint64_t seed, Device device, bool special) {
  const std::vector<std::byte> blocks = random_blocks(shape, encoding, seed, special);
  return Tensor::from_blocks(blocks.data(), blocks.size(), shape, encoding, device);
}

std::vector<Device> test_devices() {
  std::vector<Device> devices = {{DeviceKind::ref, 0}, {DeviceKind::cpu, 0}};
  const char* const named = std::getenv("LOCKSTEP_TEST_DEVICES");
  std::istringstream list(named == nullptr ? "" : named);
  for (std::string name; std::getline(list, name, ',');) devices.push_back(Device::parse(name));
  return devices;
}

Tensor same_everywhere(const std::function<Tensor(Device)>& compute) {
  const std::vector<graph::WindowLimits> both = {kEveryNode, kUnbounded};
  Tensor first;
  for (const Device& device : test_devices()) {
    // The reference takes most of the time. The CPU's two values are compared with it whichever it is.
    const bool is_once = device.kind == DeviceKind::ref && !long_forms();
    for (const graph::WindowLimits& limits : is_once ? std::vector{both[drawn_index(2)]} : both) {
      const WithWindow window(limits);
      Tensor value;
      try {
        value = compute(device).eval();
      } catch (const DTypeError&) {
        if (backend_of(device).holds(DType::f64)) throw;
        continue;  // the device says so, and computes nothing
      }
      if (!first.defined()) {
        first = value;
      } else {
        SCOPED_TRACE(device.to_string() + (limits.nodes == 1 ? ", node by node" : ", one window"));
        EXPECT_BITS_EQ(first, value);
      }
    }
  }
  return first;
}

}  // namespace v0
}  // namespace lockstep
