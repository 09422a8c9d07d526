#include "tests/support/odd_files.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

int SamplesPerPixel(int color_type) {
  switch (color_type) {
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    default:
      return 1;
  }
}

void AppendBe32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

// Sample `i` of a packed row.
int PackedSample(const std::vector<uint8_t>& row, int bit_depth, int i) {
  if (bit_depth == 16) return row[2 * i] << 8 | row[2 * i + 1];
  const int bit = i * bit_depth;
  return row[bit / 8] >> (8 - bit_depth - bit % 8) & ((1 << bit_depth) - 1);
}

}  // namespace

PngFile RandomPng(int width, int height, int bit_depth, int color_type, std::mt19937& random) {
  PngFile file = {width, height, bit_depth, color_type};
  const int row_bits = width * bit_depth * SamplesPerPixel(color_type);
  file.rows.assign(height, std::vector<uint8_t>((row_bits + 7) / 8));
  for (auto& row : file.rows)
    for (uint8_t& byte : row) byte = static_cast<uint8_t>(RandomInt(random, 0, 255));
  if (color_type == PNG_COLOR_TYPE_PALETTE) {
    file.palette.resize(3 << bit_depth);
    for (uint8_t& byte : file.palette) byte = static_cast<uint8_t>(RandomInt(random, 0, 255));
  }
  return file;
}

