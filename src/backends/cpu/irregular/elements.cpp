#include "backends/cpu/irregular/elements.h"

#include <cstring>

#include "backends/cpu/row/space.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

Program space_of(const Shape& dims, int outer_dims) {
  Program program;
  program.rows = dims.slice(0, outer_dims);
  program.inner = dims.slice(outer_dims, dims.rank());
  return program;
}

}  // namespace

Reader::Reader(const Input& input, int outer_dims, Form form, Isa isa)
    : loader_{nullptr, size_of(type_of(input.dtype, form)),
              is_stored_as(input.dtype, type_of(input.dtype, form), form == Form::word, input.canonical)} {
  Program program = space_of(input.view.shape, outer_dims);
  program.inputs.push_back(input);
  Mapping mapping = map_space(program, Layout::rows, false);
  access_ = std::move(mapping.inputs[0]);
  const ConvertTable& convert = convert_table(isa);
  const auto& load = form == Form::word ? convert.load_bits : input.canonical ? convert.load_canonical : convert.load;
  loader_.load = load[index_of(input.dtype)];
}

const void* Reader::read(const std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count,
                         void* buffer) const {
  if (const void* elements = stored(data, outer, begin, count)) return elements;
  fetch(data, outer, begin, count, buffer);
  return buffer;
}

const void* Reader::stored(const std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count) const {
  if (!loader_.as_stored) return nullptr;
  const std::int64_t element = contiguous_run(access_, outer, begin, count);
  return element < 0 ? nullptr : data + static_cast<std::size_t>(element) * loader_.size;
}

void Reader::fetch(const std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count,
                   void* buffer) const {
  lockstep::fetch(access_, loader_, data, outer, begin, count, static_cast<std::byte*>(buffer));
}

Writer::Writer(DType dtype, const Shape& dims, const Shape& strides, std::int64_t offset, int outer_dims, Form form,
               Isa isa)
    : storer_{nullptr, size_of(type_of(dtype, form))},
      as_stored_(is_stored_as(dtype, type_of(dtype, form), form == Form::word, true)) {
  Program program = space_of(dims, outer_dims);
  program.outputs.push_back({.slot = 0, .dtype = dtype, .value = 0, .bits = form == Form::word, .strides = strides});
  Mapping mapping = map_space(program, Layout::rows, false);
  access_ = std::move(mapping.outputs[0]);
  access_.offset = offset;
  const ConvertTable& convert = convert_table(isa);
  storer_.store = (form == Form::word ? convert.store_bits : convert.store)[index_of(dtype)];
}

void Writer::write(std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count,
                   const void* values) const {
  put(access_, storer_, data, outer, begin, count, static_cast<const std::byte*>(values));
}

void* Writer::place(std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count) const {
  if (!as_stored_) return nullptr;
  const std::int64_t element = contiguous_run(access_, outer, begin, count);
  return element < 0 ? nullptr : data + static_cast<std::size_t>(element) * storer_.size;
}

View with_dims(const View& view, const Shape& dims) {
  View result = view;
  const auto pick = [&](const Shape& form) {
    Shape picked;
    for (const std::int64_t d : dims) picked.push_back(form[static_cast<int>(d)]);
    return picked;
  };
  result.shape = pick(view.shape);
  result.strides = pick(view.strides);
  for (Bound& bound : result.bounds) bound.m = pick(bound.m);
  return result;
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
