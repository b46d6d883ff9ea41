#include <lockstep/models/sam.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>

#include "io/image_check.h"
#include "models/sam/transformers_names.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::array<float, 3> kMean{123.675f, 116.28f, 103.53f};
constexpr std::array<float, 3> kDeviation{58.395f, 57.12f, 57.375f};

std::unique_ptr<nn::Layer> image_encoder_of(nn::Module& parent, const SamOptions& options) {
  if (options.image_size < 16 || options.image_size % 16 != 0) {
    throw ValueError(fmt::format("Sam: image_size {} is no positive multiple of 16", options.image_size));
  }
  const std::int64_t channels = options.decoder.channels;
  if (const auto* tiny = std::get_if<SamTinyViTOptions>(&options.encoder)) {
    return std::make_unique<SamTinyViT>(parent, "image_encoder", channels, *tiny);
  }
  const auto& vit = std::get<SamViTOptions>(options.encoder);
  if (vit.patch != 16) throw ValueError(fmt::format("Sam: patches of {} are not the 16 of the decoder", vit.patch));
  return std::make_unique<SamViT>(parent, "image_encoder", options.image_size, channels, vit);
}

// Which of the published networks has these keys and sizes.
SamKind kind_of(const nn::StateDict& weights) {
  if (weights.find("image_encoder.patch_embed.seq.0.c.weight") != nullptr) return SamKind::vit_t;
  const Tensor* positions = weights.find("image_encoder.pos_embed");
  if (positions == nullptr || !positions->defined() || positions->rank() != 4) {
    fail<ValueError>(
        "these are not the weights of Segment Anything or MobileSAM\n"
        "  neither image_encoder.patch_embed.seq.0.c.weight (vit_t) nor image_encoder.pos_embed (vit_b, vit_l, vit_h) "
        "is among them");
  }
  switch (positions->size(3)) {
    case 768: return SamKind::vit_b;
    case 1024: return SamKind::vit_l;
    case 1280: return SamKind::vit_h;
    default:
      fail<ValueError>(
          fmt::format("image_encoder.pos_embed has {} channels; vit_b, vit_l and vit_h have 768, 1024 and 1280",
                      positions->size(3)));
  }
}

bool is_inside(double value, double limit) {
  return std::isfinite(value) && value >= 0 && value <= limit;
}

}  // namespace

SamOptions SamOptions::of(SamKind kind) {
  switch (kind) {
    case SamKind::vit_t: return {};
    case SamKind::vit_b: return {.encoder = SamViTOptions{}};
    case SamKind::vit_l:
      return {.encoder = SamViTOptions{.channels = 1024, .depth = 24, .heads = 16, .global_blocks = {5, 11, 17, 23}}};
    case SamKind::vit_h:
      return {.encoder = SamViTOptions{.channels = 1280, .depth = 32, .heads = 16, .global_blocks = {7, 15, 23, 31}}};
  }
  throw ValueError("SamOptions: no such kind");
}

std::size_t SamPrediction::best() const {
  return static_cast<std::size_t>(std::max_element(iou.begin(), iou.end()) - iou.begin());
}

Sam::Sam(const SamOptions& options)
    : options_(options),
      image_encoder_(image_encoder_of(*this, options)),
      prompt_encoder(*this, "prompt_encoder", options.image_size, options.image_size / 16, options.decoder),
      mask_decoder(*this, "mask_decoder", options.decoder) {}

Sam::~Sam() = default;

std::unique_ptr<Sam> Sam::load(const nn::StateDict& weights, Device device, CallSite site) {
  const CallScope call("Sam::load", site);
  return load(SamOptions::of(kind_of(sam::with_original_names(weights))), weights, device);
}

std::unique_ptr<Sam> Sam::load(const SamOptions& options, const nn::StateDict& weights, Device device, CallSite site) {
  const CallScope call("Sam::load", site);
  auto model = std::make_unique<Sam>(options);
  nn::StateDict complete = sam::with_original_names(weights);
  // The classifier of TinyViT is in the published file, but nothing reads it: conversions may leave it out.
  for (const auto& [name, tensor] : model->state_dict()) {
    const bool unused = name.starts_with("image_encoder.head.") || name.starts_with("image_encoder.norm_head.");
    if (unused && complete.find(name) == nullptr) complete.push_back(name, tensor);
  }
  model->load_state_dict(complete);
  model->eval();
  model->to(device);
  return model;
}

Device Sam::device() const {
  return prompt_encoder.positional_encoding_gaussian_matrix.device();
}

SamFrame Sam::frame(int width, int height, CallSite site) const {
  const CallScope call("Sam::frame", site);
  check<ValueError>(width > 0 && height > 0, fmt::format("a picture of {} x {} has no pixels", width, height));
  const double scale = static_cast<double>(options_.image_size) / std::max(width, height);
  // Rounded half up, as the original does; but a thin picture keeps a row.
  const auto scaled = [scale](int size) { return std::max(1, static_cast<int>(std::floor(size * scale + 0.5))); };
  return {width, height, scaled(width), scaled(height)};
}