std::string WritePng(const PngFile& file) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) std::abort();
  png_set_write_fn(
      png, &bytes,
      [](png_structp png, png_bytep data, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(png))
            ->append(reinterpret_cast<const char*>(data), count);
      },
      nullptr);
  png_set_IHDR(png, info, file.width, file.height, file.bit_depth, file.color_type,
               file.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
  if (!file.palette.empty())
    png_set_PLTE(png, info, reinterpret_cast<png_const_colorp>(file.palette.data()),
                 static_cast<int>(file.palette.size() / 3));
  png_color_16 key = {};
  if (file.transparent.has_value()) {
    const std::vector<uint16_t>& samples = *file.transparent;
    key.gray = key.red = samples[0];
    if (samples.size() == 3) key.green = samples[1], key.blue = samples[2];
  }
  if (file.transparent.has_value() || !file.palette_alpha.empty())
    png_set_tRNS(png, info, file.palette_alpha.data(), static_cast<int>(file.palette_alpha.size()),
                 &key);
  std::vector<png_bytep> rows;
  for (const auto& row : file.rows) rows.push_back(const_cast<png_bytep>(row.data()));
  png_write_info(png, info);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

std::vector<uint16_t> StoredPixel(const PngFile& file, int x, int y) {
  const int count = SamplesPerPixel(file.color_type);
  std::vector<uint16_t> pixel;
  for (int c = 0; c < count; ++c)
    pixel.push_back(PackedSample(file.rows[y], file.bit_depth, x * count + c));
  return pixel;
}

Image ExpectedPixels(const PngFile& file) {
  const bool palette = file.color_type == PNG_COLOR_TYPE_PALETTE;
  const bool has_key = file.transparent.has_value();
  const int stored = SamplesPerPixel(file.color_type);
  const int channels = palette ? (file.palette_alpha.empty() ? 3 : 4) : stored + (has_key ? 1 : 0);
  const bool wide = file.bit_depth == 16;
  Image image({file.width, file.height, channels, wide ? SampleType::kU16 : SampleType::kU8});
  const int max = wide ? 65535 : 255;
  for (int y = 0; y < file.height; ++y)
    for (int x = 0; x < file.width; ++x) {
      std::vector<uint16_t> pixel = StoredPixel(file, x, y);
      if (palette) {
        const size_t index = pixel[0];
        pixel = {file.palette[3 * index], file.palette[3 * index + 1], file.palette[3 * index + 2]};
        if (channels == 4)
          pixel.push_back(index < file.palette_alpha.size() ? file.palette_alpha[index] : 255);
      } else {
        const bool transparent =
            has_key && std::equal(pixel.begin(), pixel.end(), file.transparent->begin());
        for (uint16_t& sample : pixel) sample = int64_t{sample} * max / ((1 << file.bit_depth) - 1);
        if (has_key) pixel.push_back(transparent ? 0 : max);
      }
      for (int c = 0; c < channels; ++c) {
        if (wide)
          image.mutable_view().row_as<uint16_t>(y)[x * channels + c] = pixel[c];
        else
          image.mutable_view().row(y)[x * channels + c] = pixel[c];
      }
    }
  return image;
}

std::string PngChunk(std::string_view type, std::string_view data) {
  std::string chunk;
  AppendBe32(chunk, data.size());
  chunk.append(type).append(data);
  AppendBe32(chunk, crc32(0, reinterpret_cast<const Bytef*>(&chunk[4]), chunk.size() - 4));
  return chunk;
}

std::string DeflateZeros(std::string_view begin, size_t total_bytes) {
  z_stream stream = {};
  deflateInit(&stream, Z_BEST_COMPRESSION);
  std::string deflated;
  const auto append = [&](std::string_view piece, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      char out[4096];
      stream.next_out = reinterpret_cast<Bytef*>(out);
      stream.avail_out = sizeof(out);
      deflate(&stream, flush);
      deflated.append(out, sizeof(out) - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  append(begin, Z_NO_FLUSH);
  const std::string zeros(1 << 16, '\0');
  for (size_t rest = total_bytes - begin.size(); rest > 0; rest -= std::min(rest, zeros.size()))
    append(std::string_view(zeros).substr(0, rest), Z_NO_FLUSH);
  append({}, Z_FINISH);
  deflateEnd(&stream);
  return deflated;
}

std::string WriteJpeg(const JpegFile& file, ImageView samples) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);  // ends the process on an error
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = samples.width_px();
  info.image_height = samples.height_px();
  info.input_components = samples.spec.channels;
  info.in_color_space = samples.spec.channels == 1   ? JCS_GRAYSCALE
                        : samples.spec.channels == 3 ? JCS_RGB
                                                     : JCS_CMYK;
  jpeg_set_defaults(&info);
  constexpr J_COLOR_SPACE kSpaces[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK, JCS_YCCK};
  jpeg_set_colorspace(&info, kSpaces[static_cast<int>(file.color)]);
  jpeg_set_quality(&info, file.quality, TRUE);
  info.comp_info[0].h_samp_factor = file.luma_sampling.width;
  info.comp_info[0].v_samp_factor = file.luma_sampling.height;
  if (!file.adobe_marker) info.write_Adobe_marker = FALSE;
  info.restart_interval = file.restart_interval;
  info.arith_code = file.arithmetic;
  if (file.progressive) jpeg_simple_progression(&info);
  jpeg_scan_info scans[4] = {};
  if (file.scan_per_component) {
    for (int c = 0; c < info.num_components; ++c) scans[c] = {1, {c}, 0, 63, 0, 0};
    info.scan_info = scans;
    info.num_scans = info.num_components;
  }
  jpeg_start_compress(&info, TRUE);
  if (!file.exif.empty())
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(file.exif.data()),
                      file.exif.size());
  if (!file.icc_profile.empty())
    jpeg_write_icc_profile(&info, reinterpret_cast<const JOCTET*>(file.icc_profile.data()),
                           file.icc_profile.size());
  for (int y = 0; y < samples.height_px(); ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(samples.row(y));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string result(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return result;
}

std::string ExifSegment(int orientation, bool big_endian) {
  std::string segment("Exif\0\0", 6);
  const auto append = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      segment.push_back(static_cast<char>(value >> 8 * (big_endian ? bytes - 1 - i : i)));
  };
  segment += big_endian ? "MM" : "II";
  append(42, 2);
  append(8, 4);                                                  // the first directory
  append(2, 2);                                                  // its entries
  append(0x0100, 2), append(4, 2), append(1, 4), append(77, 4);  // image width, not to be read
  append(0x0112, 2), append(3, 2), append(1, 4), append(orientation, 2), append(0, 2);
  append(0, 4);  // no other directory
  return segment;
}

std::string TestProfile(bool gray, size_t bytes) {
  std::string profile;
  AppendBe32(profile, bytes);
  profile += "test";
  AppendBe32(profile, 0x04200000);  // version
  profile += "mntr";
  profile += gray ? "GRAY" : "RGB ";
  profile += "XYZ ";
  profile.append(12, '\1');  // date
  profile += "acsp";
  profile.append(28, '\0');  // platform, flags, device, attributes, intent
  AppendBe32(profile, 0x0000F6D6), AppendBe32(profile, 0x00010000), AppendBe32(profile, 0x0000D32D);
  profile.resize(128, '\0');
  AppendBe32(profile, 0);  // tags
  for (size_t i = profile.size(); i < bytes; ++i)
    profile.push_back(static_cast<char>(i * 37 % 251));
  return profile;
}

}  // namespace upscaled::test
