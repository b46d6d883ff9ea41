// Operators that read their inputs and work on the host: those whose results' sizes depend on their inputs' values, and
// the one that looks things up in a dictionary.
#include <lockstep/ops.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

struct Box {
  float y1, x1, y2, x2;
};

// Corners in any order, or a centre with sizes.
Box box_at(const std::vector<float>& boxes, std::size_t i, bool centred) {
  const float a = boxes[4 * i], b = boxes[4 * i + 1], c = boxes[4 * i + 2], d = boxes[4 * i + 3];
  if (centred) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  const float common = height * width;
  const float all = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - common;
  return all <= 0 ? 0 : common / all;
}

// boxes [N, B, 4], scores [N, C, B] to rows (batch, class, box), best first within a class.
std::vector<Tensor> non_max_suppression(const Call& call) {
  const Shape& shape = call.shape(1);
  call.require(shape.rank() == 3 && call.shape(0).rank() == 3 && call.shape(0)[2] == 4 &&
                   call.shape(0)[1] == shape[2] && call.shape(0)[0] == shape[0],
               "boxes and scores do not fit");
  const std::vector<float> boxes = call.input(0).to_vector<float>();
  const std::vector<float> scores = call.input(1).to_vector<float>();
  const auto most = static_cast<std::int64_t>(number_or(call, 2, 0));
  const auto threshold = static_cast<float>(number_or(call, 3, 0));
  const bool limited = call.has(4);
  const auto least = static_cast<float>(number_or(call, 4, 0));
  const bool centred = call.integer("center_point_box", 0) != 0;
  const auto count = static_cast<std::size_t>(shape[2]);
  std::vector<std::int64_t> chosen;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      const float* score = scores.data() + static_cast<std::size_t>(n * shape[1] + c) * count;
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < count; ++i) {
        if (!limited || score[i] > least) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
      std::vector<Box> kept;
      for (const std::size_t i : order) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        const Box box = box_at(boxes, static_cast<std::size_t>(n) * count + i, centred);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlap(box, other) > threshold; }))
          continue;
        kept.push_back(box);
        for (const std::int64_t value : {n, c, static_cast<std::int64_t>(i)}) chosen.push_back(value);
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(chosen.size() / 3);
  return {Tensor::from(chosen, {rows, 3}, call.device())};
}

// The different slices along an axis (or elements), each with its first place and how often it is there.
std::vector<Tensor> unique_slices(const Call& call) {
  const bool flat = !call.has_attribute("axis");
  const Tensor x = flat ? call.input(0).reshape({-1}) : call.input(0);
  const int axis = flat ? 0 : axis_of(call, call.integer("axis"), x.rank());
  const Tensor rows = x.movedim(axis, 0).reshape({x.shape()[axis], -1});
  if (is_storage_only(x.dtype())) call.unsupported("elements of type " + std::string(name_of(x.dtype())));
  const std::vector<double> values = rows.to(Device{}).to(DType::f64).to_vector<double>();
  const auto width = static_cast<std::size_t>(rows.shape()[1]);
  const auto count = static_cast<std::size_t>(rows.shape()[0]);
  const auto less = [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(&values[a * width], &values[a * width] + width, &values[b * width],
                                        &values[b * width] + width);
  };
  std::map<std::size_t, std::vector<std::size_t>, decltype(less)> groups(less);
  for (std::size_t i = 0; i < count; ++i) groups[i].push_back(i);
  std::vector<const std::vector<std::size_t>*> order;
  for (const auto& [first, members] : groups) order.push_back(&members);
  if (call.integer("sorted", 1) == 0) {
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->front() < b->front(); });
  }
  std::vector<std::int64_t> firsts, counts, inverse(count);
  for (std::size_t k = 0; k < order.size(); ++k) {
    firsts.push_back(static_cast<std::int64_t>(order[k]->front()));
    counts.push_back(static_cast<std::int64_t>(order[k]->size()));
    for (const std::size_t member : *order[k]) inverse[member] = static_cast<std::int64_t>(k);
  }
  const auto list = [&](const std::vector<std::int64_t>& numbers) {
    return Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())}, call.device());
  };
  const Tensor places = list(firsts);
  return {index_select(x, axis, places), places, list(inverse), list(counts)};
}

