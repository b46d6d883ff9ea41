// Errors and values bear the public op that was called and the caller's line, whatever they are made of within: the
// ops, their gradients, and what the library calls back.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "graph/make.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using graph::Node;

// The names and lines of all pending nodes that are younger than `before`, from those of `roots` down.
std::set<std::string> makers(const std::vector<Tensor>& roots, std::uint64_t before) {
  std::set<std::string> found;
  std::set<const Node*> seen;
  std::vector<const Node*> stack;
  for (const Tensor& root : roots) stack.push_back(graph::node_of(root).get());
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (node->id <= before || !seen.insert(node).second) continue;
    const std::string file = node->where.file;
    found.insert(fmt::format("{} at {}:{}", node->name, file.substr(file.rfind('/') + 1), node->where.line));
    for (const graph::NodeRef& input : node->inputs) {
      if (input != nullptr) stack.push_back(input.get());
    }
  }
  return found;
}

std::uint64_t youngest() {
  return graph::node_of(ones({}))->id;
}

std::string here(const char* op, int line) {
  return fmt::format("{} at call_sites_test.cpp:{}", op, line);
}

struct Case {
  const char* op;
  int line;
  std::function<std::vector<Tensor>(const Tensor&)> run;  ///< of a float tensor [2, 4, 6, 6] with values in (0, 1)
};

Tensor some(const Shape& shape) {
  return uniform(0.1, 0.9, shape).eval();
}
Tensor labels() {
  static const Tensor tensor = Tensor::from<std::int64_t>({1, 0, 1, 1}, {4});
  return tensor;
}
Tensor per_channel() {
  static const Tensor tensor = some({4});
  return tensor;
}
RecurrentWeights recurrent_weights(std::int64_t gates) {
  return {some({gates * 3, 6}), some({gates * 3, 3}), some({gates * 3}), some({gates * 3})};
}

