// Attention as a graph of cuDNN's operations, in the form that its fused kernels are found by: products, and between
// them the softmax step by step. The gradients' dq is a product of stored dP, not a sum by atomic operations: so they
// repeat.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/cuda/cudnn.h"
#include "backends/gpu/cuda/cudnn_graph.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

// The library's numbers for kinds of objects,
constexpr int kDnnPointwise = 0, kDnnPointwiseOperation = 13, kDnnMatmul = 18, kDnnMatmulOperation = 19,
              kDnnReduction = 21, kDnnReductionOperation = 22, kDnnReshapeOperation = 31;
// for attributes,
constexpr int kDnnPointwiseDoes = 0, kDnnPointwiseIn = 1, kDnnPointwiseAxis = 9;
constexpr int kDnnPointwiseBy = 750, kDnnPointwiseX = 751, kDnnPointwiseB = 752, kDnnPointwiseY = 753,
              kDnnPointwiseT = 758;
constexpr int kDnnMatmulIn = 1500, kDnnMatmulA = 1520, kDnnMatmulB = 1521, kDnnMatmulC = 1522, kDnnMatmulBy = 1523;
constexpr int kDnnReductionDoes = 1600, kDnnReductionIn = 1601, kDnnReductionX = 1610, kDnnReductionY = 1611,
              kDnnReductionBy = 1612;
constexpr int kDnnReshapeX = 2200, kDnnReshapeY = 2201;
// for what pointwise operations do,
constexpr int kDnnAdd = 0, kDnnMul = 1, kDnnDiv = 6, kDnnSub = 9, kDnnExp = 13, kDnnLog = 15, kDnnAtLeast = 303,
              kDnnIndex = 501, kDnnSelect = 601;
// and reductions.
constexpr int kDnnSum = 0, kDnnMax = 3;

/// Of the version that it was tried with; older ones have other rules for lengths and hidden scores.
constexpr std::size_t kDnnAttentionVersion = 91900;

/// Numbers of tensors in memory: the launch's words in their order, and then the shares.
constexpr std::int64_t kDnnQuery = 1, kDnnKey = 2, kDnnValue = 3, kDnnResult = 4, kDnnLogSums = 5, kDnnUpstream = 6,
                       kDnnQueryGradient = 7, kDnnKeyGradient = 8, kDnnValueGradient = 9, kDnnShares = 10;
/// Of values on the host.
constexpr std::int64_t kDnnScale = 11, kDnnHidden = 12, kDnnOne = 13, kDnnKeys = 14, kDnnRows = 15;

}  // namespace

struct Cudnn::Attention::Plan {
  /// A tensor, by its place among the parts.
  struct Value {
    std::size_t part = 0;
    Shape sizes, steps;
  };

  Plan(Handle library, const LibraryAttention& of);

  std::vector<DnnObject> operations();
  void forward();
  void backward();

  const DnnObject& object(const Value& value) const { return parts[value.part]; }
  Value tensor(int type, const Shape& sizes, const Shape& steps, std::int64_t number, bool is_inside, bool on_host);
  Value in_memory(std::int64_t number, const Shape& sizes, const Shape& steps) {
    return tensor(cudnn_type(attention.dtype), sizes, steps, number, false, false);
  }
  Value inside(int type, const Shape& sizes, const Shape& steps) {
    return tensor(type, sizes, steps, next_inside++, true, false);
  }
  Value inside(const Value& like, int type = kDnnF32) { return inside(type, like.sizes, like.steps); }
  Value scalar(std::int64_t number, int type = kDnnF32) {
    return tensor(type, {1, 1, 1, 1}, {1, 1, 1, 1}, number, false, true);
  }
  Value scores() {
    const AttentionSizes& s = attention.sizes;
    return inside(kDnnF32, {s.batches, s.heads, s.rows, s.keys},
                  {s.heads * s.rows * s.keys, s.rows * s.keys, s.keys, 1});
  }
  /// An f32 for each query: inside, or in memory.
  Value per_query(std::int64_t number = 0) {
    const AttentionSizes& s = attention.sizes;
    const Shape sizes{s.batches, s.heads, s.rows, 1};
    const Shape steps{s.heads * s.rows, s.rows, 1, 1};
    return number == 0 ? inside(kDnnF32, sizes, steps) : tensor(kDnnF32, sizes, steps, number, false, false);
  }
  /// [batches, heads, positions, width] with its steps; `turned`: width before positions.
  Value operand(std::int64_t number, std::int64_t heads, std::int64_t positions, const LibraryAttention::Steps& steps,
                bool turned = false) {
    const AttentionSizes& s = attention.sizes;
    if (turned) {
      return in_memory(number, {s.batches, heads, s.width, positions}, {steps[0], steps[1], 1, steps[2]});
    }
    return in_memory(number, {s.batches, heads, positions, s.width}, {steps[0], steps[1], steps[2], 1});
  }
  /// As AttentionSizes has it.
  Value made(std::int64_t number, std::int64_t heads, std::int64_t positions) {
    const std::int64_t width = attention.sizes.width;
    return operand(number, heads, positions, {positions * heads * width, width, heads * width});
  }

