// Visits everything in a document as a user would: names, texts, numbers, and every byte of every tensor.
#pragma once

#include "fuzz_target.h"
#include "io/pickle_document.h"

namespace lockstep::fuzz {

inline void walk(const std::shared_ptr<const io::PickleDocument>& document) {
  const io::FlatPickle flat = io::flatten(io::PickleDocument::root_value(document), "input");
  for (const auto& [name, value] : flat.tensors) {
    touch(io::PickleDocument::raw(value));
    value.tensor_entry();
  }
}

}  // namespace lockstep::fuzz