// clang-format off
const std::vector<Case>& cases() {
  labels(), per_channel();  // made before, not in a case
  static const Tensor weight = some({4, 6}), kernel = some({5, 4, 3, 3}), last = some({6});
  static const std::vector<Case> all{
      {"add", __LINE__, [](const Tensor& x) { return std::vector{x + x}; }},
      {"sub", __LINE__, [](const Tensor& x) { return std::vector{1.0 - x}; }},
      {"neg", __LINE__, [](const Tensor& x) { return std::vector{-x}; }},
      {"mul", __LINE__, [](const Tensor& x) { Tensor y = x; y *= x; return std::vector{y}; }},
      {"pow", __LINE__, [](const Tensor& x) { return std::vector{pow(x, 2)}; }},
      {"gelu", __LINE__, [](const Tensor& x) { return std::vector{gelu(x)}; }},
      {"gelu_tanh", __LINE__, [](const Tensor& x) { return std::vector{gelu_tanh(x)}; }},
      {"relu6", __LINE__, [](const Tensor& x) { return std::vector{relu6(x)}; }},
      {"silu", __LINE__, [](const Tensor& x) { return std::vector{silu(x)}; }},
      {"softplus", __LINE__, [](const Tensor& x) { return std::vector{softplus(x)}; }},
      {"mish", __LINE__, [](const Tensor& x) { return std::vector{mish(x)}; }},
      {"elu", __LINE__, [](const Tensor& x) { return std::vector{elu(x)}; }},
      {"prelu", __LINE__, [](const Tensor& x) { return std::vector{prelu(x, per_channel())}; }},
      {"glu", __LINE__, [](const Tensor& x) { return std::vector{glu(x)}; }},
      {"hardtanh", __LINE__, [](const Tensor& x) { return std::vector{hardtanh(x)}; }},
      {"threshold", __LINE__, [](const Tensor& x) { return std::vector{threshold(x, 0.5, 0)}; }},
      {"logit", __LINE__, [](const Tensor& x) { return std::vector{logit(x, 0.1)}; }},
      {"swiglu", __LINE__, [](const Tensor& x) { return std::vector{swiglu(x, x)}; }},
      {"lerp", __LINE__, [](const Tensor& x) { return std::vector{lerp(x, 1.0, 0.25)}; }},
      {"addcmul", __LINE__, [](const Tensor& x) { return std::vector{addcmul(x, x, x, 2)}; }},
      {"addcdiv", __LINE__, [](const Tensor& x) { return std::vector{addcdiv(x, x, x, 2)}; }},
      {"clamp", __LINE__, [](const Tensor& x) { return std::vector{clamp(x, 0.2, 0.5)}; }},
      {"float_power", __LINE__, [](const Tensor& x) { return std::vector{float_power(x, 1.5)}; }},
      {"sinc", __LINE__, [](const Tensor& x) { return std::vector{sinc(x)}; }},
      {"isclose", __LINE__, [](const Tensor& x) { return std::vector{isclose(x, x)}; }},
      {"logical_and", __LINE__, [](const Tensor& x) { return std::vector{logical_and(x, x)}; }},
      {"masked_fill", __LINE__, [](const Tensor& x) { return std::vector{masked_fill(x, zeros({}, {.dtype = DType::boolean}), 1.0)}; }},
      {"to", __LINE__, [](const Tensor& x) { return std::vector{x.to(DType::f16)}; }},
      {"sum", __LINE__, [](const Tensor& x) { return std::vector{sum(x, {1})}; }},
      {"mean", __LINE__, [](const Tensor& x) { return std::vector{mean(x)}; }},
      {"var", __LINE__, [](const Tensor& x) { return std::vector{var(x, {1})}; }},
      {"std", __LINE__, [](const Tensor& x) { return std::vector{lockstep::std(x, {1})}; }},
      {"norm", __LINE__, [](const Tensor& x) { return std::vector{norm(x)}; }},
      {"any", __LINE__, [](const Tensor& x) { return std::vector{any(x)}; }},
      {"argmax", __LINE__, [](const Tensor& x) { return std::vector{argmax(x, 1)}; }},
      {"logsumexp", __LINE__, [](const Tensor& x) { return std::vector{logsumexp(x, {1})}; }},
      {"softmax", __LINE__, [](const Tensor& x) { return std::vector{softmax(x, -1)}; }},
      {"log_softmax", __LINE__, [](const Tensor& x) { return std::vector{log_softmax(x, 1)}; }},
      {"softmin", __LINE__, [](const Tensor& x) { return std::vector{softmin(x, 1)}; }},
      {"var_mean", __LINE__, [](const Tensor& x) { const auto [v, m] = var_mean(x, {1}); return std::vector{v, m}; }},
      {"median", __LINE__, [](const Tensor& x) { return std::vector{median(x, 1).values}; }},
      {"cumsum", __LINE__, [](const Tensor& x) { return std::vector{cumsum(x, 1)}; }},
      {"cumprod", __LINE__, [](const Tensor& x) { return std::vector{cumprod(x, 1)}; }},
      {"logcumsumexp", __LINE__, [](const Tensor& x) { return std::vector{logcumsumexp(x, 1)}; }},
      {"layer_norm", __LINE__, [](const Tensor& x) { return std::vector{layer_norm(x, {6}, last, last)}; }},
      {"rms_norm", __LINE__, [](const Tensor& x) { return std::vector{rms_norm(x, {6}, last)}; }},
      {"group_norm", __LINE__, [](const Tensor& x) { return std::vector{group_norm(x, 2, per_channel(), per_channel())}; }},
      {"batch_norm", __LINE__, [](const Tensor& x) { return std::vector{batch_norm(x, per_channel(), per_channel())}; }},
      {"instance_norm", __LINE__, [](const Tensor& x) { return std::vector{instance_norm(x)}; }},
      {"local_response_norm", __LINE__, [](const Tensor& x) { return std::vector{local_response_norm(x, 3)}; }},
      {"normalize", __LINE__, [](const Tensor& x) { return std::vector{normalize(x)}; }},
      {"matmul", __LINE__, [](const Tensor& x) { return std::vector{matmul(x, x)}; }},
      {"linear", __LINE__, [](const Tensor& x) { return std::vector{linear(x, weight, per_channel())}; }},
      {"einsum", __LINE__, [](const Tensor& x) { return std::vector{einsum("abcd,abce->de", {x, x})}; }},
      {"conv2d", __LINE__, [](const Tensor& x) { return std::vector{conv2d(x, kernel)}; }},
      {"conv_transpose2d", __LINE__, [](const Tensor& x) { return std::vector{conv_transpose2d(x, some({4, 3, 2, 2}))}; }},
      {"max_pool2d", __LINE__, [](const Tensor& x) { return std::vector{max_pool2d(x, 2)}; }},
      {"avg_pool2d", __LINE__, [](const Tensor& x) { return std::vector{avg_pool2d(x, 3, {.padding = {1}})}; }},
      {"adaptive_avg_pool2d", __LINE__, [](const Tensor& x) { return std::vector{adaptive_avg_pool2d(x, {4})}; }},
      {"lp_pool2d", __LINE__, [](const Tensor& x) { return std::vector{lp_pool2d(x, 2, 2)}; }},
      {"interpolate", __LINE__, [](const Tensor& x) { return std::vector{interpolate(x, {.size = {9, 9}, .mode = Interpolation::bilinear})}; }},
      {"grid_sample", __LINE__, [](const Tensor& x) { return std::vector{grid_sample(x, some({2, 3, 3, 2}))}; }},
      {"scaled_dot_product_attention", __LINE__, [](const Tensor& x) { return std::vector{scaled_dot_product_attention(x, x, x)}; }},
      {"dropout", __LINE__, [](const Tensor& x) { return std::vector{dropout(x, 0.5)}; }},
      {"alpha_dropout", __LINE__, [](const Tensor& x) { return std::vector{alpha_dropout(x, 0.5)}; }},
      {"mse_loss", __LINE__, [](const Tensor& x) { return std::vector{mse_loss(x, x)}; }},
      {"smooth_l1_loss", __LINE__, [](const Tensor& x) { return std::vector{smooth_l1_loss(x, x)}; }},
      {"binary_cross_entropy", __LINE__, [](const Tensor& x) { return std::vector{binary_cross_entropy(x, x)}; }},
      {"kl_div", __LINE__, [](const Tensor& x) { return std::vector{kl_div(x, x)}; }},
      {"cross_entropy", __LINE__, [](const Tensor& x) { return std::vector{cross_entropy(x.select(2, 0).select(2, 0), x.select(2, 1).select(2, 0))}; }},
      {"reshape", __LINE__, [](const Tensor& x) { return std::vector{x.reshape({-1, 6})}; }},
      {"transpose", __LINE__, [](const Tensor& x) { return std::vector{x.transpose(1, 2)}; }},
      {"select", __LINE__, [](const Tensor& x) { return std::vector{x.select(1, 2)}; }},
      {"chunk", __LINE__, [](const Tensor& x) { return x.chunk(2, 1); }},
      {"repeat", __LINE__, [](const Tensor& x) { return std::vector{x.repeat({1, 2, 1, 1})}; }},
      {"cat", __LINE__, [](const Tensor& x) { return std::vector{cat({x, x}, 1)}; }},
      {"stack", __LINE__, [](const Tensor& x) { return std::vector{stack({x, x}, 1)}; }},
      {"pad", __LINE__, [](const Tensor& x) { return std::vector{pad(x, {1, 1})}; }},
      {"roll", __LINE__, [](const Tensor& x) { return std::vector{roll(x, {1}, {1})}; }},
      {"tril", __LINE__, [](const Tensor& x) { return std::vector{tril(x)}; }},
      {"index_select", __LINE__, [](const Tensor& x) { return std::vector{index_select(x, 0, labels())}; }},
      {"gather", __LINE__, [](const Tensor& x) { return std::vector{gather(x, 1, labels().reshape({1, 4, 1, 1}))}; }},
      {"scatter_add", __LINE__, [](const Tensor& x) { return std::vector{scatter_add(x, 1, labels().reshape({1, 4, 1, 1}), x)}; }},
      {"embedding", __LINE__, [](const Tensor& x) { return std::vector{embedding(x.select(0, 0).select(0, 0), labels())}; }},
      {"sort", __LINE__, [](const Tensor& x) { return std::vector{sort(x, 1).values}; }},
      {"topk", __LINE__, [](const Tensor& x) { return std::vector{topk(x, 2).values}; }},
      {"lstm", __LINE__, [](const Tensor& x) { return std::vector{lstm(x.select(0, 0), {recurrent_weights(4)}).output}; }},
      {"gru", __LINE__, [](const Tensor& x) { return std::vector{gru(x.select(0, 0), {recurrent_weights(3)}).output}; }},
      {"rand", __LINE__, [](const Tensor&) { return std::vector{rand({3})}; }},
      {"randn", __LINE__, [](const Tensor&) { return std::vector{randn({3})}; }},
      {"zeros_like", __LINE__, [](const Tensor& x) { return std::vector{zeros_like(x)}; }},
      {"linspace", __LINE__, [](const Tensor&) { return std::vector{linspace(0, 1, 5)}; }},
  };
  return all;
}
// clang-format on