  /// A pointwise operation, which computes in `in`.
  void point(int does, int in, const Value& x, const Value* b, const Value* t, const Value& y, int axis = -1);
  Value point(int does, const Value& x) {
    Value y = inside(x);
    point(does, kDnnF32, x, nullptr, nullptr, y);
    return y;
  }
  Value point(int does, const Value& x, const Value& b) {
    Value y = inside(x);
    point(does, kDnnF32, x, &b, nullptr, y);
    return y;
  }
  void multiply(const Value& a, const Value& b, const Value& c);
  void reduce(int does, const Value& x, const Value& y);
  void reshape(const Value& x, const Value& y);
  /// Scaled, and hidden where the key is not seen.
  Value scaled(const Value& product) { return point(kDnnMul, product, scale); }
  Value masked(const Value& score);
  void product_of_keys(const Value& weights, const Value& right, const Value& out);

  LibraryAttention attention;
  std::vector<DnnObject> parts, sequence;
  Value scale;
  std::int64_t next_inside = 100;
  std::vector<std::int64_t> numbers;  ///< of what is given at a run
  DnnPlan plan;
};

Cudnn::Attention::Plan::Plan(Handle library, const LibraryAttention& of)
    : attention(of), plan(library, operations(), of.work_bytes - of.share_bytes()) {}

std::vector<DnnObject> Cudnn::Attention::Plan::operations() {
  scale = scalar(kDnnScale);
  if (attention.gradients) {
    backward();
  } else {
    forward();
  }
  return std::move(sequence);
}

Cudnn::Attention::Plan::Value Cudnn::Attention::Plan::tensor(int type, const Shape& sizes, const Shape& strides,
                                                             std::int64_t number, bool is_inside, bool on_host) {
  DnnObject& object = parts.emplace_back(kDnnTensor);
  object.set(kDnnElements, kDnnDataType, type).set(kDnnSizes, sizes).set(kDnnSteps, strides);
  object.set(kDnnNumber, kDnnInt64, number).set(kDnnAlignment, kDnnInt64, std::int64_t{kLibraryAlignment});
  object.set(kDnnIsVirtual, kDnnBoolean, is_inside).set(kDnnIsByValue, kDnnBoolean, on_host).finish();
  if (!is_inside && std::find(numbers.begin(), numbers.end(), number) == numbers.end()) numbers.push_back(number);
  return {parts.size() - 1, sizes, strides};
}

void Cudnn::Attention::Plan::point(int does, int in, const Value& x, const Value* b, const Value* t, const Value& y,
                                   int axis) {
  DnnObject& rule = parts.emplace_back(kDnnPointwise);
  rule.set(kDnnPointwiseDoes, kDnnPointwiseMode, does).set(kDnnPointwiseIn, kDnnDataType, in);
  if (axis >= 0) rule.set(kDnnPointwiseAxis, kDnnInt64, std::int64_t{axis});
  rule.finish();
  DnnObject& step = sequence.emplace_back(kDnnPointwiseOperation);
  step.set(kDnnPointwiseBy, rule).set(kDnnPointwiseX, object(x));
  if (b != nullptr) step.set(kDnnPointwiseB, object(*b));
  if (t != nullptr) step.set(kDnnPointwiseT, object(*t));
  step.set(kDnnPointwiseY, object(y)).finish();
}

