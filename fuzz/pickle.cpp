// The stack machine on one pickle, without a container: storages are taken to be the input's first bytes.
#include "io/pickle_machine.h"
#include "pickle_walk.h"

LOCKSTEP_FUZZ_TARGET(pickle) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const auto document = std::make_shared<io::PickleDocument>();
    document->file = fuzz::file_of(data, size);
    io::PickleMachine machine(*document, document->file.bytes, 0, true);
    document->root = machine.run();
    for (io::PickleStorage& storage : document->storages) {
      const CheckedSize bytes = CheckedSize(storage.elements) * io::size_of(storage.type);
      storage.found = bytes.at_most(size);
      if (storage.found) storage.bytes = document->file.bytes.first(bytes.value());
    }
    io::check_document(*document);
    fuzz::walk(document);
  });
}