TEST(CallSites, EveryValueThatAnOpMakesBearsItsNameAndTheCallersLine) {
  const WithWindow window(kUnbounded);
  const Tensor x = some({2, 4, 6, 6});
  for (const Case& c : cases()) {
    const std::uint64_t before = youngest();
    std::set<std::string> found = makers(c.run(x), before);
    // What the case itself calls in the same line, for its operands.
    std::erase_if(found, [&](const std::string& maker) {
      return maker.find(fmt::format("call_sites_test.cpp:{}", c.line)) != std::string::npos &&
             maker != here(c.op, c.line);
    });
    for (const std::string& maker : found) {
      if (maker.starts_with("uniform at ")) continue;  // some()
      EXPECT_EQ(maker, here(c.op, c.line));
    }
  }
}

TEST(CallSites, EveryGradientBearsTheNameAndLineOfTheOpWhoseGradientItIs) {
  const WithWindow window(kUnbounded);
  const Tensor x = requires_grad(some({2, 4, 6, 6}));
  int tracked = 0;
  for (const Case& c : cases()) {
    std::vector<Tensor> results;
    try {
      results = c.run(x);
    } catch (const ValueError&) {
      continue;  // has no gradient
    }
    if (!is_float(results[0].dtype()) || !is_tracked(results[0])) continue;
    ++tracked;
    const Tensor value = results[0].eval();
    const std::uint64_t before = youngest();
    const int line = __LINE__ + 1;
    const std::vector<Tensor> found = gradients(value, {x}, {.seed = ones_like(value), .allow_unused = true});
    for (const std::string& maker : makers(found, before)) {
      const bool is_known = maker.find(fmt::format("call_sites_test.cpp:{}", c.line)) != std::string::npos ||
                            maker == here("gradients", line) || maker == here("ones_like", line);
      EXPECT_TRUE(is_known) << c.op << ": " << maker;
    }
  }
  EXPECT_GT(tracked, 60);
}

