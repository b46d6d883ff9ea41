// Every recorded case in a scope of autocast: an op that lockstep/autocast.h does not list gives what it gives outside,
// whatever ops it is made of.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include <lockstep/lockstep.h>

#include "cli/case_file.h"
#include "cli/recorded_ops/find.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

const std::set<std::string> kListed{
    // in 16 bits
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "bmm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "dot", "einsum", "gru", "gru_cell", "inner", "linear", "lstm", "lstm_cell",
    "matmul", "mm", "multi_dot", "mv", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell",
    "scaled_dot_product_attention", "tensordot", "vdot",
    // in f32
    "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "exp", "layer_norm", "log", "log_softmax",
    "logcumsumexp", "mean", "mse_loss", "nanmean", "nansum", "norm", "pow", "rsqrt", "softmax", "sum"};

std::vector<Tensor> results(const cli::Case& of) {
  manual_seed(1);
  cli::Arguments arguments(of, Device{});
  return cli::find_recorded_op(of.op).call(arguments);
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i) all = a[i].dtype() == b[i].dtype() && a[i].hash() == b[i].hash();
  return all;
}

TEST(AutocastOps, OnlyListedOpsFollow) {
  std::set<std::string> followed;
  for (const auto& entry : std::filesystem::directory_iterator(repository_data("cases"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const cli::Case original = cli::read_case(entry.path().string());
    const std::vector<Tensor> outside = results(original);
    const Autocast scope(DType::bf16);
    if (same(results(original), outside)) continue;
    followed.insert(original.op);
    EXPECT_TRUE(kListed.contains(original.op)) << entry.path();
  }
  EXPECT_TRUE(followed.contains("matmul") && followed.contains("softmax"));
}

}  // namespace
}  // namespace lockstep::test
