// What is made on the host: roots, a transform of powers of two for filters, and the tables that are kept.
#include "fft/tables.h"

#include <list>
#include <mutex>
#include <optional>
#include <utility>

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

std::optional<Tensor> kept_table(const TableKey& key) {
  KeptTables& kept = KeptTables::all();
  const std::scoped_lock lock(kept.mutex);
  for (auto entry = kept.tables.begin(); entry != kept.tables.end(); ++entry) {
    if (entry->first != key) continue;
    kept.tables.splice(kept.tables.begin(), kept.tables, entry);
    return entry->second;
  }
  return std::nullopt;
}

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
}

Tensor made(const TableKey& key, const Shape& shape, const std::vector<double>& values) {
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

namespace {

// The transform in place of 2^m complex numbers.
void host_transform(std::vector<double>& real, std::vector<double>& imaginary) {
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
        const double s = -roots[k * stride].sine;
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

// Writes the blocks of a plan's table.
class RootsMaker {
 public:
  explicit RootsMaker(const FourierPlan& plan) : plan_(plan), values_(static_cast<std::size_t>(plan.table)) {}

  std::vector<double> run() {
    for (const FourierStage& stage : plan_.stages) {
      const std::int64_t rest = stage.rest;
      const std::int64_t left = stage.radix * rest;
      if (stage.twiddles >= 0) {
        fill(stage.twiddles, (stage.radix - 1) * rest,
             [&](std::int64_t i) { return root_of_unity(i % rest * (i / rest + 1), left); });
      }
      if (stage.roots >= 0)
        fill(stage.roots, stage.radix, [&](std::int64_t j) { return root_of_unity(j, stage.radix); });
    }
    if (plan_.paired) {
      fill(plan_.turns, plan_.points + 1, [&](std::int64_t k) { return root_of_unity(k, plan_.n); });
    }
    if (plan_.chirped) add_chirp();
    return std::move(values_);
  }

 private:
  template <typename Get> void fill(std::int64_t block, std::int64_t count, Get get) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Root root = get(i);
      values_[static_cast<std::size_t>(block + i)] = root.cosine;
      values_[static_cast<std::size_t>(block + count + i)] = -root.sine;
    }
  }
  // Bluestein (1970): j k = (j^2 + k^2 - (k - j)^2) / 2 makes a transform of any length a convolution with a chirp,
  // which transforms of a power of two do.
  void add_chirp() {
    const std::int64_t n = plan_.points;
    const auto chirp = [n](std::int64_t j) {  // e^(pi i j^2 / n)
      const auto square = static_cast<unsigned __int128>(j) * static_cast<unsigned __int128>(j);
      return root_of_unity(static_cast<std::int64_t>(square % static_cast<unsigned __int128>(2 * n)), 2 * n);
    };
    fill(plan_.chirp, n, chirp);
    std::vector<double> real(static_cast<std::size_t>(plan_.size));
    std::vector<double> imaginary(real.size());
    for (std::int64_t j = 0; j < n; ++j) {
      const Root root = chirp(j);
      for (const std::int64_t place : {j, (plan_.size - j) % plan_.size}) {
        real[static_cast<std::size_t>(place)] = root.cosine;
        imaginary[static_cast<std::size_t>(place)] = root.sine;
      }
    }
    host_transform(real, imaginary);
    const auto scale = 1 / static_cast<double>(plan_.size);  // of the inverse transform, exact
    for (std::size_t k = 0; k < real.size(); ++k) {
      const auto at = static_cast<std::size_t>(plan_.filter) + k;
      values_[at] = real[k] * scale;
      values_[at + real.size()] = imaginary[k] * scale;
    }
  }

  const FourierPlan& plan_;
  std::vector<double> values_;
};

}  // namespace

Tensor table(const TableKey& key, const Shape& shape, const std::function<std::vector<double>()>& make) {
  if (std::optional<Tensor> found = kept_table(key)) return *found;
  KeptTables& kept = KeptTables::all();
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

Tensor roots_of(FourierKind kind, std::int64_t n, DType dtype, Device device) {
  const TableKey key{is_real(kind) ? TableKind::real_roots : TableKind::roots, n, dtype, device};
  if (std::optional<Tensor> kept = kept_table(key)) return *kept;
  const FourierPlan plan(kind, n);
  return table(key, {plan.table}, [&] { return RootsMaker(plan).run(); });
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
