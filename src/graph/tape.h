// Reverse-mode differentiation. What a tensor was computed from is kept in records, which handles own (nodes know
// nothing of them): a record holds the records of its operands and the rule that turns the gradient of its value into
// those of its operands. Rules hold exactly the tensors that they read, and so keep them from being fused away.
//
// Gradients are ordinary tensors made of ordinary ops: they are recorded, fused and run like all others.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <lockstep/tensor.h>

#include "graph/kept.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Gradients of the operands (undefined where not wanted), each of its operand's shape or one that broadcasts from it.
/// `result` is defined if the rule asked for it.
using Rule =
    std::function<std::vector<Tensor>(const Tensor& gradient, const std::vector<bool>& wanted, const Tensor& result)>;

struct Record : std::enable_shared_from_this<Record> {
  std::uint64_t id = 0;   ///< of the node: consumers have higher ones than what they consume
  const char* name = "";  ///< of the op that was called
  Shape shape;
  DType dtype = DType::f32;
  CallSite where;  ///< of that call

  struct Operand {
    std::shared_ptr<Record> record;  ///< null: needs no gradient
    Shape shape;
    DType dtype = DType::f32;
  };
  std::vector<Operand> operands;
  Rule rule;
  Kept result;  ///< of no record, so that there is no cycle
  bool is_leaf = false;
  bool released = false;
  std::shared_ptr<Tensor> sink;  ///< leaves: where backward() adds the gradient
  std::vector<std::function<Tensor(const Tensor&)>> hooks;

  ~Record();
};

/// Switches recording in this thread; returns what it was.
bool set_gradients_on(bool on);
bool gradients_are_on();
/// Whether ops on these are to be recorded: gradients are on in this thread, and one of them is tracked.
bool is_tracing(std::span<const Tensor* const> operands);
inline bool is_tracing(std::initializer_list<const Tensor*> operands) {
  return is_tracing(std::span(operands.begin(), operands.size()));
}

/// The records of what ops of this thread read while gradients are off and it lives, each once.
class ReadRecords {
 public:
  ReadRecords();
  ~ReadRecords();
  ReadRecords(const ReadRecords&) = delete;
  ReadRecords& operator=(const ReadRecords&) = delete;

  const std::vector<std::shared_ptr<Record>>& records() const { return records_; }
  void add(const std::shared_ptr<Record>& record);

 private:
  ReadRecords* outer_;
  std::vector<std::shared_ptr<Record>> records_;
  std::unordered_set<const Record*> known_;
};

/// The same value with a record. The result must be a float tensor.
Tensor traced(const Tensor& result, std::span<const Tensor* const> operands, Rule rule, bool reads_result = false);
inline Tensor traced(const Tensor& result, std::initializer_list<const Tensor*> operands, Rule rule,
                     bool reads_result = false) {
  return traced(result, std::span(operands.begin(), operands.size()), std::move(rule), reads_result);
}
/// The same, with further operands that are known by their records alone.
Tensor traced(const Tensor& result, std::span<const Tensor* const> operands,
              std::span<const std::shared_ptr<Record>> further, Rule rule);
/// The same value as a leaf, whose gradient backward() adds to `sink`.
Tensor leaf(const Tensor& tensor, std::shared_ptr<Tensor> sink);
Tensor leaf(const Tensor& tensor, std::shared_ptr<Tensor> sink, const std::string& name);
/// The same value without one.
Tensor untraced(const Tensor& tensor);
Tensor untraced(const Tensor& tensor, const std::string& name);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
