// Reads a picture. Usage: example_ocr DETECTOR.onnx RECOGNISER.onnx PICTURE [DEVICE]
// The models are those of the Python package rapidocr: PP-OCRv6_det_small.onnx says where there is text, and
// PP-OCRv6_rec_small.onnx, which holds its alphabet as metadata, what a line says. Lines must lie level.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>

namespace ls = lockstep;
using Index = std::int64_t;

// [1, 3, H, W] of u8 in another size, as the models take it: blue first, from -1 to 1.
static ls::Tensor prepared(const ls::Tensor& picture, Index height, Index width) {
  const ls::Tensor pixels = picture.to(ls::DType::f32).flip({1}) / 127.5 - 1;
  return ls::interpolate(pixels, {.size = {height, width}, .mode = ls::Interpolation::bilinear, .antialias = true});
}

struct Box {
  Index left, top, right, bottom;
};
// The boxes around what is connected where the detector sees text, wider by what it was trained to leave out.
static std::vector<Box> lines_of(const ls::Tensor& probability) {
  const Index height = probability.size(2), width = probability.size(3);
  std::vector<float> p = probability.to_vector<float>();
  std::vector<Box> boxes;
  for (Index i = 0; i < height * width; ++i) {
    Box box{width, height, 0, 0};
    for (std::vector<Index> open = {i}; !open.empty();) {
      const Index at = open.back(), x = at % width, y = at / width;
      open.pop_back();
      if (std::exchange(p[static_cast<std::size_t>(at)], 0.0f) <= 0.3f) continue;
      box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x + 1), std::max(box.bottom, y + 1)};
      if (x > 0) open.push_back(at - 1);
      if (x + 1 < width) open.push_back(at + 1);
      if (y > 0) open.push_back(at - width);
      if (y + 1 < height) open.push_back(at + width);
    }
    const Index w = box.right - box.left, h = box.bottom - box.top;
    if (w < 3 || h < 3) continue;
    const Index more = w * h * 16 / (20 * (w + h));  // area x 1.6 / circumference
    boxes.push_back({std::max<Index>(box.left - more, 0), std::max<Index>(box.top - more, 0),
                     std::min(box.right + more, width), std::min(box.bottom + more, height)});
  }
  return boxes;
}

static void read(const std::string& detector, const std::string& recogniser, const std::string& path) {
  const auto detect = ls::io::load_onnx(detector);
  const auto recognise = ls::io::load_onnx(recogniser);
  std::vector<std::string> alphabet = {""};
  std::istringstream characters(ls::io::list_tensors(recogniser).metadata.at("character").as_text() + "\n ");
  for (std::string line; std::getline(characters, line);) alphabet.push_back(line);
  const ls::Tensor picture = ls::io::image_to_tensor(ls::io::load_image(path), detect->device()).unsqueeze(0);
  const auto sized = [&](int dim) { return (picture.size(dim) + 31) / 32 * 32; };  // the detector halves five times
  for (const Box& box : lines_of(detect->forward(prepared(picture, sized(2), sized(3))))) {
    const auto place = [&](int dim, Index at) { return at * picture.size(dim) / sized(dim); };
    const Index left = place(3, box.left), top = place(2, box.top);
    const ls::Tensor line = picture.slice(2, {top, place(2, box.bottom)}).slice(3, {left, place(3, box.right)});
    const Index width = std::max<Index>(48 * line.size(3) / line.size(2), 8);
    std::cout << '(' << left << ", " << top << ") ";
    // CTC: of each column the likeliest character; 0 is none, and what repeats without one between is one character.
    Index before = 0;
    for (const Index best : recognise->forward(prepared(line, 48, width)).argmax(-1).to_vector<Index>()) {
      if (std::exchange(before, best) != best) std::cout << alphabet.at(static_cast<std::size_t>(best));
    }
    std::cout << '\n';
  }
}

int main(int argc, char** argv) try {
  if (argc < 4) return std::cerr << "usage: example_ocr DETECTOR.onnx RECOGNISER.onnx PICTURE [DEVICE]\n", 2;
  const ls::DefaultDevice device(argc > 4 ? ls::Device::parse(argv[4]) : ls::Device{});
  const ls::NoGrad no_grad;
  read(argv[1], argv[2], argv[3]);
} catch (const std::exception& error) {
  return std::cerr << error.what() << '\n', 1;
}
