// Files that a command is given by name: on this machine, or on a hub.
#pragma once

#include <string>

#include <lockstep/io/onnx.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// io::local_file, with a line that says how far a download is.
std::string fetched(const std::string& path);
/// models::local_language_model, likewise.
std::string fetched_model(const std::string& path);
/// The file that a tokenizer is read from: of a whole repository only that is downloaded.
std::string fetched_tokenizer(const std::string& path);

struct FetchedOnnx {
  std::string path;
  io::OnnxOptions options;  ///< where its other files are links
};
/// An ONNX model, with the other files that it names, of the same commit.
FetchedOnnx fetched_onnx(const std::string& path);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
