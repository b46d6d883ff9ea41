// `lockstep info`: what this build and this machine can do.
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include <lockstep/device.h>
#include <lockstep/dist.h>
#include <lockstep/error.h>
#include <lockstep/numerics.h>
#include <lockstep/threads.h>
#include <lockstep/version.h>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"
#include "dist/engines.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

/// A device's lines, or why it cannot be used.
std::string description_of(const Device& device) {
  try {
    return backend_of(device).description();
  } catch (const DeviceError& error) {
    return error.what();
  }
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa isa : available_isas()) names.emplace_back(name_of(isa));
  return names;
}

void print_info_json() {
  JsonArray isas;
  for (const std::string& name : isa_names()) isas.add(json(name));
  JsonArray devices;
  for (const Device& device : Device::all()) {
    devices.add(
        JsonObject().add("device", json(device.to_string())).add("description", json(description_of(device))).text());
  }
  JsonArray unavailable;
  for (const MissingDevices& missing : missing_devices()) {
    unavailable.add(JsonObject()
                        .add("device", json(name_of(missing.kind)))
                        .add("reason", json(missing.reason))
                        .add("fix", json(missing.fix))
                        .text());
  }
  JsonArray numerics;
  for (const Numerics one : {Numerics::exact, Numerics::blocked, Numerics::fast, Numerics::q8})
    numerics.add(json(name_of(one)));
  const std::string cpu = JsonObject()
                              .add("name", json(processor_name()))
                              .add("isa", json(name_of(selected_isa())))
                              .add("available_isas", isas.text())
                              .text();
  JsonArray engines;
  for (const dist::EngineInfo& engine : dist::known_engines()) {
    engines.add(JsonObject()
                    .add("engine", json(engine.name))
                    .add("version", json(engine.version))
                    .add("problem", json(engine.problem))
                    .text());
  }
  JsonArray links;
  for (const dist::Link& link : dist::links()) {
    links.add(JsonObject()
                  .add("from", json(link.from.to_string()))
                  .add("to", json(link.to.to_string()))
                  .add("direct", json(link.is_direct))
                  .text());
  }
  print_line(JsonObject()
                 .add("version", json(kVersion))
                 .add("best", json(Device::best().to_string()))
                 .add("cpu", cpu)
                 .add("threads", json(num_threads()))
                 .add("numerics", numerics.text())
                 .add("memory_bytes", json(os::physical_memory_bytes()))
                 .add("devices", devices.text())
                 .add("unavailable", unavailable.text())
                 .add("engines", engines.text())
                 .add("links", links.text())
                 .text());
}

void print_info_text() {
  const Style style;
  print_line(style.bold(fmt::format("Lockstep {}", kVersion)));
  Table machine;
  machine.add({{"processor"}, {processor_name()}});
  machine.add({{"memory"}, {size_text(os::physical_memory_bytes())}});
  machine.add({{"threads"}, {fmt::format("{}", num_threads())}});
  machine.add(
      {{"instructions"}, {fmt::format("{} (available: {})", name_of(selected_isa()), fmt::join(isa_names(), ", "))}});
  machine.add({{"numerics"},
               {fmt::format("{}, {}, {}; {} on devices that say so", name_of(Numerics::exact),
                            name_of(Numerics::blocked), name_of(Numerics::q8), name_of(Numerics::fast))}});
  machine.print(style, "  ");
  print_line("");
  print_line(style.bold("Devices"));
  for (const Device& device : Device::all()) {
    const bool best = device == Device::best();
    std::istringstream description(description_of(device));
    std::string line;
    for (bool first = true; std::getline(description, line); first = false) {
      print_line(fmt::format("  {}{}", line, first && best ? style.dim("  (default)") : ""));
    }
  }
  for (const dist::Link& link : dist::links()) {
    print_line(fmt::format("  {} to {}: {}", link.from.to_string(), link.to.to_string(),
                           link.is_direct ? "directly" : "through the host's memory"));
  }
  print_line("");
  print_line(style.bold("Groups of processes"));
  for (const dist::EngineInfo& engine : dist::known_engines()) {
    print_line(
        fmt::format("  {:14} {}", engine.name, engine.version.empty() ? style.dim(engine.problem) : engine.version));
  }
  print_line("");
  print_line(style.bold("Not available"));
  for (const MissingDevices& missing : missing_devices()) {
    print_line(fmt::format("  {:8} {}", name_of(missing.kind), missing.reason));
    print_line(fmt::format("           {}", style.dim(missing.fix)));
  }
}

}  // namespace

void add_info(CommandLine& line) {
  Subcommand command = line.subcommand("info", "Version, devices, and why others cannot be used");
  const auto as_json = std::make_shared<bool>(false);
  command.flag("--json", *as_json, "One JSON object instead of text");
  command.footer("Examples:\n  lockstep info\n  lockstep info --json");
  command.runs([as_json] {
    *as_json ? print_info_json() : print_info_text();
    return kOk;
  });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
