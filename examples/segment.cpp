// Cuts out what is pointed at. Usage: example_segment WEIGHTS PICTURE X Y OUT.png [DEVICE]
//
// WEIGHTS is mobile_sam.pt, one of the sam_vit_*.pth, or a safetensors file with the same keys. The picture is looked
// at once, which takes seconds; every further click on it would take milliseconds.
#include <lockstep/lockstep.h>

#include <chrono>
#include <iostream>
#include <string>

namespace ls = lockstep;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int segment(int argc, char** argv) {
  const ls::Device device = argc > 6 ? ls::Device::parse(argv[6]) : ls::Device::best();
  const auto sam = ls::models::Sam::load(ls::io::load_weights(argv[1]), device);
  const ls::io::Image picture = ls::io::load_image(argv[2], {.upright = true});

  auto start = std::chrono::steady_clock::now();
  const ls::models::SamEmbedding embedding = sam->embed(picture);
  std::cout << "looked at the picture in " << seconds_since(start) << " s on " << device.to_string() << '\n';

  start = std::chrono::steady_clock::now();
  const ls::models::SamPoint click{std::stod(argv[3]), std::stod(argv[4])};
  const ls::models::SamPrediction found = sam->predict(embedding, {.points = {click}});
  const auto masks = ls::models::masks_of(found);
  std::cout << "found " << masks.size() << " masks in " << seconds_since(start) << " s\n";
  for (const ls::models::SamMask& mask : masks) std::cout << "  IoU " << mask.iou << ", " << mask.area << " pixels\n";

  const auto& best = masks[found.best()];
  ls::io::save_png(argv[5], ls::models::draw_overlay(picture, {best}, {.points = {click}}));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return std::cerr << "usage: example_segment WEIGHTS PICTURE X Y OUT.png [DEVICE]\n", 2;
  try {
    return segment(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
