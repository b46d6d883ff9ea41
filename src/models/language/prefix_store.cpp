#include <lockstep/models/prefix_store.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/models/batch.h>
#include <lockstep/ops.h>

#include "models/language/layered.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

std::int64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) sum += tensor.numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
  }
  return sum;
}

}  // namespace

struct PrefixStore::Parts {
  using Tokens = std::vector<std::int64_t>;
  /// A page of a layer: keys and values as HeldHeads has them, and the state behind the page.
  struct LayerPage {
    std::vector<Tensor> keys, values;
    State state;
  };
  struct Page {
    Page* before = nullptr;
    std::map<Tokens, std::unique_ptr<Page>> next;
    std::vector<LayerPage> layers;
    bool whole = true;  ///< False: its state is not known, so a text cannot go on from here.
    std::int64_t bytes = 0;
    std::uint64_t used = 0;  ///< The time of its last use.
  };

  const LayeredModel* model = nullptr;
  std::int64_t most_bytes = 0;
  Page root;
  std::int64_t bytes = 0;
  std::int64_t pages = 0;
  std::uint64_t time = 0;

  static Tokens page_of(std::span<const std::int64_t> tokens, std::int64_t number) {
    const auto page = tokens.subspan(static_cast<std::size_t>(number * kPage), static_cast<std::size_t>(kPage));
    return {page.begin(), page.end()};
  }

  void set_states(Page& page, const LayeredCache& cache) {
    std::int64_t more = 0;
    for (std::size_t i = 0; i < page.layers.size(); ++i) {
      for (const Tensor& part : cache.layers[i].state) {
        page.layers[i].state.push_back(part.defined() ? part.clone() : part);
      }
      more += bytes_of(page.layers[i].state);
    }
    page.whole = true;
    page.bytes += more;
    bytes += more;
  }

  std::unique_ptr<Page> make_page(const LayeredCache& cache, std::int64_t number) {
    auto page = std::make_unique<Page>();
    const Positions own{number * kPage, kPage};
    for (const LayerMemory& layer : cache.layers) {
      LayerPage& kept = page->layers.emplace_back();
      if (layer.keys.defined()) {
        kept.keys = layer.keys.copy(own);
        kept.values = layer.values.copy(own);
      }
      page->bytes += bytes_of(kept.keys) + bytes_of(kept.values);
    }
    page->whole = !model->has_state();
    bytes += page->bytes;
    ++pages;
    return page;
  }

  // In memory of their own, so that nothing else is kept alive by them.
  static void eval(Page& page) {
    for (LayerPage& layer : page.layers) {
      for (std::vector<Tensor>* tensors : {&layer.keys, &layer.values, &layer.state}) {
        for (Tensor& tensor : *tensors) {
          if (tensor.defined()) tensor.eval();
        }
      }
    }
  }

  // The page without others behind it that was not used for the longest time, of those below `page`.
  static Page* oldest_below(Page& page) {
    Page* result = nullptr;
    for (const auto& [tokens, next] : page.next) {
      Page* found = next->next.empty() ? next.get() : oldest_below(*next);
      if (result == nullptr || found->used < result->used) result = found;
    }
    return result;
  }

  void make_room() {
    while (bytes > most_bytes) {
      Page* oldest = oldest_below(root);
      bytes -= oldest->bytes;
      --pages;
      auto& siblings = oldest->before->next;
      siblings.erase(std::find_if(siblings.begin(), siblings.end(),
                                  [&](const auto& entry) { return entry.second.get() == oldest; }));
    }
  }
};

PrefixStore::PrefixStore(const LanguageModel& model, std::int64_t bytes) : parts_(std::make_unique<Parts>()) {
  if (!StepBatch::supports(model)) {
    throw ValueError(fmt::format("PrefixStore: what {} remembers cannot be kept in pages", model.family()));
  }
  parts_->model = dynamic_cast<const LayeredModel*>(&model);
  parts_->most_bytes = bytes;
}

PrefixStore::~PrefixStore() = default;

std::int64_t PrefixStore::bytes() const {
  return parts_->bytes;
}
std::int64_t PrefixStore::pages() const {
  return parts_->pages;
}

std::unique_ptr<LanguageCache> PrefixStore::find(std::span<const std::int64_t> tokens) {
  std::vector<Parts::Page*> path;
  Parts::Page* at = &parts_->root;
  const std::int64_t most = (static_cast<std::int64_t>(tokens.size()) - 1) / kPage;
  for (std::int64_t number = 0; number < most; ++number) {
    const auto next = at->next.find(Parts::page_of(tokens, number));
    if (next == at->next.end()) break;
    at = next->second.get();
    path.push_back(at);
  }
  while (!path.empty() && !path.back()->whole) path.pop_back();
  auto cache = std::make_unique<LayeredCache>(*parts_->model);
  if (path.empty()) return cache;
  const NoGrad no_grad;
  ++parts_->time;
  for (Parts::Page* page : path) page->used = parts_->time;
  for (std::size_t i = 0; i < cache->layers.size(); ++i) {
    std::vector<std::vector<Tensor>> keys, values;
    for (const Parts::Page* page : path) {
      keys.push_back(page->layers[i].keys);
      values.push_back(page->layers[i].values);
    }
    LayerMemory& layer = cache->layers[i];
    if (!keys.front().empty()) {
      layer.keys.join(keys);
      layer.values.join(values);
    }
    layer.state = path.back()->layers[i].state;
  }
  cache->grow(static_cast<std::int64_t>(path.size()) * kPage);
  return cache;
}

void PrefixStore::put(std::span<const std::int64_t> tokens, const LanguageCache& cache) {
  const auto* own = dynamic_cast<const LayeredCache*>(&cache);
  if (own == nullptr || own->owner != parts_->model) throw ValueError("PrefixStore: the cache is another model's");
  const std::int64_t length = own->length();
  if (static_cast<std::int64_t>(tokens.size()) < length) {
    throw ValueError(fmt::format("PrefixStore: {} tokens, and the cache remembers {}", tokens.size(), length));
  }
  if (length < kPage || parts_->most_bytes <= 0) return;
  if (own->rows() != 1) throw ValueError("PrefixStore: the cache is not that of one text");
  const NoGrad no_grad;
  ++parts_->time;
  std::vector<Parts::Page*> made;
  Parts::Page* at = &parts_->root;
  for (std::int64_t number = 0; (number + 1) * kPage <= length; ++number) {
    auto& next = at->next[Parts::page_of(tokens, number)];
    if (next == nullptr) {
      next = parts_->make_page(*own, number);
      next->before = at;
      made.push_back(next.get());
    }
    at = next.get();
    at->used = parts_->time;
  }
  if (!at->whole && length % kPage == 0) {
    parts_->set_states(*at, *own);
    if (made.empty() || made.back() != at) made.push_back(at);
  }
  for (Parts::Page* page : made) Parts::eval(*page);
  parts_->make_room();
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
