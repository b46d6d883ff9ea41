// What is made on the host: roots, a transform of powers of two for filters, and the tables that are kept.
#include "fft/tables.h"

#include <list>
#include <mutex>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

constexpr std::size_t kMostBytes = std::size_t{128} << 20;

// Never destroyed: tensors of a program's statics may outlive it otherwise.
struct KeptTables {
  std::mutex mutex;
  std::list<std::pair<TableKey, Tensor>> tables;  ///< the latest first
  std::size_t bytes = 0;

  static KeptTables& all() {
    static KeptTables& kept = *new KeptTables;
    return kept;
  }
};

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
}

Tensor made(const TableKey& key, const Shape& shape, const std::vector<double>& values) {
  if (key.dtype == DType::boolean) {
    return Tensor::from(std::vector<bool>(values.begin(), values.end()), shape, key.device);
  }
  if (key.dtype == DType::f64) return Tensor::from(values, shape, key.device);
  const std::vector<float> rounded(values.begin(), values.end());
  return Tensor::from(rounded, shape, key.device);
}

}  // namespace

Root root_of_unity(std::int64_t k, std::int64_t n) {
  // To an eighth of a turn: 8 k = octant * n + rest; from the nearer end of the octant.
  std::int64_t octant = 0;
  std::int64_t rest = 8 * k;
  octant = rest / n;
  rest -= octant * n;
  const bool backwards = octant % 2 == 1;
  if (backwards) rest = n - rest;
  constexpr double kEighth = 0.78539816339744830962;  // pi / 4
  const double angle = kEighth * (static_cast<double>(rest) / static_cast<double>(n));
  double x = scalar::ls_cos(angle);
  double y = scalar::ls_sin(angle);
  // backwards: the octant's end minus the angle. Octants 1, 2 mirror at the diagonal, and so on.
  const std::int64_t quarter = octant / 2;
  if (backwards) std::swap(x, y);
  for (std::int64_t q = 0; q < quarter; ++q) {
    const double before = x;
    x = -y;
    y = before;
  }
  return {x, y};
}

void host_transform(std::vector<double>& real, std::vector<double>& imaginary, int sign) {
  const std::size_t n = real.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      std::swap(real[i], real[j]);
      std::swap(imaginary[i], imaginary[j]);
    }
  }
  std::vector<Root> roots;
  for (std::size_t k = 0; k < n / 2; ++k) {
    roots.push_back(root_of_unity(static_cast<std::int64_t>(k), static_cast<std::int64_t>(n)));
  }
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t stride = n / (2 * half);
    for (std::size_t first = 0; first < n; first += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const double c = roots[k * stride].cosine;
        const double s = sign * roots[k * stride].sine;
        double& low_real = real[first + k];
        double& low_imaginary = imaginary[first + k];
        double& high_real = real[first + k + half];
        double& high_imaginary = imaginary[first + k + half];
        const double x = c * high_real - s * high_imaginary;
        const double y = c * high_imaginary + s * high_real;
        high_real = low_real - x;
        high_imaginary = low_imaginary - y;
        low_real += x;
        low_imaginary += y;
      }
    }
  }
}

Tensor table(const TableKey& key, const Shape& shape, const std::function<std::vector<double>()>& make) {
  KeptTables& kept = KeptTables::all();
  {
    const std::scoped_lock lock(kept.mutex);
    for (auto entry = kept.tables.begin(); entry != kept.tables.end(); ++entry) {
      if (entry->first != key) continue;
      kept.tables.splice(kept.tables.begin(), kept.tables, entry);
      return entry->second;
    }
  }
  Tensor result = made(key, shape, make());
  std::list<std::pair<TableKey, Tensor>> dropped;  // destroyed after the lock
  const std::scoped_lock lock(kept.mutex);
  kept.tables.emplace_front(key, result);
  kept.bytes += bytes_of(result);
  while (kept.bytes > kMostBytes) {
    kept.bytes -= bytes_of(kept.tables.back().second);
    dropped.splice(dropped.begin(), kept.tables, std::prev(kept.tables.end()));
  }
  return result;
}

std::vector<double> rotation(std::int64_t count, const std::function<Root(std::int64_t)>& root, int sign) {
  const auto size = static_cast<std::size_t>(count);
  std::vector<double> values(3 * size);
  for (std::size_t i = 0; i < size; ++i) {
    const Root r = root(static_cast<std::int64_t>(i));
    values[i] = -sign * r.sine;
    values[size + i] = sign * r.sine;
    values[2 * size + i] = r.cosine;
  }
  return values;
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