std::string check_unique(const NodeFacts& node) {
  return node.version() < 11 ? "this version is not supported" : "";
}

// Blocks [N, C * block, L] added up in pictures [N, C, ...] of two dimensions.
std::vector<Tensor> col2im(const Call& call) {
  const std::vector<std::int64_t> image = call.host_integers(1);
  const std::vector<std::int64_t> block = call.host_integers(2);
  if (image.size() != 2 || block.size() != 2) call.unsupported("pictures of another rank than 2");
  const std::vector<std::int64_t> pads = call.integers("pads", {0, 0, 0, 0});
  call.require(pads.size() == 4, "pads must be four");
  const UnfoldOptions options{.dilation = shape_of(call.integers("dilations", {1, 1})),
                              .stride = shape_of(call.integers("strides", {1, 1}))};
  const Tensor whole =
      fold(call.input(0), {image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]}, shape_of(block), options);
  return {pad_spatial(whole, {-pads[0], -pads[1]}, {-pads[2], -pads[3]}, 0)};
}

// New keys or values of each sequence written into its cache from a position on.
std::vector<Tensor> tensor_scatter(const Call& call) {
  const Tensor& cache = call.input(0);
  const Tensor& update = call.input(1);
  const int axis = axis_of(call, call.integer("axis", -2), cache.rank());
  call.require(axis > 0, "the axis is that of the batch");
  const std::int64_t length = update.shape()[axis];
  const std::int64_t capacity = cache.shape()[axis];
  Tensor places =
      arange(static_cast<double>(length), {.dtype = DType::i64, .device = call.device()}).reshape({1, length});
  if (call.has(2)) places = add(places, call.input(2).to(DType::i64).reshape({-1, 1}));
  if (call.text("mode", "linear") == "circular") places = remainder(places, static_cast<double>(capacity));
  Shape shape = Shape::filled(cache.rank(), 1);
  shape[0] = places.shape()[0];
  shape[axis] = length;
  return {scatter(cache, axis, places.reshape(shape).expand(update.shape()), update)};
}

// More elements than a host's list should have; what a file states may be multiplied by what it computes.
constexpr std::int64_t kMostCounts = std::int64_t{1} << 28;

