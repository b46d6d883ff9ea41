#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <Tensor (*op)(const std::vector<Tensor>&, int, CallSite)> Tensors joined(Arguments& a) {
  const std::vector<Tensor> tensors = a.all();
  return {op(tensors, a.has("dim") ? dim_of(a) : 0, {})};
}

Tensors call_pad(Arguments& a) {
  const std::string mode = a.text("mode", "constant");
  const Shape padding = a.sizes("pad", {});
  if (mode == "reflect") return {pad(a[0], padding, PadMode::reflect)};
  if (mode == "replicate") return {pad(a[0], padding, PadMode::replicate)};
  if (mode == "circular") return {pad(a[0], padding, PadMode::circular)};
  if (mode != "constant") throw Unsupported("mode " + mode);
  return {pad(a[0], padding, a.real("value", 0))};
}

Tensors call_permute(Arguments& a) {
  return {a[0].permute(Dims(a.sizes("dims", {})))};
}

Tensors call_flip(Arguments& a) {
  return {a[0].flip(Dims(a.sizes("dims", {})))};
}

Tensors call_reshape(Arguments& a) {
  return {a[0].reshape(a.sizes("shape", {}))};
}

Tensors call_expand(Arguments& a) {
  return {a[0].expand(a.sizes("size", {}))};
}

Tensors call_transpose(Arguments& a) {
  const int first = dim_of(a, "dim0");
  return {a[0].transpose(first, dim_of(a, "dim1"))};
}

Tensors call_squeeze(Arguments& a) {
  return {a[0].squeeze(Dims(a.sizes("dim", {})))};
}

Tensors call_unsqueeze(Arguments& a) {
  return {a[0].unsqueeze(dim_of(a))};
}

Tensors call_select(Arguments& a) {
  return {a[0].select(dim_of(a), a.integer("index"))};
}

// A [start, stop, step] for each of the first dimensions; the others are taken whole.
Tensors call_slice(Arguments& a) {
  Tensor result = a[0];
  int dim = 0;
  for (const auto& range : a.ranges("slices")) {
    if (range.size() != 3) throw FormatError("slices: a dimension has a start, a stop and a step");
    result = result.slice(dim++, {.start = range[0], .stop = range[1], .step = range[2].value_or(1)});
  }
  return {result};
}

Tensors call_narrow(Arguments& a) {
  return {a[0].narrow(dim_of(a), a.integer("start"), a.integer("length"))};
}

Tensors call_flatten(Arguments& a) {
  const int first = a.optional_dim("start_dim").value_or(0);
  return {a[0].flatten(first, a.optional_dim("end_dim").value_or(-1))};
}

std::vector<std::int64_t> list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

Tensors call_unflatten(Arguments& a) {
  return {a[0].unflatten(dim_of(a), a.sizes("sizes", {}))};
}

Tensors call_movedim(Arguments& a) {
  return {a[0].movedim(Dims(a.sizes("source", {})), Dims(a.sizes("destination", {})))};
}

Tensors call_swapaxes(Arguments& a) {
  const int first = dim_of(a, "axis0");
  return {swapaxes(a[0], first, dim_of(a, "axis1"))};
}

Tensors call_split(Arguments& a) {
  const Shape sizes = a.sizes("split_size_or_sections", {});
  const int dim = a.optional_dim("dim").value_or(0);
  // A list of one size is not told from a size: both cover the dimension then.
  return sizes.rank() == 1 ? a[0].split(sizes[0], dim) : a[0].split(list_of(sizes), dim);
}

Tensors call_chunk(Arguments& a) {
  return a[0].chunk(a.integer("chunks"), a.optional_dim("dim").value_or(0));
}

Tensors call_tensor_split(Arguments& a) {
  const int dim = a.optional_dim("dim").value_or(0);
  if (a.has("sections")) return a[0].tensor_split(a.integer("sections"), dim);
  return a[0].tensor_split(list_of(a.sizes("indices", {})), dim);
}

Tensors call_unbind(Arguments& a) {
  return a[0].unbind(a.optional_dim("dim").value_or(0));
}

Tensors call_repeat(Arguments& a) {
  return {a[0].repeat(a.sizes("repeats", {}))};
}

Tensors call_tile(Arguments& a) {
  return {tile(a[0], a.sizes("dims", {}))};
}

Tensors call_repeat_interleave(Arguments& a) {
  const std::optional<int> dim = a.optional_dim("dim");
  if (a.size() == 2) return {repeat_interleave(a[0], a[1], dim)};
  return {repeat_interleave(a[0], a.integer("repeats"), dim)};
}

Tensors call_roll(Arguments& a) {
  return {roll(a[0], a.sizes("shifts", {}), Dims(a.sizes("dims", {})))};
}

