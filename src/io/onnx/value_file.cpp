#include "io/onnx/value_file.h"

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/onnx.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

Value tensor_value(const os::FileBytes& file, Bytes message) {
  const ModelTensor tensor = parse_tensor(file.path, message);
  return value_of(tensor, file, nullptr);
}

[[noreturn]] void refuse(const os::FileBytes& file) {
  throw UnsupportedError(fmt::format("{}: holds something else than tensors and sequences of them", file.path));
}

Value sequence_value(const os::FileBytes& file, Bytes message) {
  MessageReader reader(file.path, message, "a sequence");
  std::vector<Value> elements;
  Field field;
  while (reader.next(field)) {
    if (field.number == 3) elements.push_back(tensor_value(file, reader.repeated_message(field)));
    if (field.number > 3) refuse(file);
  }
  return Value(std::move(elements));
}

Value optional_value(const os::FileBytes& file, Bytes message) {
  MessageReader reader(file.path, message, "an optional");
  Value element;
  Field field;
  while (reader.next(field)) {
    if (field.number == 3) element = tensor_value(file, reader.message(field));
    if (field.number == 5) element = sequence_value(file, reader.message(field));
    if (field.number == 4 || field.number > 5) refuse(file);
  }
  return element;
}

}  // namespace

Value parse_value(const os::FileBytes& file, ValueKind kind) {
  const Bytes message{file.bytes, 0};
  switch (kind) {
    case ValueKind::tensor: return tensor_value(file, message);
    case ValueKind::sequence: return sequence_value(file, message);
    case ValueKind::optional:
    case ValueKind::optional_sequence: return optional_value(file, message);
    case ValueKind::other: break;
  }
  refuse(file);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
