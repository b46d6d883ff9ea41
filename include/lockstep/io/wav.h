// WAV files: sound as a tensor.
#pragma once

#include <string>

#include <lockstep/export.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// What a WAV file holds.
struct Sound {
  Tensor samples;  ///< f32 [channels, frames] on the CPU; integers scaled to [-1, 1).
  int rate = 0;    ///< Frames in a second.
};

/// Reads a RIFF/WAVE file of PCM with 8, 16, 24 or 32 bits, or of floats with 32 or 64, of at most 64 channels.
/// Samples of 32 and more bits are rounded once. Throws IoError if the file cannot be read; FormatError if it is none,
/// of another coding (ADPCM, A-law, MP3, ...), or cut short, or has a sample that is an infinity or NaN. Samples whose
/// size is unknown (0xffffffff, as ffmpeg writes to a pipe) are all that follows.  torchaudio: load.
LOCKSTEP_API Sound load_wav(const std::string& path);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