Tensor Sam::preprocess(const io::Image& picture, CallSite site) const {
  const CallScope call("Sam::preprocess", site);
  io::check_image("Sam", picture);
  const SamFrame size = frame(picture.width, picture.height);
  const io::Image scaled = size.scaled_width == size.width && size.scaled_height == size.height
                               ? picture
                               : io::resize(picture, size.scaled_width, size.scaled_height);
  const TensorOptions options{DType::f32, device()};
  const auto per_channel = [&](const std::array<float, 3>& values) {
    return Tensor::from(std::vector<float>(values.begin(), values.end()), {3, 1, 1}, options.device);
  };
  const Tensor pixels = io::image_to_tensor(scaled, options.device).to(DType::f32);
  const Tensor normalised = (pixels - per_channel(kMean)) / per_channel(kDeviation);
  const std::int64_t side = options_.image_size;
  return pad(normalised, {0, side - size.scaled_width, 0, side - size.scaled_height}).unsqueeze(0);
}

SamEmbedding Sam::embed(const io::Image& picture, CallSite site) const {
  const CallScope call("Sam::embed", site);
  const NoGrad no_grad;
  const Tensor input = preprocess(picture);
  return {.features = (*image_encoder_)(input).eval(),
          .positions = prompt_encoder.grid_positions().eval(),
          .frame = frame(picture.width, picture.height),
          .picture = picture_hash(picture)};
}

Sam::Points Sam::prepare(const SamFrame& frame, const SamPrompt& prompt, CallSite site) const {
  const CallScope call("Sam::prepare", site);
  check<ValueError>(!prompt.points.empty() || prompt.box || prompt.mask, "the prompt is empty", {},
                    "give a point, a box or a mask");
  std::vector<float> coordinates;
  std::vector<std::int32_t> labels;
  const auto add_point = [&](double x, double y, SamLabel label) {
    coordinates.push_back(static_cast<float>(x * (static_cast<double>(frame.scaled_width) / frame.width)));
    coordinates.push_back(static_cast<float>(y * (static_cast<double>(frame.scaled_height) / frame.height)));
    labels.push_back(static_cast<std::int32_t>(label));
  };
  for (const SamPoint& point : prompt.points) {
    check<ValueError>(is_inside(point.x, frame.width) && is_inside(point.y, frame.height),
                      fmt::format("the point ({}, {}) lies outside the picture of {} x {}", point.x, point.y,
                                  frame.width, frame.height));
    add_point(point.x, point.y, point.foreground ? SamLabel::foreground : SamLabel::background);
  }
  if (prompt.box) {
    const SamBox& box = *prompt.box;
    const bool inside = is_inside(box.x0, frame.width) && is_inside(box.x1, frame.width) &&
                        is_inside(box.y0, frame.height) && is_inside(box.y1, frame.height);
    check<ValueError>(inside && box.x0 < box.x1 && box.y0 < box.y1,
                      fmt::format("the box ({}, {}, {}, {}) is empty or reaches out of the picture of {} x {}", box.x0,
                                  box.y0, box.x1, box.y1, frame.width, frame.height));
    add_point(box.x0, box.y0, SamLabel::box_from);
    add_point(box.x1, box.y1, SamLabel::box_to);
  } else if (!prompt.points.empty()) {
    add_point(0, 0, SamLabel::none);  // the place of the box, as in training
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return {Tensor::from(coordinates, {1, count, 2}, device()), Tensor::from(labels, {1, count}, device())};
}

SamPrediction Sam::predict(const SamEmbedding& embedding, const SamPrompt& prompt, const SamPredictOptions& options,
                           CallSite site) const {
  const CallScope call("Sam::predict", site);
  const NoGrad no_grad;
  check_defined({{"embedding.features", embedding.features}, {"embedding.positions", embedding.positions}});
  const Shape expected{1, options_.decoder.channels, grid(), grid()};
  check<ValueError>(embedding.features.shape() == expected && embedding.positions.shape() == expected,
                    fmt::format("the embedding is of another network; this one has {}", expected.to_string()),
                    {{"embedding.features", embedding.features}, {"embedding.positions", embedding.positions}});
  const Points points = prepare(embedding.frame, prompt);
  std::optional<Tensor> mask;
  if (prompt.mask) {
    const Tensor& given = *prompt.mask;
    const std::int64_t side = 4 * grid();
    const bool fits =
        given.defined() && given.rank() == 3 && given.size(0) > 0 && given.size(1) == side && given.size(2) == side;
    check<ValueError>(fits, fmt::format("a mask prompt has the logits [n, {}, {}] of a prediction", side, side),
                      {{"mask", given}});
    mask = given.narrow(0, 0, 1).unsqueeze(0).to(DType::f32).to(device());
  }
  const SamMaskLogits found =
      mask_decoder(embedding.features, embedding.positions, prompt_encoder.points(points.coordinates, points.labels),
                   prompt_encoder.mask(mask), options.multimask);
  const Tensor low_resolution = found.masks.squeeze(0).eval();
  std::vector<Tensor> masks;
  // One by one: the logits of a large picture take four times its mask's memory, and more while they are made.
  for (const Tensor& logits : low_resolution.split(1)) masks.push_back(gt(upscale(logits, embedding.frame), 0).eval());
  return {.masks = cat(masks), .iou = found.iou.squeeze(0).to_vector<float>(), .low_resolution = low_resolution};
}

Tensor Sam::upscale(const Tensor& low_resolution, const SamFrame& frame, CallSite site) const {
  const CallScope call("Sam::upscale", site);
  const auto resized = [](const Tensor& x, std::int64_t height, std::int64_t width) {
    return interpolate(x, {.size = {height, width}, .mode = Interpolation::bilinear});
  };
  const Tensor square = resized(low_resolution.unsqueeze(0), options_.image_size, options_.image_size);
  const Tensor filled = square.narrow(2, 0, frame.scaled_height).narrow(3, 0, frame.scaled_width);
  return resized(filled, frame.height, frame.width).squeeze(0);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
