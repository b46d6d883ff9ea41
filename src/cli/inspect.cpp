// `lockstep inspect`: what a file holds.
#include <cctype>
#include <map>
#include <memory>

#include <fmt/format.h>

#include <lockstep/io.h>

#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, magic.size()) == magic;
}

void print_tensors(const std::string& path, bool as_json) {
  const io::FileListing listing = io::list_tensors(path);
  std::uint64_t bytes = 0;
  for (const io::TensorEntry& entry : listing.tensors) bytes += entry.bytes;
  if (as_json) {
    JsonArray tensors;
    for (const io::TensorEntry& entry : listing.tensors) {
      JsonArray shape;
      for (const std::int64_t size : entry.shape) shape.add(json(size));
      tensors.add(JsonObject()
                      .add("name", json(entry.name))
                      .add("dtype", json(name_of(entry.type)))
                      .add("shape", shape.text())
                      .add("bytes", json(entry.bytes))
                      .text());
    }
    JsonObject metadata;
    for (const auto& [key, value] : listing.metadata) metadata.add(key, json(value));
    print_line(JsonObject()
                   .add("file", json(path))
                   .add("format", json(listing.format))
                   .add("tensors", tensors.text())
                   .add("metadata", metadata.text())
                   .add("bytes", json(bytes))
                   .text());
    return;
  }
  const Style style;
  print_line(fmt::format("{}  {}", style.bold(printable(path)), listing.format));
  Table table;
  for (const io::TensorEntry& entry : listing.tensors) {
    table.add({{printable(entry.name)},
               {std::string(name_of(entry.type)), &Style::dim},
               {entry.shape.to_string()},
               {size_text(entry.bytes), &Style::dim, true}});
  }
  table.print(style, "  ");
  for (const auto& [key, value] : listing.metadata) {
    constexpr std::size_t kLongest = 200;
    const bool cut = value.size() > kLongest;
    print_line(fmt::format("  {} = {}{}", printable(key), printable(value.substr(0, kLongest)), cut ? "..." : ""));
  }
  print_line(fmt::format("{} tensors, {}", listing.tensors.size(), size_text(bytes)));
}

void print_image(const std::string& path, const char* format, bool as_json) {
  const io::Image image = io::load_image(path);
  if (as_json) {
    print_line(JsonObject()
                   .add("file", json(path))
                   .add("format", json(format))
                   .add("width", json(image.width))
                   .add("height", json(image.height))
                   .text());
  } else {
    print_line(fmt::format("{}  {}  {} x {} pixels", Style().bold(printable(path)), format, image.width, image.height));
  }
}

void print_records(const std::string& path, bool as_json) {
  const io::CifarFile file = io::CifarFile::load(path);
  std::map<int, std::size_t> counts;
  for (const std::uint8_t label : file.labels) ++counts[label];
  if (as_json) {
    JsonArray per_class;
    for (int label = 0; label < io::CifarFile::kClasses; ++label) per_class.add(json(counts[label]));
    print_line(JsonObject()
                   .add("file", json(path))
                   .add("format", json("CIFAR-10"))
                   .add("records", json(file.size()))
                   .add("per_class", per_class.text())
                   .text());
    return;
  }
  print_line(fmt::format("{}  CIFAR-10  {} records of 32 x 32 pixels", Style().bold(printable(path)), file.size()));
  Table table;
  for (const auto& [label, count] : counts) {
    table.add({{fmt::format("class {}", label)}, {fmt::format("{}", count), nullptr, true}});
  }
  table.print(Style(), "  ");
}

ExitCode inspect(const std::string& path, bool as_json) {
  const os::FileBytes file = os::map_file(path);
  if (starts_with(file.bytes, "\x89PNG")) {
    print_image(path, "PNG", as_json);
  } else if (starts_with(file.bytes, "\xff\xd8\xff")) {
    print_image(path, "JPEG", as_json);
  } else if (path.size() > 4 && path.ends_with(".bin")) {
    print_records(path, as_json);
  } else {
    print_tensors(path, as_json);
  }
  return kOk;
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
              "safetensors, PyTorch (.pt, .pth, .th), NumPy (.npy, .npz), PNG, JPEG, CIFAR-10 (.bin)")
      .required();
  command.footer(
      "Examples:\n"
      "  lockstep inspect model.safetensors\n"
      "  lockstep inspect --json checkpoint.pth\n"
      "Nothing in the file is executed, and its tensors are not read.");
  command.runs([options] { return inspect(options->file, options->as_json); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
