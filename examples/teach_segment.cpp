// Teaches Segment Anything what a thing is. Usage: example_teach_segment WEIGHTS DRAWING STEPS OUT.safetensors [DEVICE]
//
// In a drawing of flat colours a thing is an area of one colour. The image encoder stays as it is and looks once; the
// part that answers clicks is small and learns in minutes. OUT has all weights: `lockstep segment --weights OUT ...`
#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace ls = lockstep;

namespace {

constexpr std::int64_t kClicks = 4;  // a step

struct Pixels {
  const ls::io::Image& picture;
  std::uint32_t colour(int x, int y) const {
    const std::uint8_t* p = picture.pixels.data() + 3 * (static_cast<std::size_t>(y) * picture.width + x);
    return p[0] << 16 | p[1] << 8 | p[2];
  }
};

// Where the network's grid of side x side places shows the colour that was clicked on.
void add_target(const Pixels& pixels, std::uint32_t wanted, std::int64_t side, double scale,
                std::vector<float>& target) {
  for (std::int64_t row = 0; row < side; ++row) {
    for (std::int64_t column = 0; column < side; ++column) {
      const int x = static_cast<int>((static_cast<double>(column) + 0.5) * scale);
      const int y = static_cast<int>((static_cast<double>(row) + 0.5) * scale);
      const bool inside = x < pixels.picture.width && y < pixels.picture.height;
      target.push_back(inside && pixels.colour(x, y) == wanted ? 1.0f : 0.0f);
    }
  }
}

ls::Tensor loss_of(const ls::models::SamMaskLogits& found, const ls::Tensor& target) {
  const ls::Tensor truth = target.expand(found.masks.shape());
  const ls::Tensor inside = ls::gt(found.masks, 0).to(ls::DType::f32);
  const ls::Tensor both = ls::sum(inside * truth, {2, 3});
  const ls::Tensor either = ls::sum(ls::maximum(inside, truth), {2, 3});
  return ls::binary_cross_entropy_with_logits(found.masks, truth) +
         ls::mse_loss(found.iou, ls::detach(both / ls::maximum(either, 1.0)));
}

int teach(char** argv, ls::Device device) {
  const auto sam = ls::models::Sam::load(ls::io::load_weights(argv[1]), device);
  const ls::io::Image picture = ls::io::load_image(argv[2]);
  const ls::models::SamEmbedding embedding = sam->embed(picture);
  const std::int64_t side = 4 * sam->grid();
  const double scale = std::max(picture.width, picture.height) / static_cast<double>(side);

  std::vector<ls::nn::Parameter> parameters = sam->mask_decoder.parameters();
  for (const ls::nn::Parameter& parameter : sam->prompt_encoder.parameters()) parameters.push_back(parameter);
  ls::optim::AdamW optimizer(parameters, {.lr = 3e-4});
  std::mt19937 draw(1);
  const int steps = std::stoi(argv[3]);
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> target;
    std::vector<ls::Tensor> places;
    ls::Tensor labels;
    for (std::int64_t click = 0; click < kClicks; ++click) {
      const int x = static_cast<int>(draw() % static_cast<unsigned>(picture.width));
      const int y = static_cast<int>(draw() % static_cast<unsigned>(picture.height));
      add_target({picture}, Pixels{picture}.colour(x, y), side, scale, target);
      const auto points = sam->prepare(embedding.frame, {.points = {{x + 0.5, y + 0.5}}});
      places.push_back(points.coordinates);
      labels = points.labels;
    }
    const ls::Tensor prompts = sam->prompt_encoder.points(ls::cat(places, 0), labels.expand({kClicks, labels.size(1)}));
    const ls::Tensor truth = ls::Tensor::from(target, {kClicks, 1, side, side}, device);
    ls::Tensor loss;
    for (const bool multimask : {true, false}) {
      const auto found = sam->mask_decoder(embedding.features, embedding.positions, prompts,
                                           sam->prompt_encoder.mask(std::nullopt), multimask);
      loss = loss.defined() ? loss + loss_of(found, truth) : loss_of(found, truth);
    }
    optimizer.zero_grad();
    ls::backward(loss);
    optimizer.step();
    if (step % 20 == 0 || step == steps) std::cout << "step " << step << "  loss " << loss.item<float>() << std::endl;
  }
  ls::io::save_safetensors(argv[4], sam->state_dict());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::cerr << "usage: example_teach_segment WEIGHTS DRAWING STEPS OUT.safetensors [DEVICE]\n", 2;
  try {
    return teach(argv, argc > 5 ? ls::Device::parse(argv[5]) : ls::Device::best());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
