// Tensors from nothing: constants, ranges, triangles, grids. Tensor::from and Tensor::from_blob take given values.
#pragma once

#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include <lockstep/ops/shape.h>
#include <lockstep/random.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// --- constants ------------------------------------------------------------------------------------------------------
/// `value` in the dtype of `options`; DTypeError if an integer type cannot hold it.
LOCKSTEP_API Tensor full(const Shape& shape, double value, TensorOptions options = {}, CallSite site = {});
/// Zeros, false.
LOCKSTEP_API Tensor zeros(const Shape& shape, TensorOptions options = {}, CallSite site = {});
/// Ones, true.
LOCKSTEP_API Tensor ones(const Shape& shape, TensorOptions options = {}, CallSite site = {});
/// Filled with zeros: uninitialised memory would differ between runs.
LOCKSTEP_API Tensor empty(const Shape& shape, TensorOptions options = {}, CallSite site = {});

// The same in the shape and on the device of a tensor, and of its dtype unless another is given.
LOCKSTEP_API Tensor full_like(const Tensor& like, double value, CallSite site = {});
LOCKSTEP_API Tensor full_like(const Tensor& like, double value, DType dtype, CallSite site = {});
LOCKSTEP_API Tensor zeros_like(const Tensor& like, CallSite site = {});
LOCKSTEP_API Tensor zeros_like(const Tensor& like, DType dtype, CallSite site = {});
LOCKSTEP_API Tensor ones_like(const Tensor& like, CallSite site = {});
LOCKSTEP_API Tensor ones_like(const Tensor& like, DType dtype, CallSite site = {});
LOCKSTEP_API Tensor empty_like(const Tensor& like, CallSite site = {});
LOCKSTEP_API Tensor empty_like(const Tensor& like, DType dtype, CallSite site = {});

// With one option: zeros({2}, DType::i64), ones(3, device).
template <OneOption Option> Tensor full(const Shape& shape, double value, Option option, CallSite site = {}) {
  return full(shape, value, tensor_options(option), site);
}
template <OneOption Option> Tensor zeros(const Shape& shape, Option option, CallSite site = {}) {
  return zeros(shape, tensor_options(option), site);
}
template <OneOption Option> Tensor ones(const Shape& shape, Option option, CallSite site = {}) {
  return ones(shape, tensor_options(option), site);
}
template <OneOption Option> Tensor empty(const Shape& shape, Option option, CallSite site = {}) {
  return empty(shape, tensor_options(option), site);
}

// Sizes without braces: zeros(2, 3).
template <Integer... Rest> Tensor zeros(detail::SizeHere a, detail::SizeHere b, Rest... rest) {
  return zeros(detail::list_of<Shape>(a, b, rest...), {}, a.site);
}
template <Integer... Rest> Tensor ones(detail::SizeHere a, detail::SizeHere b, Rest... rest) {
  return ones(detail::list_of<Shape>(a, b, rest...), {}, a.site);
}

/// The numbers of a list, or of rows of one length (ShapeError): tensor({{1, 2}, {3, 4}}). f32 of what is written with
/// a point, i64 of integers, bool of bool, on the default device. Tensor::from keeps the C++ type.  PyTorch: tensor.
template <typename Number>
  requires(std::is_arithmetic_v<Number>)
Tensor tensor(std::initializer_list<Number> numbers, CallSite site = {}) {
  using Kept = std::conditional_t<std::is_floating_point_v<Number>, float,
                                  std::conditional_t<std::is_same_v<Number, bool>, bool, std::int64_t>>;
  std::vector<Kept> kept;
  for (const Number number : numbers) kept.push_back(static_cast<Kept>(number));
  return Tensor::from(kept, static_cast<std::int64_t>(kept.size()), default_device(), site);
}
template <typename Number>
  requires(std::is_arithmetic_v<Number>)
Tensor tensor(std::initializer_list<std::initializer_list<Number>> rows, CallSite site = {}) {
  std::vector<Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(tensor(row, site));
  return stack(tensors, 0, site);
}

// --- ranges ---------------------------------------------------------------------------------------------------------
/// start, start + step, ... below stop (above, for a negative step). Element i is start + i * step, for floats made in
/// f64 and rounded once. ValueError for a step of 0 or ends that are not finite.
LOCKSTEP_API Tensor arange(double start, double stop, double step = 1, TensorOptions options = {.dtype = DType::i64},
                           CallSite site = {});
/// 0, 1, ... below stop.
LOCKSTEP_API Tensor arange(double stop, TensorOptions options = {.dtype = DType::i64}, CallSite site = {});
/// `steps` values from start to end, both included, evenly spaced; made from both ends in f64 and rounded once
/// (integers: towards 0). ValueError for negative steps or ends that are not finite.
LOCKSTEP_API Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options = {},
                             CallSite site = {});
/// base to the powers linspace(start, end, steps).
LOCKSTEP_API Tensor logspace(double start, double end, std::int64_t steps, double base = 10, TensorOptions options = {},
                             CallSite site = {});

// --- matrices -------------------------------------------------------------------------------------------------------
/// Ones on the diagonal, zeros elsewhere; square unless `columns` is given.
LOCKSTEP_API Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt,
                        TensorOptions options = {}, CallSite site = {});
/// The last two dimensions' elements on and below (tril) or above (triu) the diagonal that is `diagonal` above the main
/// one; zeros elsewhere. Any dtype; keeps bits. ShapeError below two dimensions.
LOCKSTEP_API Tensor tril(const Operand& a, std::int64_t diagonal = 0);
LOCKSTEP_API Tensor triu(const Operand& a, std::int64_t diagonal = 0);
/// Row and column numbers of the elements that tril or triu of [rows, columns] keep: i64 [2, n].
LOCKSTEP_API Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t diagonal = 0, Device device = {},
                                 CallSite site = {});
LOCKSTEP_API Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t diagonal = 0, Device device = {},
                                 CallSite site = {});

/// Which way a grid is counted: by matrix indices, or by Cartesian ones.
enum class GridIndexing { ij, xy };
/// Tensors with at most one dimension, expanded (without copies) over each other's sizes: result k varies along
/// dimension k (ij), or with the first two dimensions exchanged (xy).  PyTorch: meshgrid(indexing=...).
LOCKSTEP_API std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, GridIndexing indexing = GridIndexing::ij,
                                          CallSite site = {});

}  // namespace v0
}  // namespace lockstep