TEST(CallSites, OfANaNInACompositionAreTheCallers) {
  const Tensor x = full({2, 3}, -1);
  const CheckFinite scope;
  const int line = __LINE__ + 1;
  const std::string message = message_of<ValueError>([&] { layer_norm(x, {3}, {}, {}, -2); });
  EXPECT_TRUE(message.starts_with("layer_norm: in its rsqrt the result holds NaN, the operands hold none")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;
  const std::string of_scale = message_of<ValueError>([&] { logit(full({2}, 2.0)); });
  EXPECT_TRUE(of_scale.starts_with("logit: in its log the result holds NaN")) << of_scale;
}

TEST(CallSites, OfANaNInAGradientAreTheForwardOps) {
  const Tensor x = requires_grad(zeros({2}));
  const int line = __LINE__ + 1;
  const Tensor y = sum(sqrt(x));
  const CheckFinite scope;
  const std::string message = message_of<ValueError>([&] { backward(y); });
  EXPECT_TRUE(message.starts_with("gradient of sqrt: in its ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;
}

TEST(CallSites, OfErrorsWithinCompositionsAreTheCallers) {
  int line = __LINE__ + 1;
  std::string message = message_of<ShapeError>([] { layer_norm(ones({2, 3}), {3}, ones({4})); });
  EXPECT_TRUE(message.starts_with("layer_norm: weight must have shape [3]")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;

  line = __LINE__ + 1;
  message = message_of<DTypeError>([] { relu6(ones({2}, {.dtype = DType::boolean})); });
  EXPECT_TRUE(message.starts_with("relu6: ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;

  line = __LINE__ + 1;
  message = message_of<IndexError>([] { embedding(ones({3, 2}), Tensor::from<std::int64_t>({3}, {1})).eval(); });
  EXPECT_TRUE(message.starts_with("embedding: index 3 at position")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;
}

TEST(CallSites, WithinCallbacksAreTheUsers) {
  const Tensor x = requires_grad(ones({2}));
  int line = 0;
  const auto wrong = [&](const Tensor& g) {
    line = __LINE__ + 1;
    return g + ones({3});
  };
  const Tensor custom = custom_gradient(x * 2.0, {x}, [&](const Tensor& g) { return std::vector{wrong(g)}; });
  std::string message = message_of<ShapeError>([&] { backward(sum(custom)); });
  EXPECT_TRUE(message.starts_with("add: ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;

  const Tensor hooked = x * 2.0;
  register_hook(hooked, wrong);
  message = message_of<ShapeError>([&] { backward(sum(hooked)); });
  EXPECT_TRUE(message.starts_with("add: ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;

  message = message_of<ShapeError>([&] { checkpoint([&](const auto& inputs) { return wrong(inputs[0]); }, {x}); });
  EXPECT_TRUE(message.starts_with("add: ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;
}

TEST(CallSites, AreOpenOnlyDuringTheCall) {
  EXPECT_THROW(layer_norm(ones({2, 3}), {4}), ShapeError);
  EXPECT_EQ(CallScope::current(), nullptr);
  const Tensor y = sum(requires_grad(ones({2})) * 2.0);
  backward(y);
  EXPECT_THROW(backward(y), ValueError);
  EXPECT_EQ(CallScope::current(), nullptr);
}

TEST(CallSites, OfAnotherThreadAreItsOwn) {
  const CallScope call("mine", CallSite("user.cpp", 3));
  std::string message;
  int line = 0;
  std::thread([&] {
    line = __LINE__ + 1;
    message = message_of<ShapeError>([] { ones({2}) + ones({3}); });
  }).join();
  EXPECT_TRUE(message.starts_with("add: ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;
}

}  // namespace
}  // namespace lockstep::test
