#include <lockstep/lockstep.h>

#include <iostream>

namespace ls = lockstep;

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: example_ten_lines WEIGHTS PICTURE\n", 2;
  const auto& resnet20 = ls::models::architecture("resnet20-cifar");
  const auto weights = ls::io::load_weights(argv[1]);
  const auto image = ls::models::preprocess(resnet20.preprocessing, {ls::io::load_image(argv[2])});
  const ls::NoGrad no_grad;
  for (const ls::Device& device : ls::Device::all()) {
    const auto model = resnet20.load(weights, device);
    const ls::Tensor logits = model->forward(image.to(device));
    std::cout << device.to_string() << ": class " << ls::argmax(logits, 1).item<int>() << ", hash " << std::hex
              << logits.hash() << std::dec << '\n';
  }
}
