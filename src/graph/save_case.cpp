#include <lockstep/save_case.h>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "backends/backend.h"
#include "graph/kernel_case.h"
#include "graph/kernel_watch.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

void save_case(const std::string& file, const std::vector<Tensor>& results, CallSite site) {
  using namespace graph;
  const CallScope call("save_case", site);
  check<ValueError>(!results.empty(), "there are no results", {}, "give the tensors whose computation is to be kept");
  for (const Tensor& result : results) {
    check_defined({{"result", result}});
    check<DeviceError>(result.device() == results[0].device(), "the results are on several devices",
                       {{"first", results[0]}, {"other", result}}, "save a case for each");
  }
  const Device device = results[0].device();
  KernelCase work;
  // A flush of another thread would compute them, and let go of what they are made from.
  run_exclusively(device, [&] {
    std::vector<NodeRef> roots;
    for (const Tensor& result : results) {
      const NodeRef& node = Access::node(result);
      const bool is_view = form_of(node->op) == Form::view;
      if (is_view || node->ready.load(std::memory_order_acquire)) {
        fail<ValueError>(is_view ? "a view is not computed" : "the result is computed already, and how is forgotten",
                         {{"result", result}},
                         is_view ? "save what it is a view of, or view.contiguous()"
                                 : "save the case before the value is read or evaluated");
      }
      roots.push_back(node);
    }
    const Window window = describe(roots);
    std::vector<int> entries;
    for (const NodeRef& root : roots) {
      for (std::size_t e = 0; e < window.nodes.size(); ++e) {
        if (window.nodes[e] == root) entries.push_back(static_cast<int>(e));
      }
    }
    work = case_of(window, entries, [&](int entry) -> std::optional<Bytes> {
      const auto e = static_cast<std::size_t>(entry);
      if (!window.values[e].given) return std::nullopt;
      return bytes_of(backend_of(device), *window.nodes[e], window.nodes[e]->buffer);
    });
  });
  for (std::size_t i = 0; i < results.size(); ++i) {
    Bytes& bytes = work.results[i].expected;
    bytes.resize(static_cast<std::size_t>(results[i].numel()) * size_of(results[i].dtype()));
    results[i].read_bytes(bytes.data());
  }
  work.story = {{"called_at", fmt::format("{}:{}", site.file, site.line)}, {"device", device.to_string()}};
  write_case(file, work);
}

}  // namespace v0
}  // namespace lockstep
