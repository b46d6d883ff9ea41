// `lockstep rerank`: which documents answer a query best.
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/models/rerank.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/terminal.h"
#include "core/checked.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct RerankArguments {
  std::string model;
  ProductOptions products;
  std::string query;
  std::vector<std::string> documents;
  std::string file;
  std::int64_t most = 0;
  std::int64_t most_tokens = 0;
  bool raw = false;
  std::string device = "best";
  bool as_json = false;
};

// All but empty lines.
std::vector<std::string> lines_of(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> lines_of_file(const std::string& path) {
  if (path == "-") return lines_of(std::cin);
  std::istringstream text{std::string(lockstep::text_of(os::read_file(path).bytes))};
  return lines_of(text);
}

models::RerankForm form_of(const RerankArguments& arguments, const std::string& path,
                           const models::LanguageModel& model) {
  models::RerankForm form = models::rerank_form_of(path, model);
  if (arguments.raw) form.sigmoid = false;
  const bool shorter = form.most_tokens == 0 || arguments.most_tokens < form.most_tokens;
  if (arguments.most_tokens > 0 && shorter) form.most_tokens = arguments.most_tokens;
  return form;
}

ExitCode rerank(RerankArguments arguments) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  if (!arguments.file.empty()) {
    for (std::string& line : lines_of_file(arguments.file)) arguments.documents.push_back(std::move(line));
  }
  if (arguments.documents.empty()) throw UsageError("rerank needs documents behind the query, or a --file with some");
  const Device device = chosen_device(arguments.device);
  const std::string path = fetched_model(arguments.model);
  const auto model = models::load_language_model(path, device);
  const models::RerankForm form = form_of(arguments, path, *model);
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  const NumericsScope numerics(arguments.products.chosen());
  std::vector<float> scores;
  Progress progress(arguments.documents.size());
  for (const std::string& document : arguments.documents) {
    scores.push_back(models::rerank(*model, tokenizer, arguments.query, {document}, form, device).front());
    progress.show(scores.size());
  }
  progress.clear();
  std::vector<std::size_t> order = models::best_first(scores);
  if (arguments.most > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(arguments.most)));
  for (const std::size_t index : order) {
    const std::string& document = arguments.documents[index];
    if (arguments.as_json) {
      print_line(JsonObject()
                     .add("index", json(index))
                     .add("score", json(scores[index]))
                     .add("document", json(document))
                     .text());
    } else {
      print_line(fmt::format("{:9.4f}  {}", scores[index], printable(document)));
    }
  }
  return kOk;
}

}  // namespace

void add_rerank(CommandLine& line) {
  Subcommand command = line.subcommand("rerank", "Which documents answer a query best, by a cross-encoder");
  const auto arguments = std::make_shared<RerankArguments>();
  command.option("--model", arguments->model, "A reranker: a folder, a GGUF file, or hf:OWNER/NAME").required();
  arguments->products.add_to(command);
  command.option("QUERY", arguments->query, "What is asked").required();
  command.option("DOCUMENT", arguments->documents, "Texts");
  command.option("--file", arguments->file, "Further documents, one a line; -: of standard input");
  command.option("--top", arguments->most, "Only so many, the best").positive();
  command
      .option("--most-tokens", arguments->most_tokens,
              "Of a query and a document; absent: as many as the model reads. Longer ones lose their ends")
      .positive();
  command.flag("--raw", arguments->raw, "Logits; without it what the model says, mostly sigmoids of them");
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--json", arguments->as_json, "One JSON object a line");
  command.footer(
      "Examples:\n"
      "  lockstep rerank --model bge-reranker-v2-m3 \"what do cats eat\" \"Cats eat fish.\" \"It rains.\"\n"
      "  lockstep rerank --model bge-reranker-v2-m3-Q8_0.gguf --file passages.txt --top 5 \"how far is the moon\"");
  command.runs([arguments] { return rerank(*arguments); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
