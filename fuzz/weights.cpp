// Any bytes, as load_weights and list_tensors take them: recognised, opened by the reader of their format, and every
// element and metadata value looked at. Checksums are not verified: no mutation would get past them.
#include "fuzz_target.h"
#include "io/formats.h"

LOCKSTEP_FUZZ_TARGET(weights) {
  using namespace lockstep;
  for (const io::Part part : {io::Part::everything, io::Part::weights}) {
    fuzz::expect_error_or_success([&] {
      const os::FileBytes file = fuzz::file_of(data, size);
      const io::Format& format = io::readable_format(file);
      const auto source = io::open_tensors(format, file, {.part = part, .verify_checksums = false});
      for (const auto& [name, value] : source->metadata()) value.to_string();
      for (std::size_t i = 0; i < source->entries().size(); ++i) fuzz::touch(source->elements(i));
    });
  }
  return 0;
}
