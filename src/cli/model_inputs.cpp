#include "cli/model_inputs.h"

#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/image.h>
#include <lockstep/io/numpy.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "cli/command.h"
#include "cli/fetch.h"
#include "core/checked.h"
#include "core/os.h"
#include "io/formats.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// The shape that the model states for `count` elements, which decide about one size that it leaves open.
std::optional<Shape> shape_of(const io::OnnxValue& value, std::int64_t count) {
  if (!value.shape || value.shape->size() > static_cast<std::size_t>(kMaxRank)) return std::nullopt;
  Shape shape;
  int open = -1;
  for (const io::OnnxSize& size : *value.shape) {
    if (!size.size && open >= 0) return std::nullopt;
    if (!size.size) open = shape.rank();
    shape.push_back(size.size.value_or(1));
  }
  const std::int64_t known = shape.numel();
  if (open >= 0 && known > 0 && count % known == 0) shape[open] = count / known;
  return shape.numel() == count ? std::optional(shape) : std::nullopt;
}

// Numbers separated by blanks, commas or lines: one dimension, or the model's shape where it may have as many elements.
Tensor numbers_of(const std::string& path, std::string_view text, const io::OnnxValue& value) {
  std::vector<double> numbers;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',' || *at == '\n' || *at == '\r' || *at == '\t') {
      ++at;
      continue;
    }
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc())
      throw FormatError(fmt::format("{}: is no .npy file, no picture, and no text of numbers", path));
    numbers.push_back(number);
    at = next;
  }
  const Tensor list =
      Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())}, Device{}).to(value.dtype.value_or(DType::f32));
  const std::optional<Shape> shape = shape_of(value, list.numel());
  return shape ? list.reshape(*shape) : list;
}

// A picture as the model takes it: [1, 3, H, W], or [1, H, W, 3] where the model says 3 at the end; floats from 0 to 1.
Tensor picture_input(const std::string& path, const io::OnnxValue& value) {
  Tensor picture = io::image_to_tensor(io::load_image(path)).unsqueeze(0);
  const bool channels_last = value.shape && value.shape->size() == 4 && value.shape->back().size == 3;
  if (channels_last) picture = picture.permute({0, 2, 3, 1});
  const DType dtype = value.dtype.value_or(DType::f32);
  return is_float(dtype) ? div(picture.to(DType::f32), 255).to(dtype) : picture.to(dtype);
}

Tensor read_input(const std::string& path, const io::OnnxValue& value) {
  const os::FileBytes file = os::map_file(path);
  const io::Format* format = io::find_format(file);
  if (format != nullptr && std::string_view(format->name) == "NumPy npy") return io::load_npy(path);
  if (format != nullptr && std::holds_alternative<io::DecodePicture*>(format->reader))
    return picture_input(path, value);
  return numbers_of(path, text_of(file.bytes), value);
}

std::string stated(const io::OnnxValue& value) {
  std::string text = value.type;
  if (!value.shape) return text;
  text += " [";
  for (std::size_t i = 0; i < value.shape->size(); ++i) {
    const io::OnnxSize& size = (*value.shape)[i];
    text += (i == 0 ? "" : ", ") + (size.size ? std::to_string(*size.size) : size.symbol.empty() ? "?" : size.symbol);
  }
  return text + "]";
}

// A line for each input, for messages.
std::string list_of(const io::OnnxModel& model) {
  std::string list;
  for (const io::OnnxValue& value : model.inputs()) list += fmt::format("\n  {}  {}", value.name, stated(value));
  return list;
}

std::map<std::string, std::int64_t> sizes_of(const io::OnnxModel& model, const std::vector<std::string>& words) {
  std::set<std::string> known;
  for (const io::OnnxValue& value : model.inputs()) {
    if (!value.shape) continue;
    for (const io::OnnxSize& size : *value.shape) {
      if (!size.size) known.insert(size.symbol.empty() ? "?" : size.symbol);
    }
  }
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& word : words) {
    const std::size_t equals = word.rfind('=');
    std::int64_t size = 0;
    const char* end = word.data() + word.size();
    const bool number = equals != std::string::npos &&
                        std::from_chars(word.data() + equals + 1, end, size) == std::from_chars_result{end, {}};
    if (!number || size < 0) throw UsageError(fmt::format("--size is NAME=NUMBER, not \"{}\"", word));
    const std::string name = word.substr(0, equals);
    if (!known.contains(name)) {
      throw UsageError(fmt::format("the model has no size \"{}\"; it has{}", name, list_of(model)));
    }
    sizes[name] = size;
  }
  return sizes;
}

Tensor random_input(DType dtype, const Shape& shape, Generator& generator) {
  if (is_float(dtype) && !is_storage_only(dtype)) return randn(shape, {.dtype = dtype}, &generator);
  if (dtype == DType::boolean) return ones(shape, {.dtype = dtype});
  return randint(0, 4, shape, {.dtype = DType::i32}, &generator).to(dtype);
}

}  // namespace

io::TensorMap given_inputs(const io::OnnxModel& model, const std::vector<std::string>& words) {
  std::map<std::string, io::OnnxValue> known;
  for (const io::OnnxValue& value : model.inputs()) known.emplace(value.name, value);
  io::TensorMap inputs;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    // A model with one input needs no name.
    const bool unnamed = equals == std::string::npos && known.size() == 1;
    if (equals == std::string::npos && !unnamed)
      throw UsageError(fmt::format("--input is NAME=FILE, not \"{}\"", word));
    const std::string name = unnamed ? known.begin()->first : word.substr(0, equals);
    const auto value = known.find(name);
    if (value == known.end()) {
      throw UsageError(fmt::format("the model has no input \"{}\"; it has{}", name, list_of(model)));
    }
    const std::string path = unnamed ? word : word.substr(equals + 1);
    if (!inputs.emplace(name, read_input(fetched(path), value->second).to(model.device())).second) {
      throw UsageError(fmt::format("the input \"{}\" is there twice", name));
    }
  }
  return inputs;
}

void require_all(const io::OnnxModel& model, const io::TensorMap& inputs) {
  for (const io::OnnxValue& value : model.inputs()) {
    if (value.required && !inputs.contains(value.name) && value.dtype) {
      throw UsageError(fmt::format("the input \"{}\" is missing (--input {}=FILE); the model has{}", value.name,
                                   value.name, list_of(model)));
    }
  }
}

void add_random_inputs(const io::OnnxModel& model, const std::vector<std::string>& sizes, std::uint64_t seed,
                       io::TensorMap& inputs) {
  const std::map<std::string, std::int64_t> known = sizes_of(model, sizes);
  Generator generator(seed);
  for (const io::OnnxValue& value : model.inputs()) {
    if (!value.required || inputs.contains(value.name)) continue;
    if (!value.dtype) {
      throw io::UnsupportedError(
          fmt::format("the input \"{}\" is {}: only tensors can be given", value.name, value.type));
    }
    Shape shape;
    for (const io::OnnxSize& size : value.shape.value_or(std::vector<io::OnnxSize>{})) {
      const auto chosen = known.find(size.symbol.empty() ? "?" : size.symbol);
      shape.push_back(size.size.value_or(chosen == known.end() ? 1 : chosen->second));
    }
    inputs.emplace(value.name, random_input(*value.dtype, shape, generator).to(model.device()));
  }
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