void Cudnn::Attention::Plan::multiply(const Value& a, const Value& b, const Value& c) {
  DnnObject& rule = parts.emplace_back(kDnnMatmul);
  rule.set(kDnnMatmulIn, kDnnDataType, kDnnF32).finish();
  DnnObject& step = sequence.emplace_back(kDnnMatmulOperation);
  step.set(kDnnMatmulA, object(a)).set(kDnnMatmulB, object(b)).set(kDnnMatmulC, object(c)).set(kDnnMatmulBy, rule);
  step.finish();
}

void Cudnn::Attention::Plan::reduce(int does, const Value& x, const Value& y) {
  DnnObject& rule = parts.emplace_back(kDnnReduction);
  rule.set(kDnnReductionDoes, kDnnReductionMode, does).set(kDnnReductionIn, kDnnDataType, kDnnF32).finish();
  DnnObject& step = sequence.emplace_back(kDnnReductionOperation);
  step.set(kDnnReductionX, object(x)).set(kDnnReductionY, object(y)).set(kDnnReductionBy, rule).finish();
}

void Cudnn::Attention::Plan::reshape(const Value& x, const Value& y) {
  DnnObject& step = sequence.emplace_back(kDnnReshapeOperation);
  step.set(kDnnReshapeX, object(x)).set(kDnnReshapeY, object(y)).finish();
}

Cudnn::Attention::Plan::Value Cudnn::Attention::Plan::masked(const Value& score) {
  if (!attention.causal) return score;
  Value row = inside(score, kDnnI32);
  point(kDnnIndex, kDnnF32, score, nullptr, nullptr, row, 2);
  const Value column = inside(score, kDnnI32);
  point(kDnnIndex, kDnnF32, score, nullptr, nullptr, column, 3);
  if (attention.behind != 0) {
    // The last query sees all keys.
    const std::pair<int, Value> shifts[] = {{kDnnAdd, scalar(kDnnKeys, kDnnI32)}, {kDnnSub, scalar(kDnnRows, kDnnI32)}};
    for (const auto& [does, by] : shifts) {
      const Value shifted = inside(score, kDnnI32);
      point(does, kDnnI32, row, &by, nullptr, shifted, 3);
      row = shifted;
    }
  }
  const Value is_seen = inside(score, kDnnBool);
  point(kDnnAtLeast, kDnnBool, row, &column, nullptr, is_seen);
  const Value hidden = scalar(kDnnHidden);
  Value result = inside(score);
  point(kDnnSelect, kDnnF32, score, &hidden, &is_seen, result);
  return result;
}

void Cudnn::Attention::Plan::forward() {
  const AttentionSizes& s = attention.sizes;
  const Value query = operand(kDnnQuery, s.heads, s.rows, attention.query);
  const Value key = operand(kDnnKey, s.key_heads, s.keys, attention.key, true);
  const Value value = operand(kDnnValue, s.key_heads, s.keys, attention.value);
  const Value result = made(kDnnResult, s.heads, s.rows);
  const Value products = scores();
  multiply(query, key, products);
  const Value score = masked(scaled(products));
  const Value largest = per_query();
  reduce(kDnnMax, score, largest);
  const Value exponentials = point(kDnnExp, point(kDnnSub, score, largest));
  const Value total = per_query();
  reduce(kDnnSum, exponentials, total);
  const Value logarithm = point(kDnnLog, total);
  point(kDnnAdd, kDnnF32, largest, &logarithm, nullptr, per_query(kDnnLogSums));
  const Value weights = inside(exponentials, cudnn_type(attention.dtype));
  point(kDnnDiv, kDnnF32, exponentials, &total, nullptr, weights);
  multiply(weights, value, result);
}

// [keys, rows] times [rows, width]; where heads share keys, their results are added.
void Cudnn::Attention::Plan::product_of_keys(const Value& weights, const Value& right, const Value& out) {
  const AttentionSizes& s = attention.sizes;
  const int type = cudnn_type(attention.dtype);
  const Value turned =
      inside(type, {s.batches, s.heads, s.keys, s.rows}, {s.heads * s.rows * s.keys, s.rows * s.keys, 1, s.keys});
  reshape(weights, turned);
  if (s.heads == s.key_heads) return multiply(turned, right, out);
  const std::int64_t of_head = s.keys * s.width;
  const Value of_heads = inside(type, {s.batches, s.heads, s.keys, s.width}, {s.heads * of_head, of_head, s.width, 1});
  multiply(turned, right, of_heads);
  reduce(kDnnSum, of_heads, out);
}

