#include "io/pickle_machine.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::uint32_t kAbsent = ~std::uint32_t{0};
constexpr std::uint64_t kMaxMemo = 1 << 20;
constexpr std::size_t kMaxStack = 1 << 20;
constexpr std::size_t kMaxMarks = 4 * kMaxPickleDepth;
constexpr std::uint64_t kMaxLongBytes = 16;
constexpr std::uint8_t kHighestProtocol = 5;

// The opcodes that are accepted, under the names of Python's pickletools.
// clang-format off
enum Opcode : std::uint8_t {
  kProto = 0x80, kFrame = 0x95, kStop = '.', kMark = '(',
  kNone = 'N', kNewTrue = 0x88, kNewFalse = 0x89,
  kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kLong1 = 0x8a, kBinFloat = 'G',
  kBinString = 'T', kShortBinString = 'U', kBinUnicode = 'X', kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d,
  kBinBytes = 'B', kShortBinBytes = 'C', kBinBytes8 = 0x8e,
  kEmptyList = ']', kAppend = 'a', kAppends = 'e',
  kEmptyTuple = ')', kTuple = 't', kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87,
  kEmptyDict = '}', kSetItem = 's', kSetItems = 'u',
  kGlobal = 'c', kStackGlobal = 0x93, kReduce = 'R', kBuild = 'b', kBinPersId = 'Q',
  kBinPut = 'q', kLongBinPut = 'r', kMemoize = 0x94, kBinGet = 'h', kLongBinGet = 'j',
};
// clang-format on

}  // namespace

PickleMachine::PickleMachine(PickleDocument& document, std::span<const std::byte> bytes, std::uint64_t offset,
                             bool with_storages)
    : document_(document), reader_(document.file.path, bytes, offset), with_storages_(with_storages) {
  none_ = add({.kind = NodeKind::none});
  false_ = add({.kind = NodeKind::boolean, .payload = 0});
  true_ = add({.kind = NodeKind::boolean, .payload = 1});
  empty_tuple_ = add({.kind = NodeKind::tuple, .payload = PickleDocument::kNoContainer});
  small_integers_.resize(256, kAbsent);
}

void PickleMachine::fail(std::string_view message) const {
  reader_.fail_at(opcode_offset_, fmt::format("pickle: {}", message));
}

void PickleMachine::refuse_opcode(std::uint8_t opcode) const {
  fail(fmt::format("opcode {:#04x} is not one that torch.save writes", opcode));
}

std::uint32_t PickleMachine::run() {
  opcode_offset_ = reader_.offset();
  if (reader_.u8("pickle") != kProto) fail("does not begin with a protocol version");
  const std::uint8_t protocol = reader_.u8("pickle protocol");
  if (protocol < 2 || protocol > kHighestProtocol) fail(fmt::format("protocol {} is not 2 to 5", protocol));
  do {
    opcode_offset_ = reader_.offset();
  } while (step(reader_.u8("pickle opcode")));
  expect(stack_.size() == 1 && marks_.empty(), "STOP with a stack that does not hold exactly one value");
  return stack_.back();
}

bool PickleMachine::step(std::uint8_t opcode) {
  switch (opcode) {
    case kStop: return false;
    case kFrame:
      // A hint for readers of streams. It must be true, and is then of no interest.
      if (reader_.u64("frame length") > reader_.remaining()) fail("a frame is longer than the pickle");
      break;
    case kMark:
      if (marks_.size() == kMaxMarks) fail(fmt::format("has more than {} marks on its stack", kMaxMarks));
      marks_.push_back(stack_.size());
      break;
    case kBinPut: memoise(reader_.u8("memo index")); break;
    case kLongBinPut: memoise(reader_.u32("memo index")); break;
    case kMemoize: memoise(memo_.size()); break;
    case kBinGet: recall(reader_.u8("memo index")); break;
    case kLongBinGet: recall(reader_.u32("memo index")); break;
    default:
      if (!step_value(opcode) && !step_container(opcode) && !step_object(opcode)) refuse_opcode(opcode);
  }
  return true;
}

