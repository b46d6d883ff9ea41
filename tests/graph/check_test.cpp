#include <lockstep/check.h>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

// As a user writes one.
class Gated : public nn::Layer {
 public:
  Gated(Module& parent, std::string name, std::int64_t features)
      : Layer(parent, std::move(name)), gate(*this, "gate", features, features) {}

  Tensor forward(const Operand& operand) const override {
    const CallScope call("gated", operand);
    const Tensor& x = tensor_operand(operand);
    check<ShapeError>(x.rank() == 2, "input must be a matrix", {{"input", x}}, "flatten it");
    return sigmoid(gate(x)) * x;
  }

  nn::Linear gate;
};

struct CheckedNet : nn::Module {
  Gated first{*this, "first", 3};
};

TEST(Check, OfAUsersLayerNamesTheLayerAndTheCaller) {
  CheckedNet net;
  const Tensor x = ones({2, 3, 4}).named("batch");
  const int line = __LINE__ + 1;
  const std::string message = message_of<ShapeError>([&] { net.first(x); });
  EXPECT_EQ(message, fmt::format("gated: input must be a matrix\n"
                                 "  {:<20} f32 [2, 3, 4]  cpu\n"
                                 "  fix: flatten it\n"
                                 "  at {}:{}",
                                 "batch", __FILE__, line));
}

TEST(Check, OfWhatIsCalledWithinNamesTheSame) {
  CheckedNet net;
  const int line = __LINE__ + 1;
  const std::string message = message_of<ShapeError>([&] { net.first(ones({2, 4})); });
  EXPECT_TRUE(message.starts_with("gated: the input's last size")) << message;
  EXPECT_NE(message.find("first.gate.weight"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("check_test.cpp:{}", line))) << message;
}

TEST(Check, PassesWhatHolds) {
  EXPECT_NO_THROW(check<ValueError>(true, "never"));
}

TEST(Check, OutsideOfACallNamesItsOwnLine) {
  const int line = __LINE__ + 1;
  const std::string message = message_of<ValueError>([] { check<ValueError>(false, "no"); });
  EXPECT_EQ(message, fmt::format("no\n  at {}:{}", __FILE__, line));
}

TEST(Fail, TakesTheErrorsClassAndNeedsNothingButWhatIsWrong) {
  const CallScope call("mine", CallSite("user.cpp", 3));
  EXPECT_EQ(message_of<IndexError>([] { fail<IndexError>("row 7 of 5"); }), "mine: row 7 of 5\n  at user.cpp:3");
  EXPECT_EQ(message_of<DeviceError>([] { fail<DeviceError>("no", {}, "yes"); }),
            "mine: no\n  fix: yes\n  at user.cpp:3");
}

TEST(Check, OfOperands) {
  const CallScope call("mine", CallSite("user.cpp", 3));
  const Tensor x = ones({2}), y = ones({2}, {.dtype = DType::f16}), i = ones({2}, {.dtype = DType::i32});
  EXPECT_NO_THROW(check_same_dtype({{"x", x}, {"scalar", 2.0}}));
  expect_error<DTypeError>([&] { check_same_dtype({{"x", x}, {"y", y}}); }, {"mine: x and y have different dtypes"});
  expect_error<DeviceError>(
      [&] {
        check_same_device({{"x", x}, {"z", ones({2}, {.device = {DeviceKind::ref, 0}})}});
      },
      {"mine: x and z are on different devices"});
  expect_error<DTypeError>([&] { check_float({"i", i}); }, {"mine: i must be a float tensor", "user.cpp:3"});
  expect_error<ValueError>(
      [&] {
        check_defined({{"x", x}, {"nothing", Tensor()}});
      },
      {"mine: nothing is an undefined tensor"});
  expect_error<ValueError>([&] { tensor_operand(2.0); }, {"mine: needs a tensor operand"});
  EXPECT_EQ(check_dim(x, -1), 0);
  expect_error<IndexError>([&] { check_dim(x, 1); }, {"mine: dimension 1 does not exist"});
}

}  // namespace
}  // namespace lockstep::test