// How often each n-gram of a dictionary of integers is in a row: x [C] or [N, C] to f32 [columns] or [N, columns]. An
// n-gram's elements may lie up to max_skip_count + 1 apart, all equally. As ONNX Runtime has it.
std::vector<Tensor> tfidf_vectorizer(const Call& call) {
  const Shape& shape = call.shape(0);
  call.require(shape.rank() == 1 || shape.rank() == 2, "the input must have one or two dimensions");
  const std::vector<std::int64_t> x = call.host_integers(0);
  const std::vector<std::int64_t> pool = call.required_integers("pool_int64s");
  const std::vector<std::int64_t> starts = call.required_integers("ngram_counts");
  const std::vector<std::int64_t> column_of = call.required_integers("ngram_indexes");
  const std::vector<float> weights = call.numbers("weights");
  const std::int64_t shortest = call.integer("min_gram_length", 1), longest = call.integer("max_gram_length", 1);
  const std::int64_t most_skipped = call.integer("max_skip_count", 0);
  call.require(1 <= shortest && shortest <= longest && most_skipped >= 0,
               "the lengths of n-grams or their skips are not in order");
  // The dictionary: level n begins at starts[n - 1], and its n-grams are numbered behind those of shorter ones.
  std::vector<std::map<std::vector<std::int64_t>, std::int64_t>> levels(starts.size());
  std::size_t number = 0;
  for (std::size_t level = 0; level < starts.size(); ++level) {
    const std::int64_t end = level + 1 < starts.size() ? starts[level + 1] : std::ssize(pool);
    const auto length = static_cast<std::int64_t>(level) + 1;
    call.require(
        0 <= starts[level] && starts[level] <= end && end <= std::ssize(pool) && (end - starts[level]) % length == 0,
        "ngram_counts does not fit the pool");
    for (std::int64_t at = starts[level]; at < end; at += length, ++number) {
      call.require(number < column_of.size(), "ngram_indexes is shorter than the dictionary");
      const auto first = pool.begin() + at;
      const bool is_new = levels[level].emplace(std::vector(first, first + length), column_of[number]).second;
      call.require(is_new, "an n-gram is there twice");
    }
  }
  call.require(number == column_of.size() && number > 0, "ngram_indexes does not fit the dictionary");
  call.require(weights.empty() || weights.size() == number, "weights do not fit the dictionary");
  for (const std::int64_t column : column_of) {
    call.require(0 <= column && column < kMostCounts, "a column is negative or beyond 2^28");
  }
  const std::int64_t columns = *std::max_element(column_of.begin(), column_of.end()) + 1;
  const std::int64_t rows = shape.rank() == 2 ? shape[0] : 1, items = shape[shape.rank() - 1];
  if (rows > 0 && columns > kMostCounts / rows) call.unsupported("a result of more than 2^28 elements");

  std::vector<float> counts(static_cast<std::size_t>(rows * columns));
  std::vector<std::int64_t> gram;
  for (std::int64_t length = shortest; length <= std::min(longest, std::ssize(levels)); ++length) {
    const auto& level = levels[static_cast<std::size_t>(length - 1)];
    if (level.empty()) continue;
    const std::int64_t most_apart = length == 1 ? 1 : std::min(most_skipped, items) + 1;
    for (std::int64_t apart = 1; apart <= most_apart && (length - 1) * apart < items; ++apart) {
      for (std::int64_t place = 0; place < rows * items; ++place) {
        if (place % items + (length - 1) * apart >= items) continue;
        gram.clear();
        for (std::int64_t i = 0; i < length; ++i) gram.push_back(x[static_cast<std::size_t>(place + i * apart)]);
        const auto found = level.find(gram);
        if (found != level.end()) counts[static_cast<std::size_t>(place / items * columns + found->second)] += 1;
      }
    }
  }
  const std::string_view mode = call.text("mode", "TF");
  for (std::size_t i = 0; i < counts.size() && mode != "TF"; ++i) {
    const float weight = weights.empty() ? 1 : weights[i % static_cast<std::size_t>(columns)];
    counts[i] = (mode == "IDF" ? std::min(counts[i], 1.0f) : counts[i]) * weight;
  }
  return {Tensor::from(counts, shape.rank() == 2 ? Shape{rows, columns} : Shape{columns}, call.device())};
}

std::string check_tfidf_vectorizer(const NodeFacts& node) {
  if (node.has_attribute("pool_strings")) return "n-grams of strings";
  const std::string_view mode = node.text("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return "mode=" + std::string(mode);
  if (mode == "TF" || !node.has_attribute("weights")) return "";
  // A weight is of an n-gram in the specification, and of a column in ONNX Runtime.
  const std::vector<std::int64_t> columns = node.integers("ngram_indexes");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] != static_cast<std::int64_t>(i)) return "weights of columns in another order than the n-grams'";
  }
  return "";
}

constexpr Operator kHostOperators[] = {
    {.name = "NonMaxSuppression", .since = 10, .run = non_max_suppression},
    {.name = "Unique", .since = 11, .run = unique_slices, .check = check_unique},
    {.name = "Col2Im", .since = 18, .run = col2im},
    {.name = "TensorScatter", .since = 24, .run = tensor_scatter},
    {.name = "TfIdfVectorizer", .since = 9, .run = tfidf_vectorizer, .check = check_tfidf_vectorizer},
};

}  // namespace

std::span<const Operator> host_operators() {
  return kHostOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