// Numbers and texts.
bool PickleMachine::step_value(std::uint8_t opcode) {
  switch (opcode) {
    case kNone: push(none_); break;
    case kNewTrue: push(true_); break;
    case kNewFalse: push(false_); break;
    case kBinInt: push(integer(static_cast<std::int32_t>(reader_.u32("integer")))); break;
    case kBinInt1: push(integer(reader_.u8("integer"))); break;
    case kBinInt2: push(integer(reader_.u16("integer"))); break;
    case kLong1: push(long_integer(reader_.u8("integer length"))); break;
    case kBinFloat: push(add({.kind = NodeKind::real, .payload = __builtin_bswap64(reader_.u64("float"))})); break;

    case kShortBinString:
    case kShortBinUnicode: push(text_node(NodeKind::string, reader_.u8("string length"))); break;
    case kBinString:
    case kBinUnicode: push(text_node(NodeKind::string, reader_.u32("string length"))); break;
    case kBinUnicode8: push(text_node(NodeKind::string, reader_.u64("string length"))); break;
    case kShortBinBytes: push(text_node(NodeKind::bytes, reader_.u8("bytes length"))); break;
    case kBinBytes: push(text_node(NodeKind::bytes, reader_.u32("bytes length"))); break;
    case kBinBytes8: push(text_node(NodeKind::bytes, reader_.u64("bytes length"))); break;
    default: return false;
  }
  return true;
}

bool PickleMachine::step_container(std::uint8_t opcode) {
  switch (opcode) {
    case kEmptyList: push(add_container(NodeKind::list, {})); break;
    case kEmptyDict: push(add_container(NodeKind::dict, {})); break;
    case kEmptyTuple: push(empty_tuple_); break;
    case kTuple1:
    case kTuple2:
    case kTuple3: {
      std::vector<Node> items(opcode - kTuple1 + 1u);
      for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
      push(add_container(NodeKind::tuple, items));
      break;
    }
    case kTuple: push(add_container(NodeKind::tuple, pop_to_mark())); break;
    case kAppend: {
      const Node item = pop();
      append({&item, 1});
      break;
    }
    case kAppends: append(pop_to_mark()); break;
    case kSetItem: {
      const Node value = pop();
      const Node items[] = {pop(), value};
      set_items(items);
      break;
    }
    case kSetItems: set_items(pop_to_mark()); break;
    default: return false;
  }
  return true;
}

// Names, and what is made by calling them.
bool PickleMachine::step_object(std::uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = name_line();
      push(find_global(module, name_line()));
      break;
    }
    case kStackGlobal: {
      const Node name = pop();
      const Node module = pop();
      expect(is(name, NodeKind::string) && is(module, NodeKind::string), "STACK_GLOBAL without two strings");
      push(find_global(document_.text(at(module)), document_.text(at(name))));
      break;
    }
    case kReduce: {
      const Node arguments = pop();
      push(call(pop(), arguments));
      break;
    }
    case kBuild: {
      const Node state = pop();
      build(top(), state);
      break;
    }
    case kBinPersId: push(persistent(pop())); break;
    default: return false;
  }
  return true;
}

// Up to a newline, bounded like any other text.
std::string_view PickleMachine::name_line() {
  const auto begin = document_.file.bytes.subspan(reader_.offset());
  std::uint64_t length = 0;
  while (reader_.u8("name") != '\n') {
    if (++length > kMaxPickleText) fail("a name is too long");
  }
  return text_of(begin.first(length));
}

PickleMachine::Node PickleMachine::add(PickleNode node) {
  if (document_.nodes.size() == kMaxPickleObjects) fail(fmt::format("has more than {} objects", kMaxPickleObjects));
  document_.nodes.push_back(node);
  return static_cast<Node>(document_.nodes.size() - 1);
}

PickleMachine::Node PickleMachine::add_container(NodeKind kind, std::span<const Node> children) {
  const Node node = add({.kind = kind, .payload = PickleDocument::kNoContainer});
  add_children(node, children);
  return node;
}

