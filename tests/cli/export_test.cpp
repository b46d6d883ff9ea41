#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/io.h>
#include <lockstep/models/registry.h>

#include "cli/run_command.h"
#include "support/files.h"
#include "support/noise.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using test::CommandResult;
using test::run_command;
using test::TemporaryFolder;
using ::testing::HasSubstr;

TEST(ExportCommand, WritesAClassifierForAnyNumberOfPictures) {
  const TemporaryFolder folder;
  const auto model = models::architecture("lenet").create(10);
  test::set_noise_weights(*model);
  io::save_safetensors(folder.path("lenet.safetensors"), model->state_dict());
  const CommandResult result = run_command(
      {"export", folder.path("lenet.safetensors"), "--arch", "lenet", "--out", folder.path("lenet.onnx"), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("\"opset\":17"));
  const auto loaded = io::load_onnx(folder.path("lenet.onnx"));
  const Tensor x = test::noise_picture({3, 1, 28, 28});
  const NoGrad no_grad;
  EXPECT_BITS_EQ(loaded->forward(x), model->forward(x));
}

TEST(ExportCommand, WrongRequestsAreRefused) {
  EXPECT_EQ(run_command({"export", "a.safetensors", "--arch", "lenet", "--out", "a.onnx", "--opset", "9"}).exit_code,
            2);
  EXPECT_EQ(run_command({"export", "a.safetensors", "--out", "a.onnx"}).exit_code, 2);
  EXPECT_EQ(run_command({"export", "no/such.safetensors", "--arch", "lenet", "--out", "a.onnx"}).exit_code, 1);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