void Cudnn::Attention::Plan::backward() {
  const AttentionSizes& s = attention.sizes;
  const Value query = operand(kDnnQuery, s.heads, s.rows, attention.query);
  const Value key = operand(kDnnKey, s.key_heads, s.keys, attention.key, true);
  const Value value = operand(kDnnValue, s.key_heads, s.keys, attention.value, true);
  const Value result = made(kDnnResult, s.heads, s.rows);
  const Value log_sums = per_query(kDnnLogSums);
  const Value upstream = operand(kDnnUpstream, s.heads, s.rows, attention.upstream);
  const Value of_query = made(kDnnQueryGradient, s.heads, s.rows);
  const Value of_key = made(kDnnKeyGradient, s.key_heads, s.keys);
  const Value of_value = made(kDnnValueGradient, s.key_heads, s.keys);

  // What softmax subtracts from the gradients of its results, weighted: sum_j w_j dw_j = sum_v out_v dout_v.
  const Value both =
      inside(kDnnF32, upstream.sizes, {s.heads * s.rows * s.width, s.rows * s.width, s.heads * s.width, 1});
  point(kDnnMul, kDnnF32, upstream, &result, nullptr, both);
  const Value sums = per_query();
  reduce(kDnnSum, both, sums);
  const Value one = scalar(kDnnOne);
  const Value shares = per_query(kDnnShares);
  point(kDnnMul, kDnnF32, sums, &one, nullptr, shares);

  const Value products = scores();
  multiply(query, key, products);
  const Value weights = point(kDnnExp, masked(point(kDnnSub, scaled(products), log_sums)));
  product_of_keys(weights, upstream, of_value);

  const Value of_weights = scores();
  multiply(upstream, value, of_weights);
  const Value of_scores = scaled(point(kDnnMul, point(kDnnSub, of_weights, shares), weights));
  product_of_keys(of_scores, query, of_key);

  const Value keys = inside(cudnn_type(attention.dtype), {s.batches, s.key_heads, s.keys, s.width},
                            {attention.key[0], attention.key[1], attention.key[2], 1});
  reshape(key, keys);
  multiply(of_scores, keys, of_query);
}

bool Cudnn::has_attention() {
  return missing_cudnn().empty() && cudnn_api().version() >= kDnnAttentionVersion;
}

Cudnn::Attention::Attention(const Cudnn& library, const LibraryAttention& of)
    : library_(library), plan_(std::make_unique<Plan>(library.handle_, of)) {
  if (plan_->plan.is_ready()) return;
  const AttentionSizes& s = of.sizes;
  throw BackendError(fmt::format(
      "cuda: cuDNN has nothing for attention{} of {} {} x {} heads of {} queries, {} x {} keys, {} wide, in fast "
      "numerics\n  fix: Numerics::blocked or exact for it",
      of.gradients ? "'s gradients" : "", name_of(of.dtype), s.batches, s.heads, s.rows, s.key_heads, s.keys, s.width));
}

Cudnn::Attention::~Attention() = default;

void Cudnn::Attention::run(std::span<const Address> words, Handle stream) const {
  const LibraryAttention& attention = plan_->attention;
  const std::size_t last = attention.gradients ? 9 : 5;
  const Address work = words[last];
  float scale = 0;
  std::memcpy(&scale, &words[last + 1], sizeof scale);
  const float hidden = -std::numeric_limits<float>::infinity();
  const float one = 1;
  const auto keys = static_cast<std::int32_t>(attention.sizes.keys);
  const auto rows = static_cast<std::int32_t>(attention.sizes.rows);
  const auto on_host = [](const auto& value) { return reinterpret_cast<Address>(&value); };
  std::vector<Address> places;
  for (const std::int64_t number : plan_->numbers) {
    places.push_back(number == kDnnScale    ? on_host(scale)
                     : number == kDnnHidden ? on_host(hidden)
                     : number == kDnnOne    ? on_host(one)
                     : number == kDnnKeys   ? on_host(keys)
                     : number == kDnnRows   ? on_host(rows)
                     : number == kDnnShares ? work
                                            : words[static_cast<std::size_t>(number - 1)]);
  }
  plan_->plan.run(library_.handle_, plan_->numbers, places, work + static_cast<Address>(attention.share_bytes()),
                  stream);
}

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
