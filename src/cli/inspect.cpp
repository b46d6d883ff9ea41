// `lockstep inspect`: what a file holds.
#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"
#include "io/formats.h"
#include "io/reading.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

std::string json_of_value(const io::MetadataValue& value);

template <typename T> std::string json_of_element(const T& value) {
  if constexpr (std::is_same_v<T, io::MetadataValue>) {
    return json_of_value(value);
  } else {
    return json(value);
  }
}

std::string json_of_value(const io::MetadataValue& value) {
  return std::visit(
      []<typename T>(const T& v) {
        if constexpr (requires { typename T::allocator_type; } && !std::is_same_v<T, std::string>) {
          JsonArray array;
          for (std::size_t i = 0; i < v.size(); ++i) array.add(json_of_element<typename T::value_type>(v[i]));
          return array.text();
        } else {
          return json(v);
        }
      },
      value.variant());
}

std::string_view type_text(const io::TensorEntry& entry) {
  return entry.encoding.empty() ? name_of(entry.type) : std::string_view(entry.encoding);
}

void print_tensors(const os::FileBytes& file, const io::Format& format, bool as_json) {
  const std::unique_ptr<io::TensorSource> source = io::open_tensors(format, file, {});
  const io::Metadata texts = source->metadata();
  std::uint64_t bytes = 0;
  for (const io::TensorEntry& entry : source->entries()) bytes += entry.bytes;
  if (as_json) {
    JsonArray tensors;
    for (const io::TensorEntry& entry : source->entries()) {
      JsonArray shape;
      for (const std::int64_t size : entry.shape) shape.add(json(size));
      tensors.add(JsonObject()
                      .add("name", json(entry.name))
                      .add("dtype", json(type_text(entry)))
                      .add("shape", shape.text())
                      .add("bytes", json(entry.bytes))
                      .text());
    }
    JsonObject metadata;
    for (const auto& [key, value] : texts) metadata.add(key, json_of_value(value));
    print_line(JsonObject()
                   .add("file", json(file.path))
                   .add("format", json(format.name))
                   .add("tensors", tensors.text())
                   .add("metadata", metadata.text())
                   .add("bytes", json(bytes))
                   .text());
    return;
  }
  const Style style;
  print_line(fmt::format("{}  {}", style.bold(printable(file.path)), format.name));
  Table table;
  for (const io::TensorEntry& entry : source->entries()) {
    table.add({{printable(entry.name)},
               {std::string(type_text(entry)), &Style::dim},
               {entry.shape.to_string()},
               {size_text(entry.bytes), &Style::dim, true}});
  }
  table.print(style, "  ");
  const std::string notes = source->notes();
  for (const auto& [key, value] : texts) {
    // The notes say the same in lines that people can read.
    if (!notes.empty() && value.get_if<std::vector<std::string>>() != nullptr) continue;
    constexpr std::size_t kLongest = 200;
    const std::string text = value.to_string();
    const bool cut = text.size() > kLongest;
    print_line(fmt::format("  {} = {}{}", printable(key), printable(text.substr(0, kLongest)), cut ? "..." : ""));
  }
  for (std::size_t at = 0; at < notes.size();) {
    const std::size_t end = std::min(notes.find('\n', at), notes.size());
    print_line("  " + printable(notes.substr(at, end - at)));
    at = end + 1;
  }
  print_line(fmt::format("{} tensors, {}", source->entries().size(), size_text(bytes)));
}

void print_image(const os::FileBytes& file, const char* format, const io::Image& image, bool as_json) {
  if (as_json) {
    print_line(JsonObject()
                   .add("file", json(file.path))
                   .add("format", json(format))
                   .add("width", json(image.width))
                   .add("height", json(image.height))
                   .text());
  } else {
    print_line(
        fmt::format("{}  {}  {} x {} pixels", Style().bold(printable(file.path)), format, image.width, image.height));
  }
}

void print_records(const os::FileBytes& file, const char* format, const io::CifarFile& records, bool as_json) {
  std::map<int, std::size_t> counts;
  for (const std::uint8_t label : records.labels) ++counts[label];
  if (as_json) {
    JsonArray per_class;
    for (int label = 0; label < io::CifarFile::kClasses; ++label) per_class.add(json(counts[label]));
    print_line(JsonObject()
                   .add("file", json(file.path))
                   .add("format", json(format))
                   .add("records", json(records.size()))
                   .add("per_class", per_class.text())
                   .text());
    return;
  }
  print_line(
      fmt::format("{}  {}  {} records of 32 x 32 pixels", Style().bold(printable(file.path)), format, records.size()));
  Table table;
  for (const auto& [label, count] : counts) {
    table.add({{fmt::format("class {}", label)}, {fmt::format("{}", count), nullptr, true}});
  }
  table.print(Style(), "  ");
}

// A way to print for each way to read: a format that is read in a new way does not compile before it has one.
struct Printer {
  const os::FileBytes& file;
  const io::Format& format;
  bool as_json;

  void operator()(io::OpenTensors*) const { print_tensors(file, format, as_json); }
  void operator()(io::DecodePicture* decode) const {
    print_image(file, format.name, decode(file.path, file.bytes), as_json);
  }
  void operator()(io::ParseRecords* parse) const {
    print_records(file, format.name, parse(file.path, file.bytes), as_json);
  }
  void operator()(const io::NotRead&) const {}  // readable_format has refused it
};

ExitCode inspect(const std::string& path, bool as_json) {
  const os::FileBytes file = os::map_file(path);
  const io::Format& format = io::readable_format(file);
  return io::reading(path, [&] {
    std::visit(Printer{file, format, as_json}, format.reader);
    return kOk;
  });
}

}  // namespace

void add_inspect(CommandLine& line) {
  struct Options {
    std::string file;
    bool as_json = false;
  };
  Subcommand command = line.subcommand("inspect", "List what a file of tensors, or a picture, holds");
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command
      .option("FILE", options->file,
              "safetensors, GGUF, ONNX, PyTorch (.pt, .pth, .th), NumPy (.npy, .npz), PNG, JPEG, CIFAR-10 (.bin)")
      .required();
  command.footer(
      "Examples:\n"
      "  lockstep inspect model.safetensors\n"
      "  lockstep inspect --json checkpoint.pth\n"
      "Nothing in the file is executed, and its tensors are not read.");
  command.runs([options] { return inspect(fetched(options->file), options->as_json); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
