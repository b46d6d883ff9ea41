// save_pytorch: a zip file as torch.save writes it. The program in data.pkl has the very opcodes that torch.save would
// write for an OrderedDict of such tensors, so that whatever reads PyTorch's files reads these.
#include "io/pytorch_writer.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/pytorch.h>

#include "core/utf8.h"
#include "io/pickle_document.h"
#include "io/raw_tensor.h"
#include "io/zip_archive.h"
#include "io/zip_writer.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// The folder inside the archive. torch.save names it after the file; equal tensors are to give equal bytes.
constexpr std::string_view kFolder = "archive/";
constexpr std::size_t kItemsAtOnce = 1000;  // that Python's pickler hands to one SETITEMS

// Writes protocol 2. Objects are numbered in the order in which Python's pickler would remember them.
class PickleWriter {
 public:
  PickleWriter() { text_ = "\x80\x02"; }

  void op(char opcode) { text_ += opcode; }
  /// Numbers the object that was made last.
  void remember() {
    if (remembered_ < 256) {
      op('q');
      text_ += static_cast<char>(remembered_);
    } else {
      op('r');
      little_endian(remembered_, 4);
    }
    ++remembered_;
  }
  /// module.name, by its number from the second time on.
  void global(std::string_view module, std::string_view name) {
    const std::string key = fmt::format("c{}\n{}\n", module, name);
    if (recall(key)) return;
    text_ += key;
    remember();
  }
  /// A text that Python would share: by its number from the second time on.
  void shared_text(std::string_view text) {
    if (!recall(std::string(text))) this->text(text);
  }
  void text(std::string_view text) {
    op('X');
    little_endian(text.size(), 4);
    text_ += text;
    remember();
  }
  void integer(std::uint64_t value) {
    if (value < 0x100) {
      op('K');
      little_endian(value, 1);
    } else if (value < 0x10000) {
      op('M');
      little_endian(value, 2);
    } else if (value < 0x80000000) {
      op('J');
      little_endian(value, 4);
    } else {  // LONG1, in as few bytes as leave its sign bit free
      int bytes = 5;
      while (bytes < 8 && value >> (8 * bytes - 1) != 0) ++bytes;
      text_ += '\x8a';
      text_ += static_cast<char>(bytes);
      little_endian(value, bytes);
    }
  }
  void integers(const Shape& values) {
    constexpr char kTuples[] = {')', '\x85', '\x86', '\x87'};  // of none to three
    const bool is_long = values.rank() > 3;
    if (is_long) op('(');
    for (const std::int64_t value : values) integer(static_cast<std::uint64_t>(value));
    op(is_long ? 't' : kTuples[values.rank()]);
    if (values.rank() > 0) remember();
  }
  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    text_ += ")R";
    remember();
  }

  std::string take() {
    op('.');
    return std::move(text_);
  }

 private:
  bool recall(const std::string& key) {
    const auto [known, is_new] = numbers_.try_emplace(key, remembered_);
    if (is_new) return false;  // the caller writes and remembers it
    op(known->second < 256 ? 'h' : 'j');
    little_endian(known->second, known->second < 256 ? 1 : 4);
    return true;
  }
  void little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string text_;
  std::size_t remembered_ = 0;
  std::map<std::string, std::size_t> numbers_;
};

// As PyTorch computes them: a dimension of size 0 counts as 1.
Shape contiguous_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.rank(), 1);
  for (int d = shape.rank() - 1; d-- > 0;) strides[d] = strides[d + 1] * std::max<std::int64_t>(shape[d + 1], 1);
  return strides;
}

// Types without a storage class of their own (PyTorch adds none any more) lie in an untyped storage, and _v3 names
// them.
void pickle_tensor(PickleWriter& out, const Tensor& tensor, std::size_t key) {
  const StoredType type = stored_type(tensor.dtype());
  const std::string_view storage = torch_storage(type);
  const auto elements = static_cast<std::uint64_t>(tensor.numel());
  out.global("torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out.op('(');
  out.op('(');
  out.shared_text("storage");
  if (storage.empty()) {
    out.global("torch.storage", "UntypedStorage");
  } else {
    out.global("torch", storage);
  }
  out.text(std::to_string(key));
  out.shared_text("cpu");
  out.integer(storage.empty() ? elements * size_of(type) : elements);
  out.op('t');
  out.remember();
  out.op('Q');  // the storage of that description
  out.integer(0);
  out.integers(tensor.shape());
  out.integers(contiguous_strides(tensor.shape()));
  out.op('\x89');            // requires_grad
  out.empty_ordered_dict();  // hooks
  if (storage.empty()) out.global("torch", torch_dtype(type));
  out.op('t');
  out.remember();
  out.op('R');
  out.remember();
}

void check_arguments(const std::string& path, const TensorMap& tensors) {
  std::uint64_t objects = 16;
  for (const auto& [name, tensor] : tensors) {
    check_defined(path, name, tensor);
    if (name.size() > kMaxPickleText) {
      throw ValueError(fmt::format("{}: the name {} has more than {} bytes", path, in_quotes(name), kMaxPickleText));
    }
    if (!is_utf8(name)) throw ValueError(fmt::format("{}: the name {} is not UTF-8", path, in_quotes(name)));
    objects += 12 + 2 * static_cast<std::uint64_t>(tensor.rank());
  }
  // So many values are made by reading the file; what we write, we read.
  if (tensors.size() > kMaxZipEntries - 3 || objects > kMaxPickleObjects) {
    throw ValueError(fmt::format("{}: {} tensors are too many for one file; save safetensors", path, tensors.size()));
  }
}

}  // namespace

std::string pickle_of(const TensorMap& tensors) {
  PickleWriter out;
  out.empty_ordered_dict();
  std::size_t key = 0;
  for (auto item = tensors.begin(); item != tensors.end();) {
    const std::size_t batch = std::min(kItemsAtOnce, tensors.size() - key);
    if (batch > 1) out.op('(');
    for (std::size_t i = 0; i < batch; ++i, ++item) {
      out.text(item->first);
      pickle_tensor(out, item->second, key++);
    }
    out.op(batch > 1 ? 'u' : 's');  // SETITEMS, SETITEM
  }
  return out.take();
}

void write_pytorch(const std::string& path, const TensorMap& tensors, os::SystemCalls& calls) {
  // Everything that can be wrong with the arguments is found before a file exists.
  check_arguments(path, tensors);
  const std::string pickle = pickle_of(tensors);

  os::AtomicFile file(path, calls);
  ZipWriter zip(file);
  const auto add = [&](std::string_view name, std::string_view text, std::span<const std::byte> bytes = {}) {
    zip.add(std::string(kFolder) + std::string(name), text, bytes);
  };
  add("data.pkl", pickle);
  add("byteorder", "little");
  std::size_t key = 0;
  for (const auto& [name, tensor] : tensors) add(fmt::format("data/{}", key++), "", elements_of(tensor));
  add("version", "3\n");
  zip.finish();
  file.commit();
}

void save_pytorch(const std::string& path, const TensorMap& tensors) {
  write_pytorch(path, tensors, os::system_calls());
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
