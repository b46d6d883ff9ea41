// `lockstep run`: an ONNX model on arrays, pictures and numbers from files.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/image.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/onnx.h>
#include <lockstep/ops.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/checked.h"
#include "core/os.h"
#include "io/formats.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs;
  std::string output;
  std::string device = "best";
  bool as_json = false;
  int bench = 0;
};

// The shape that the model states, if all of its sizes are numbers.
std::optional<Shape> fixed_shape(const io::OnnxValue& value) {
  if (!value.shape || value.shape->size() > static_cast<std::size_t>(kMaxRank)) return std::nullopt;
  Shape shape;
  for (const io::OnnxSize& size : *value.shape) {
    if (!size.size) return std::nullopt;
    shape.push_back(*size.size);
  }
  return shape;
}

// Numbers separated by blanks, commas or lines: one dimension, or the model's shape where it has as many elements.
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
  const std::optional<Shape> shape = fixed_shape(value);
  return shape && shape->numel() == list.numel() ? list.reshape(*shape) : list;
}

// A picture as the model takes it: [1, 3, H, W], or [1, H, W, 3] where the model says 3 at the end; floats from 0 to 1.
Tensor picture_of(const std::string& path, const io::OnnxValue& value) {
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
  if (format != nullptr && std::holds_alternative<io::DecodePicture*>(format->reader)) return picture_of(path, value);
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

io::TensorMap read_inputs(const io::OnnxModel& model, const std::vector<std::string>& words) {
  std::map<std::string, io::OnnxValue> known;
  std::string list;
  for (const io::OnnxValue& value : model.inputs()) {
    known.emplace(value.name, value);
    list += fmt::format("\n  {}  {}", value.name, stated(value));
  }
  io::TensorMap inputs;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    // A model with one input needs no name.
    const bool unnamed = equals == std::string::npos && known.size() == 1;
    if (equals == std::string::npos && !unnamed)
      throw UsageError(fmt::format("--input is NAME=FILE, not \"{}\"", word));
    const std::string name = unnamed ? known.begin()->first : word.substr(0, equals);
    const auto value = known.find(name);
    if (value == known.end()) throw UsageError(fmt::format("the model has no input \"{}\"; it has{}", name, list));
    const std::string path = unnamed ? word : word.substr(equals + 1);
    if (!inputs.emplace(name, read_input(fetched(path), value->second).to(model.device())).second) {
      throw UsageError(fmt::format("the input \"{}\" is there twice", name));
    }
  }
  for (const auto& [name, value] : known) {
    if (value.required && !inputs.contains(name) && value.dtype) {
      throw UsageError(fmt::format("the input \"{}\" is missing (--input {}=FILE); the model has{}", name, name, list));
    }
  }
  return inputs;
}

std::string file_name_of(std::string name) {
  for (char& c : name) {
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
  }
  while (name.starts_with('.')) name.erase(0, 1);
  return (name.empty() ? "output" : name) + ".npy";
}

// Milliseconds of each of `count` runs, the outputs computed.
std::vector<double> measure(const io::OnnxModel& model, const io::TensorMap& inputs, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& [name, tensor] : model.run(inputs)) tensor.hash();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

ExitCode run_model(const RunOptions& options) {
  const Device device = chosen_device(options.device);
  const auto model = io::load_onnx(fetched(options.model), {.device = device});
  const NoGrad no_grad;
  const io::TensorMap inputs = read_inputs(*model, options.inputs);
  const io::TensorMap outputs = model->run(inputs);
  JsonArray listed;
  for (const auto& [name, tensor] : outputs) {
    const std::string hash = hex(tensor.hash());
    if (!options.output.empty()) {
      os::make_directories(options.output);
      io::save_npy(options.output + "/" + file_name_of(name), tensor);
    }
    if (options.as_json) {
      JsonArray shape;
      for (const std::int64_t size : tensor.shape()) shape.add(json(size));
      listed.add(JsonObject()
                     .add("name", json(name))
                     .add("dtype", json(name_of(tensor.dtype())))
                     .add("shape", shape.text())
                     .add("hash", json(hash))
                     .text());
    } else {
      print_line(
          fmt::format("{}  {} {}  {}", printable(name), name_of(tensor.dtype()), tensor.shape().to_string(), hash));
    }
  }
  const std::vector<double> times = measure(*model, inputs, options.bench);
  if (options.as_json) {
    JsonObject object;
    object.add("device", json(device.to_string())).add("outputs", listed.text());
    if (!times.empty())
      object.add("runs", json(options.bench))
          .add("median_ms", json(times[times.size() / 2]))
          .add("least_ms", json(times.front()));
    print_line(object.text());
  } else if (!times.empty()) {
    print_line(fmt::format("{} runs on {}: median {:.3f} ms, least {:.3f} ms", options.bench, device.to_string(),
                           times[times.size() / 2], times.front()));
  }
  return kOk;
}

}  // namespace

void add_run(CommandLine& line) {
  Subcommand command = line.subcommand("run", "Run an ONNX model on arrays, pictures or numbers");
  const auto options = std::make_shared<RunOptions>();
  command.option("MODEL", options->model, "An ONNX model: a file, or hf:OWNER/NAME/FILE").required();
  command
      .option("--input", options->inputs,
              "NAME=FILE: a .npy file, a picture, or a text of numbers; once for each input")
      .one_value_each();
  command.option("--output", options->output, "A folder for the outputs, one NAME.npy each");
  command.option("--device", options->device, "Device, e.g. cpu, cuda:0, vulkan:0, or best").show_default();
  command.option("--bench", options->bench, "Run it this often again, and say how long a run takes").not_negative();
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep run model.onnx --input x=photo.png --output results\n"
      "  lockstep run model.onnx --input ids=ids.npy --input mask=mask.npy --json\n"
      "Each output is printed with its shape and the hash of its bits, which are the same on every device.");
  command.runs([options] { return run_model(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
