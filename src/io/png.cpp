// PNG by libpng. libpng reports errors by longjmp, which must not pass over destructors: the functions that call
// setjmp hold only plain values, everything that owns memory lives in their callers.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include <fmt/format.h>
#include <png.h>

#include <lockstep/error.h>

#include "io/image_codec.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::size_t kMaxMessage = 200;
constexpr png_uint_32 kMaxSide = 1 << 20;  // libpng keeps rows of up to 8 bytes per pixel
constexpr png_alloc_size_t kMaxChunkMemory = 8 << 20;

// Shared with libpng's callbacks; owned by the caller of the setjmp functions.
struct PngSession {
  std::span<const std::byte> input;  // what is not read yet
  std::vector<std::byte>* output = nullptr;
  bool out_of_memory = false;
  char message[kMaxMessage] = {};
};

void on_error(png_structp png, png_const_charp message) {
  auto* session = static_cast<PngSession*>(png_get_error_ptr(png));
  std::strncpy(session->message, message, kMaxMessage - 1);
  std::longjmp(png_jmpbuf(png), 1);
}

void on_warning(png_structp, png_const_charp) {}  // about chunks that do not change the pixels

void on_read(png_structp png, png_bytep data, std::size_t bytes) {
  auto* session = static_cast<PngSession*>(png_get_io_ptr(png));
  if (bytes > session->input.size()) png_error(png, "the file is cut short");
  std::memcpy(data, session->input.data(), bytes);
  session->input = session->input.subspan(bytes);
}

void on_write(png_structp png, png_bytep data, std::size_t bytes) {
  auto* session = static_cast<PngSession*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  try {
    session->output->insert(session->output->end(), begin, begin + bytes);
  } catch (const std::bad_alloc&) {
    session->out_of_memory = true;  // an exception must not pass through libpng
  }
  if (session->out_of_memory) png_error(png, "out of memory");
}

void on_flush(png_structp) {}

struct PngReader {
  PngReader() : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning)) {
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) throw OutOfMemoryError("libpng cannot allocate its state");
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  PngSession session;
  png_structp png = nullptr;
  png_infop info = nullptr;
  // What read_header finds.
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  bool has_palette = false;
  std::array<png_color, 256> palette = {};
  int palette_size = 0;
};

// Up to the pixels, and before anything is allocated for them. False after an error, which session.message names.
bool read_header(PngReader& reader) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, &reader.session, on_read);
  png_set_user_limits(png, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(png, kMaxChunkMemory);
  // Texts and colour profiles may be compressed, and are of no use here: never unpack them.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, reader.info);
  reader.width = png_get_image_width(png, reader.info);
  reader.height = png_get_image_height(png, reader.info);
  return true;
}

// Chooses the transformations: 8-bit RGB, or palette indices. Allocates rows.
bool start_pixels(PngReader& reader) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  const int color = png_get_color_type(png, reader.info);
  reader.has_palette = color == PNG_COLOR_TYPE_PALETTE;
  if (reader.has_palette) {
    png_colorp palette = nullptr;
    if (png_get_PLTE(png, reader.info, &palette, &reader.palette_size) == 0) png_error(png, "the palette is missing");
    std::copy(palette, palette + reader.palette_size, reader.palette.begin());
    png_set_packing(png);  // one index per byte; they are looked up, and checked, below
  } else {
    png_set_strip_16(png);
    if ((color & PNG_COLOR_MASK_COLOR) == 0) {
      png_set_expand_gray_1_2_4_to_8(png);
      png_set_gray_to_rgb(png);
    }
    png_set_strip_alpha(png);
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  return true;
}

bool read_pixels(PngReader& reader, png_bytep* rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

struct Writer {
  Writer() : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning)) {
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) throw OutOfMemoryError("libpng cannot allocate its state");
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  PngSession session;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

bool write_all(Writer& writer, int width, int height, const png_byte* pixels) {
  png_structp png = writer.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &writer.session, on_write, on_flush);
  png_set_IHDR(png, writer.info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 8,
               PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, writer.info);
  const std::size_t stride = static_cast<std::size_t>(width) * 3;
  for (int y = 0; y < height; ++y) png_write_row(png, pixels + static_cast<std::size_t>(y) * stride);
  png_write_end(png, writer.info);
  return true;
}

[[noreturn]] void fail(std::string_view name, std::string_view message) {
  throw FormatError(fmt::format("{}: PNG: {}", name, message));
}

}  // namespace

Image decode_png(std::string_view name, std::span<const std::byte> bytes, std::int64_t max_pixels) {
  PngReader reader;
  reader.session.input = bytes;
  if (!read_header(reader)) fail(name, reader.session.message);
  check_image_area(name, reader.width, reader.height, max_pixels);
  if (!start_pixels(reader)) fail(name, reader.session.message);

  const std::size_t channels = reader.has_palette ? 1 : 3;
  const std::size_t stride = reader.width * channels;
  if (png_get_rowbytes(reader.png, reader.info) != stride) fail(name, "its rows have an unexpected size");
  std::vector<std::uint8_t> pixels(stride * reader.height);
  std::vector<png_bytep> rows(reader.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * stride;
  if (!read_pixels(reader, rows.data())) fail(name, reader.session.message);

  Image image{.width = static_cast<int>(reader.width), .height = static_cast<int>(reader.height)};
  if (!reader.has_palette) {
    image.pixels = std::move(pixels);
    return image;
  }
  image.pixels.reserve(pixels.size() * 3);
  for (const std::uint8_t index : pixels) {
    if (index >= reader.palette_size) {
      fail(name, fmt::format("palette index {} is outside a palette of {}", index, reader.palette_size));
    }
    const png_color color = reader.palette[index];
    image.pixels.insert(image.pixels.end(), {color.red, color.green, color.blue});
  }
  return image;
}

std::vector<std::byte> encode_png(const Image& image) {
  std::vector<std::byte> result;
  Writer writer;
  writer.session.output = &result;
  if (!write_all(writer, image.width, image.height, image.pixels.data())) {
    if (writer.session.out_of_memory) throw OutOfMemoryError("cannot allocate the memory to encode a PNG");
    throw ValueError(fmt::format("cannot encode a PNG: {}", writer.session.message));
  }
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