Tensors call_rot90(Arguments& a) {
  return {rot90(a[0], a.integer("k", 1), Dims(a.sizes("dims", {0, 1})))};
}

Tensors call_tensor_unfold(Arguments& a) {
  const int dim = dim_of(a, "dimension");
  const std::int64_t size = a.integer("size");
  return {a[0].unfold(dim, size, a.integer("step"))};
}

Tensors call_pixel_shuffle(Arguments& a) {
  return {pixel_shuffle(a[0], a.integer("upscale_factor"))};
}

Tensors call_pixel_unshuffle(Arguments& a) {
  return {pixel_unshuffle(a[0], a.integer("downscale_factor"))};
}

Tensors call_channel_shuffle(Arguments& a) {
  return {channel_shuffle(a[0], a.integer("groups"))};
}

Tensors call_diagonal(Arguments& a) {
  const std::int64_t offset = a.integer("offset", 0);
  const int first = a.optional_dim("dim1").value_or(0);
  return {a[0].diagonal(offset, first, a.optional_dim("dim2").value_or(1))};
}

Tensors call_diag(Arguments& a) {
  return {diag(a[0], a.integer("diagonal", 0))};
}

Tensors call_diag_embed(Arguments& a) {
  const std::int64_t offset = a.integer("offset", 0);
  const int first = a.optional_dim("dim1").value_or(-2);
  return {diag_embed(a[0], offset, first, a.optional_dim("dim2").value_or(-1))};
}

template <Tensor (*op)(const std::vector<Tensor>&, CallSite)> Tensors stacked(Arguments& a) {
  return {op(a.all(), {})};
}

Tensors call_broadcast_tensors(Arguments& a) {
  return broadcast_tensors(a.all());
}

UnfoldOptions unfold_options(Arguments& a) {
  return {.dilation = a.sizes("dilation", {1}), .padding = a.sizes("padding", {0}), .stride = a.sizes("stride", {1})};
}

Tensors call_unfold(Arguments& a) {
  return {unfold(a[0], a.sizes("kernel_size", {}), unfold_options(a))};
}

Tensors call_fold(Arguments& a) {
  return {fold(a[0], a.sizes("output_size", {}), a.sizes("kernel_size", {}), unfold_options(a))};
}

constexpr RecordedOp kShapeOps[] = {
    {"broadcast_tensors", kMoves, call_broadcast_tensors},
    {"channel_shuffle", kMoves, call_channel_shuffle},
    {"chunk", kMoves, call_chunk},
    {"column_stack", kMoves, stacked<column_stack>},
    {"diag", kMoves, call_diag},
    {"diag_embed", kMoves, call_diag_embed},
    {"diagonal", kMoves, call_diagonal},
    {"dstack", kMoves, stacked<dstack>},
    {"fliplr", kMoves, unary<fliplr>},
    {"flipud", kMoves, unary<flipud>},
    {"fold", kComputes, call_fold},
    {"hstack", kMoves, stacked<hstack>},
    {"movedim", kMoves, call_movedim},
    {"pixel_shuffle", kMoves, call_pixel_shuffle},
    {"pixel_unshuffle", kMoves, call_pixel_unshuffle},
    {"repeat", kMoves, call_repeat},
    {"repeat_interleave", kMoves, call_repeat_interleave},
    {"roll", kMoves, call_roll},
    {"rot90", kMoves, call_rot90},
    {"split", kMoves, call_split},
    {"swapaxes", kMoves, call_swapaxes},
    {"tensor_split", kMoves, call_tensor_split},
    {"tensor_unfold", kMoves, call_tensor_unfold},
    {"tile", kMoves, call_tile},
    {"unbind", kMoves, call_unbind},
    {"unflatten", kMoves, call_unflatten},
    {"unfold", kMoves, call_unfold},
    {"vstack", kMoves, stacked<vstack>},
    {"cat", kMoves, joined<cat>},
    {"expand", kMoves, call_expand},
    {"flatten", kMoves, call_flatten},
    {"flip", kMoves, call_flip},
    {"narrow", kMoves, call_narrow},
    {"pad", kMoves, call_pad},
    {"permute", kMoves, call_permute},
    {"reshape", kMoves, call_reshape},
    {"select", kMoves, call_select},
    {"slice", kMoves, call_slice},
    {"squeeze", kMoves, call_squeeze},
    {"stack", kMoves, joined<stack>},
    {"transpose", kMoves, call_transpose},
    {"unsqueeze", kMoves, call_unsqueeze},
};

}  // namespace

std::span<const RecordedOp> shape_ops() {
  return kShapeOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