void PickleMachine::add_children(Node node, std::span<const Node> children) {
  if (children.empty()) return;
  children_ += children.size();
  if (children_ > kMaxPickleValues) fail(fmt::format("its containers hold more than {} values", kMaxPickleValues));
  PickleNode& container = at(node);
  if (container.payload == PickleDocument::kNoContainer) {
    container.payload = document_.containers.size();
    document_.containers.emplace_back();
  }
  std::vector<Node>& all = document_.containers[container.payload];
  all.insert(all.end(), children.begin(), children.end());
}

PickleMachine::Node PickleMachine::integer(std::int64_t value) {
  const PickleNode node{.kind = NodeKind::integer, .payload = std::bit_cast<std::uint64_t>(value)};
  if (value < 0 || value >= static_cast<std::int64_t>(small_integers_.size())) return add(node);
  Node& shared = small_integers_[static_cast<std::size_t>(value)];
  if (shared == kAbsent) shared = add(node);
  return shared;
}

PickleMachine::Node PickleMachine::long_integer(std::uint64_t bytes) {
  if (bytes > kMaxLongBytes) fail(fmt::format("an integer has {} bytes; the limit is {}", bytes, kMaxLongBytes));
  if (bytes > 8) return text_node(NodeKind::big_integer, bytes);
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) value |= std::uint64_t{reader_.u8("integer")} << (8 * i);
  const bool negative = bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1)) != 0;
  if (negative) value |= ~std::uint64_t{0} << (8 * bytes);
  return integer(std::bit_cast<std::int64_t>(value));
}

PickleMachine::Node PickleMachine::text_node(NodeKind kind, CheckedSize bytes) {
  if (!bytes.at_most(reader_.remaining())) reader_.take(bytes, "text");  // throws: the file is shorter
  if (!bytes.at_most(kMaxPickleText)) {
    fail(fmt::format("a text of {} bytes exceeds the limit of {}", bytes.to_string(), kMaxPickleText));
  }
  const std::uint64_t offset = reader_.offset();
  reader_.take(bytes, "text");
  return add({.kind = kind, .length = static_cast<std::uint32_t>(bytes.value()), .payload = offset});
}

void PickleMachine::push(Node node) {
  if (stack_.size() == kMaxStack) fail(fmt::format("has more than {} values on its stack", kMaxStack));
  stack_.push_back(node);
}

PickleMachine::Node PickleMachine::pop() {
  const Node node = top();
  stack_.pop_back();
  return node;
}

PickleMachine::Node PickleMachine::top() const {
  expect(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "the stack is empty");
  return stack_.back();
}

std::vector<PickleMachine::Node> PickleMachine::pop_to_mark() {
  expect(!marks_.empty(), "there is no mark on the stack");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<Node> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void PickleMachine::append(std::span<const Node> items) {
  const Node list = top();
  expect(is(list, NodeKind::list), "appends to something that is not a list");
  add_children(list, items);
}

void PickleMachine::set_items(std::span<const Node> items) {
  const Node dict = top();
  expect(is(dict, NodeKind::dict), "sets an item of something that is not a dict");
  expect(items.size() % 2 == 0, "a dict's key has no value");
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const NodeKind kind = at(items[i]).kind;
    expect(kind == NodeKind::string || kind == NodeKind::integer || kind == NodeKind::boolean ||
               kind == NodeKind::real || kind == NodeKind::none || kind == NodeKind::tuple,
           "a dict's key is neither text, number, None nor tuple");
  }
  add_children(dict, items);
}

void PickleMachine::memoise(std::uint64_t index) {
  if (index >= kMaxMemo) fail(fmt::format("memo index {} exceeds the limit of {}", index, kMaxMemo));
  const Node node = top();
  if (index >= memo_.size()) memo_.resize(index + 1, kAbsent);
  memo_[index] = node;
}

void PickleMachine::recall(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index] == kAbsent) fail(fmt::format("memo index {} was never written", index));
  push(memo_[index]);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
