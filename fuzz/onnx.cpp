// An ONNX model: its messages, its plan, the elements of its tensors, and what is computed of constants at load. No
// other file is opened.
#include "fuzz_target.h"
#include "io/onnx/model.h"
#include "io/onnx/plan.h"

LOCKSTEP_FUZZ_TARGET(onnx) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const auto model = io::onnx::parse_model(file);
    for (const io::onnx::ModelTensor& tensor : model->tensors) {
      if (!tensor.external && io::onnx::stored_type_of(tensor.type))
        fuzz::touch(io::onnx::elements_of(tensor, file, nullptr));
    }
    const auto program = io::onnx::plan_model(model, nullptr);
    io::onnx::describe_problems(*program);
    io::onnx::fold_constants(*program);
  });
}
