// The vision transformer of Segment Anything. Relative positions are decomposed: a query's score for a key is
// q.k / sqrt(d) + q.R_y[dy] + q.R_x[dx].
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/models/sam_image_encoder.h>

#include "models/sam/layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr double kNormEps = 1e-6;

// Of the rows of a table for distances -(size - 1) ... size - 1 those between all pairs: [size (query), size (key), C].
Tensor relative(const nn::Parameter& table, std::int64_t size) {
  std::vector<std::int64_t> rows;
  for (std::int64_t query = 0; query < size; ++query) {
    for (std::int64_t key = 0; key < size; ++key) rows.push_back(query - key + size - 1);
  }
  const Tensor index = Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}, table.device());
  return index_select(table, 0, index).reshape({size, size, table.shape()[1]});
}

class RelativeAttention : public nn::Module {
 public:
  RelativeAttention(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t heads, std::int64_t size)
      : Module(parent, std::move(name)),
        heads_(heads),
        qkv(*this, "qkv", channels, 3 * channels),
        proj(*this, "proj", channels, channels),
        rel_pos_h(*this, "rel_pos_h", zeros({2 * size - 1, channels / heads})),
        rel_pos_w(*this, "rel_pos_w", zeros({2 * size - 1, channels / heads})) {}

  // x [..., size, size, C]: every square attends to itself.
  Tensor operator()(const Tensor& x) const {
    const Shape shape = x.shape();
    const std::int64_t size = shape[shape.rank() - 2];
    const std::int64_t channels = shape.back();
    const std::int64_t width = channels / heads_;
    const std::int64_t count = shape.numel() / (size * size * channels);
    const Shape flat{count, heads_, size * size, width};
    const Tensor all = qkv(x.reshape({count, size * size, channels}))
                           .reshape({count, size * size, 3, heads_, width})
                           .permute({2, 0, 3, 1, 4});
    const Tensor q = all.select(0, 0);
    // [count, heads, y, x, key's row] and [..., key's column].
    const Tensor grid = q.reshape({count, heads_, size, size, width});
    const Tensor rows = matmul(grid, relative(rel_pos_h, size).transpose(1, 2));
    const Tensor columns = matmul(grid.transpose(2, 3), relative(rel_pos_w, size).transpose(1, 2)).transpose(2, 3);
    // The sum of a score and its two biases is one product of longer vectors: a bias of all queries and keys, of which
    // a whole picture has 16 million in each head, never exists.
    const Shape scores{count, heads_, size * size, size};
    const Tensor queries =
        cat({q * (1 / std::sqrt(static_cast<double>(width))), rows.reshape(scores), columns.reshape(scores)}, -1);
    const Tensor one = eye(size, std::nullopt, {x.dtype(), x.device()});
    const Tensor key_row = one.unsqueeze(1).expand({size, size, size}).reshape({size * size, size});
    const Tensor key_column = one.unsqueeze(0).expand({size, size, size}).reshape({size * size, size});
    const Tensor places = cat({key_row, key_column}, -1).expand({count, heads_, size * size, 2 * size});
    const Tensor keys = cat({all.select(0, 1), places}, -1);
    const Tensor mixed = scaled_dot_product_attention(queries, keys, all.select(0, 2), {.scale = 1});
    return proj(mixed.permute({0, 2, 1, 3}).reshape({count, size * size, channels})).reshape(shape);
  }

 private:
  std::int64_t heads_;
  nn::Linear qkv;
  nn::Linear proj;
  nn::Parameter rel_pos_h;
  nn::Parameter rel_pos_w;
};

class TransformerMlp : public nn::Layer {
 public:
  TransformerMlp(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t hidden)
      : Layer(parent, std::move(name)), lin1(*this, "lin1", channels, hidden), lin2(*this, "lin2", hidden, channels) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    return lin2(gelu(lin1(x)));
  }

 private:
  nn::Linear lin1;
  nn::Linear lin2;
};

// x [N, H, W, C]. A window of 0 is the whole picture, `grid` x `grid`.
class ViTBlock : public nn::Layer {
 public:
  ViTBlock(nn::Module& parent, std::string name, const SamViTOptions& options, std::int64_t window, std::int64_t grid)
      : Layer(parent, std::move(name)),
        window_(window),
        norm1(*this, "norm1", {options.channels}, {.eps = kNormEps}),
        attn(*this, "attn", options.channels, options.heads, window > 0 ? window : grid),
        norm2(*this, "norm2", {options.channels}, {.eps = kNormEps}),
        mlp(*this, "mlp", options.channels, options.channels * options.mlp_ratio) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor& tokens = x.tensor();
    const Tensor normed = norm1(x);
    const Tensor attended =
        window_ == 0 ? attn(normed)
                     : sam::from_windows(attn(sam::to_windows(normed, window_)), tokens.size(1), tokens.size(2));
    const Tensor sum = tokens + attended;
    return sum + mlp(norm2(sum));
  }

 private:
  std::int64_t window_;
  nn::LayerNorm norm1;
  RelativeAttention attn;
  nn::LayerNorm norm2;
  TransformerMlp mlp;
};

std::int64_t grid_of(const std::string& path, std::int64_t image_size, const SamViTOptions& options) {
  sam::check_heads(path, options.channels, options.heads);
  if (options.patch < 1 || image_size < options.patch || image_size % options.patch != 0) {
    throw ValueError(fmt::format("{}: patches of {} do not divide pictures of {}", path, options.patch, image_size));
  }
  if (options.window < 1 || options.mlp_ratio < 1 || options.depth < 1) {
    throw ValueError(fmt::format("{}: window {}, mlp_ratio {} and depth {} must be positive", path, options.window,
                                 options.mlp_ratio, options.depth));
  }
  return image_size / options.patch;
}

}  // namespace

SamViT::SamViT(nn::Module& parent, std::string name, std::int64_t image_size, std::int64_t out_channels,
               const SamViTOptions& options)
    : Layer(parent, std::move(name)),
      proj(patch_embed, "proj", 3, options.channels, {options.patch}, {.stride = {options.patch}}) {
  const std::int64_t grid = grid_of(path(), image_size, options);
  pos_embed = nn::Parameter(*this, "pos_embed", zeros({1, grid, grid, options.channels}));
  for (std::int64_t i = 0; i < options.depth; ++i) {
    const auto& global = options.global_blocks;
    const bool whole = std::find(global.begin(), global.end(), i) != global.end();
    blocks.add<ViTBlock>(options, whole ? 0 : options.window, grid);
  }
  sam::build_neck(neck, options.channels, out_channels);
}

Tensor SamViT::forward(const Operand& x) const {
  const CallScope call("SamViT", x);
  const std::int64_t side = pos_embed.shape()[1] * proj.weight.shape()[2];
  const Shape& shape = tensor_operand(x).shape();
  check<ShapeError>(shape.rank() == 4 && shape[1] == 3 && shape[2] == side && shape[3] == side,
                    fmt::format("pictures must be [N, 3, {}, {}]", side, side), {{"input", x}});
  Tensor y = proj(x).permute({0, 2, 3, 1}) + pos_embed;
  for (std::size_t i = 0; i < blocks.size(); ++i) y = blocks[i](y);
  return neck(y.permute({0, 3, 1, 2}));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
