// `lockstep quantize`: a GGUF file with its weights in blocks.
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/io/gguf.h>

#include "cli/command_line.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct QuantizeOptions {
  std::string input;
  std::string output;
  std::string type;
  bool as_json = false;
};

ExitCode quantize_file(const QuantizeOptions& options) {
  const std::string input = fetched(options.input);
  if (std::error_code error; std::filesystem::equivalent(input, options.output, error)) {
    throw UsageError("OUT is IN, whose unrounded weights would be lost: give another name");
  }
  const os::StopRequest stop("");  // so that no part of a file stays behind
  const auto tensors = io::quantize_gguf(input, options.output, options.type);
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::size_t packed = 0;
  JsonArray list;
  Table table;
  for (const io::QuantizedTensor& tensor : tensors) {
    before += tensor.bytes_before;
    after += tensor.bytes_after;
    packed += tensor.from != tensor.to;
    if (options.as_json) {
      list.add(JsonObject()
                   .add("name", json(tensor.name))
                   .add("from", json(tensor.from))
                   .add("to", json(tensor.to))
                   .add("bytes_before", json(tensor.bytes_before))
                   .add("bytes_after", json(tensor.bytes_after))
                   .text());
    } else {
      table.add({{printable(tensor.name)},
                 {tensor.from, &Style::dim},
                 {tensor.from == tensor.to ? std::string("as it is") : tensor.to},
                 {size_text(tensor.bytes_after), &Style::dim, true}});
    }
  }
  if (options.as_json) {
    print_line(JsonObject()
                   .add("file", json(options.output))
                   .add("type", json(options.type))
                   .add("tensors", list.text())
                   .add("bytes_before", json(before))
                   .add("bytes_after", json(after))
                   .text());
    return kOk;
  }
  table.print(Style(), "  ");
  print_line(fmt::format("{} of {} tensors packed as {}: {} became {}", packed, tensors.size(), options.type,
                         size_text(before), size_text(after)));
  return kOk;
}

}  // namespace

void add_quantize(CommandLine& line) {
  Subcommand command = line.subcommand("quantize", "Write a GGUF file with its weights packed in blocks");
  const auto options = std::make_shared<QuantizeOptions>();
  command.option("IN", options->input, "A GGUF file of F32, F16 or BF16, or hf:OWNER/NAME/FILE").required();
  command.option("OUT", options->output, "The file to write").required();
  command.option("--type", options->type, "The type of blocks, or a mixture of types")
      .required()
      .one_of(io::quantizable_types());
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep quantize model-f16.gguf model-q8_0.gguf --type Q8_0\n"
      "  lockstep quantize model-f16.gguf model-q4_k_m.gguf --type Q4_K_M\n"
      "Norms, routers, tables of positions, and rows that are no whole blocks stay as they are.");
  command.runs([options] { return quantize_file(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
