// JPEG by libjpeg-turbo. As in png.cpp, the function that calls setjmp holds only plain values.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <new>

#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

#include <lockstep/error.h>

#include "io/image_codec.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// A progressive file has about ten scans. Each is a pass over the picture that may cost a few bytes of the file: a flat
// one of 64 million pixels can be gone over again and again in a hundred kilobytes. Small pictures may have many.
constexpr int kMaxScans = 500;
constexpr std::uint64_t kMaxPasses = 16;
constexpr std::uint64_t kFreeBlocks = 1 << 20;

struct JpegSession {
  jpeg_error_mgr errors;  // first: libjpeg knows the session by the address of this member
  std::jmp_buf on_error;
  char message[JMSG_LENGTH_MAX] = {};
  bool out_of_memory = false;
  int scan = 0;              // the last that was counted
  std::uint64_t blocks = 0;  // of all scans so far
};

JpegSession* session_of(j_common_ptr common) {
  return reinterpret_cast<JpegSession*>(common->err);
}

void on_error(j_common_ptr common) {
  JpegSession* session = session_of(common);
  (*common->err->format_message)(common, session->message);
  session->out_of_memory = common->err->msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(session->on_error, 1);
}

// libjpeg goes on after damage and invents pixels. Only remarks that leave the pixels alone are passed over.
void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  switch (common->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_TOO_MUCH_DATA: return;
    default: on_error(common);
  }
}

void on_print(j_common_ptr) {}

std::uint64_t blocks_of_picture(const jpeg_decompress_struct& picture) {
  std::uint64_t blocks = 0;
  for (int i = 0; i < picture.num_components; ++i) {
    const jpeg_component_info& component = picture.comp_info[i];
    blocks += std::uint64_t{component.width_in_blocks} * component.height_in_blocks;
  }
  return blocks;
}

// Called before each row of blocks is read; counts a scan when it meets its first.
void on_progress(j_common_ptr common) {
  const jpeg_decompress_struct& picture = *reinterpret_cast<j_decompress_ptr>(common);
  JpegSession* session = session_of(common);
  if (picture.input_scan_number == session->scan) return;
  session->scan = picture.input_scan_number;
  session->blocks += std::uint64_t{picture.MCUs_per_row} * picture.MCU_rows_in_scan *
                     static_cast<std::uint64_t>(picture.blocks_in_MCU);
  if (session->scan > kMaxScans) {
    std::snprintf(session->message, sizeof(session->message), "it has more than %d scans", kMaxScans);
  } else if (session->blocks > kMaxPasses * blocks_of_picture(picture) + kFreeBlocks) {
    std::snprintf(session->message, sizeof(session->message), "its scans pass over the picture more than %d times",
                  static_cast<int>(kMaxPasses));
  } else {
    return;
  }
  std::longjmp(session->on_error, 1);
}

struct JpegReader {
  JpegReader() {
    state.err = jpeg_std_error(&session.errors);
    session.errors.error_exit = on_error;
    session.errors.emit_message = on_message;
    session.errors.output_message = on_print;
    progress.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&state); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  JpegSession session;
  jpeg_progress_mgr progress = {};
  jpeg_decompress_struct state = {};
  int channels = 0;
};

bool read_header(JpegReader& reader, const unsigned char* data, unsigned long bytes) {
  if (setjmp(reader.session.on_error) != 0) return false;
  jpeg_create_decompress(&reader.state);
  reader.state.progress = &reader.progress;
  jpeg_mem_src(&reader.state, data, bytes);
  jpeg_read_header(&reader.state, TRUE);
  if (reader.state.arith_code) {
    // Its decoder makes up what is missing and says nothing.
    std::snprintf(reader.session.message, sizeof(reader.session.message), "%s",
                  "arithmetic coding is not supported; save it with Huffman coding, e.g. by jpegtran");
    return false;
  }
  const J_COLOR_SPACE stored = reader.state.jpeg_color_space;
  const bool has_black = stored == JCS_CMYK || stored == JCS_YCCK;
  reader.state.out_color_space = has_black ? JCS_CMYK : JCS_RGB;
  reader.state.dct_method = JDCT_ISLOW;
  reader.state.do_fancy_upsampling = TRUE;
  reader.channels = has_black ? 4 : 3;
  return true;
}

bool read_pixels(JpegReader& reader, std::uint8_t* pixels) {
  if (setjmp(reader.session.on_error) != 0) return false;
  jpeg_start_decompress(&reader.state);
  const std::size_t stride =
      static_cast<std::size_t>(reader.state.output_width) * static_cast<std::size_t>(reader.channels);
  while (reader.state.output_scanline < reader.state.output_height) {
    JSAMPROW row = pixels + reader.state.output_scanline * stride;
    jpeg_read_scanlines(&reader.state, &row, 1);
  }
  jpeg_finish_decompress(&reader.state);
  return true;
}

// a * b / 255, rounded.
int multiply_bytes(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Adobe stores ink inverted: 255 is none. So light = stored black, less what the coloured inks take of it.
std::vector<std::uint8_t> rgb_of_inverted_cmyk(const std::vector<std::uint8_t>& cmyk) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < cmyk.size(); i += 4) {
    const int light = cmyk[i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int value = light - multiply_bytes(255 - cmyk[i + c], light);
      rgb.push_back(static_cast<std::uint8_t>(value < 0 ? 0 : value));
    }
  }
  return rgb;
}

}  // namespace

Image decode_jpeg(std::string_view name, std::span<const std::byte> bytes, std::int64_t max_pixels) {
  JpegReader reader;
  const auto fail = [&] {
    if (reader.session.out_of_memory) throw std::bad_alloc();
    throw FormatError(fmt::format("{}: JPEG: {}", name, reader.session.message));
  };
  if (!read_header(reader, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) fail();
  check_image_area(name, reader.state.image_width, reader.state.image_height, max_pixels);

  Image image{.width = static_cast<int>(reader.state.image_width),
              .height = static_cast<int>(reader.state.image_height)};
  std::vector<std::uint8_t> pixels(std::size_t{reader.state.image_width} * reader.state.image_height *
                                   static_cast<std::size_t>(reader.channels));
  if (!read_pixels(reader, pixels.data())) fail();
  image.pixels = reader.channels == 4 ? rgb_of_inverted_cmyk(pixels) : std::move(pixels);
  return image;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
