// Every differentiable op has the right gradient: analytic slopes against central differences, over the table of the
// check; and a gradient that is wrong by a thousandth is found.
#include <set>

#include <lockstep/autograd.h>

#include "cli/check/gradients.h"
#include "cli/run_command.h"

namespace lockstep::test {
namespace {

using cli::check_gradients;
using cli::CheckOp;
using cli::Form;
using cli::GradientRow;
using cli::Probe;
using cli::Tensors;

// Constant almost everywhere: with float results, and slopes that are exactly zero.
const std::set<std::string> kConstant = {"sign",      "floor",     "ceil",      "trunc",      "round", "floor_divide",
                                         "heaviside", "full_like", "ones_like", "zeros_like", "histc", "empty_like"};

// Ops that are not differentiable and say so where an operand is tracked.
const std::set<std::string> kRefusing = {};

// Ops without float operands, without float results, or for integers only.
const std::set<std::string> kNothingToDerive = {
    "rope_tables",  "alibi_slopes", "full",       "zeros",       "ones",
    "arange",       "empty",        "linspace",   "logspace",    "eye",
    "tril_indices", "triu_indices", "rand",       "randn",       "isnan",
    "isfinite",     "isinf",        "signbit",    "logical_not", "bitwise_not",
    "eq",           "ne",           "lt",         "le",          "gt",
    "ge",           "bitwise_and",  "bitwise_or", "bitwise_xor", "shift_left",
    "shift_right",  "one_hot",      "nonzero",    "argsort",     "searchsorted",
    "bucketize",    "logical_and",  "logical_or", "logical_xor", "isclose",
    "allclose",     "equal",        "any",        "all",         "count_nonzero",
    "argmax",       "argmin",     "fft.fftfreq", "fft.rfftfreq"};

TEST(GradientsOfEveryOp, AreThoseOfDifferencesSlow) {
  int cases = 0;
  for (const CheckOp& op : cli::all_check_ops()) {
    const GradientRow row = check_gradients(op, Device{});
    cases += row.cases;
    for (const std::string& wrong : row.wrong) ADD_FAILURE() << op.name << " " << wrong;
    EXPECT_EQ(row.refused > 0, kRefusing.contains(op.name)) << op.name << ": " << row.why;
    EXPECT_EQ(row.cases == 0, kNothingToDerive.contains(op.name)) << op.name << ": " << row.why;
    EXPECT_EQ(row.cases > 0 && row.magnitude == 0, kConstant.contains(op.name)) << op.name;
  }
  EXPECT_GT(cases, 5000);
}

// `factor` times x * x, the gradient of x * x.
template <int thousandths> Tensors square_with_error(Probe& p) {
  const Tensor x = p.x();
  return {custom_gradient(detach(x) * detach(x), {x},
                          [x](const Tensor& g) { return std::vector<Tensor>{g * x * 2.0 * (thousandths / 1000.0)}; })};
}

TEST(GradientsOfEveryOp, AnErrorOfAThousandthIsFound) {
  const GradientRow right = check_gradients({"right", Form::elementwise, 1, square_with_error<1000>}, Device{});
  EXPECT_GT(right.cases, 5);
  EXPECT_TRUE(right.wrong.empty()) << right.wrong.front();
  const GradientRow wrong = check_gradients({"wrong", Form::elementwise, 1, square_with_error<1001>}, Device{});
  EXPECT_EQ(static_cast<int>(wrong.wrong.size()), wrong.cases);
  ASSERT_FALSE(wrong.wrong.empty());
  for (const char* part : {"[3, 4]", "dense", "#0", "analytic", "numeric"}) {
    EXPECT_NE(wrong.wrong.front().find(part), std::string::npos) << part << ": " << wrong.wrong.front();
  }
}

// The result moves with x, but nothing tracks it.
TEST(GradientsOfEveryOp, AnOpThatForgetsItsOperandIsFound) {
  const CheckOp forgetful{"forgetful", Form::rows, 1, [](Probe& p) -> Tensors { return {exp(detach(p.x()))}; }};
  const GradientRow row = check_gradients(forgetful, Device{});
  EXPECT_EQ(static_cast<int>(row.wrong.size()), row.cases);
  EXPECT_GT(row.cases, 5);
}

TEST(GradientsOfEveryOp, TheCommandPrintsThem) {
  const CommandResult text = run_command({"check", "--gradients", "--op", "softmax", "--op", "eq"});
  EXPECT_EQ(text.exit_code, 0) << text.output << text.errors;
  for (const char* part : {"softmax", "no float result", " gradients of 2 ops", "0 wrong"}) {
    EXPECT_NE(text.output.find(part), std::string::npos) << part << ": " << text.output;
  }
  const std::vector<nlohmann::json> lines = run_command({"check", "--gradients", "--op", "exp", "--json"}).json();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("wrong"), 0);
  EXPECT_GT(lines[0].at("cases"), 0);
  EXPECT_LT(lines[0].at("largest_error"), cli::kGradientBound);
  EXPECT_EQ(run_command({"check", "--gradients", "--full"}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep::test
