// The `lockstep` command as a function, for a program that adds networks of its own to it:
//
//   int main(int argc, char** argv) { return ls::cli::main(argc, argv, {my_architecture}); }
//
// `program train --arch my_net ...` and `program classify --arch my_net ...` then know it beside the others; all else
// is as in docs/cli.md. Link lockstep::cli.
#pragma once

#include <vector>

#include <lockstep/export.h>
#include <lockstep/models/registry.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Runs the command, prints what it has to say, and returns the exit code (docs/cli.md); throws nothing. A network
/// needs a name that no other has, `build`, `classifier` and a recipe; what is wrong with one is reported like other
/// failures.
LOCKSTEP_API int main(int argc, char** argv, std::vector<models::ImageClassifier> architectures = {});

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
