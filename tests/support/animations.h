// Animations for tests: files of random frames, their canvases, worked out pixel by pixel, and all
// frames of a decoder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

// A frame of an animated PNG. Its pixels have the channels of the file.
struct ApngFrame {
  Rect place;
  Image pixels;
  FrameDelay delay;
  int disposal = 0;  // 0 stays, 1 clears, 2 as before
  bool blends = false;
};

struct ApngFile {
  Size canvas;
  std::vector<ApngFrame> frames;
  uint32_t plays = 0;
  bool still_is_frame = true;  // otherwise another image comes first, of the canvas' size
};

inline std::string Be32(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string Be16(uint32_t value) { return Be32(value).substr(2); }

// The chunks of one type in a PNG file, their data.
inline std::vector<std::string> DataOfPngChunks(std::string_view png, std::string_view type) {
  std::vector<std::string> data;
  for (size_t at = 8; at + 8 <= png.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(png[i])); };
    const size_t length = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (png.substr(at + 4, 4) == type) data.emplace_back(png.substr(at + 8, length));
    at += 12 + length;
  }
  return data;
}

inline std::string WriteApng(const ApngFile& file, std::string_view late = {}) {
  uint32_t sequence = 0;
  const ApngFrame& first = file.frames.front();
  ImageSpec canvas = first.pixels.spec();
  canvas.width_px = file.canvas.width;
  canvas.height_px = file.canvas.height;
  Image still(canvas);
  for (int y = 0; y < canvas.height_px; ++y)
    std::fill_n(still.mutable_view().row(y), canvas.row_bytes(), uint8_t{77});
  const std::string still_png =
      *Encode(file.still_is_frame ? first.pixels.view() : still.view(), {});
  std::string png =
      still_png.substr(0, 8) + PngChunk("IHDR", DataOfPngChunks(still_png, "IHDR")[0]);
  png += PngChunk("acTL", Be32(static_cast<uint32_t>(file.frames.size())) + Be32(file.plays));
  if (!file.still_is_frame)
    for (const std::string& data : DataOfPngChunks(still_png, "IDAT"))
      png += PngChunk("IDAT", data);
  for (size_t i = 0; i < file.frames.size(); ++i) {
    const ApngFrame& frame = file.frames[i];
    const Rect& r = frame.place;
    png +=
        PngChunk("fcTL", Be32(sequence++) + Be32(r.width) + Be32(r.height) + Be32(r.x) + Be32(r.y) +
                             Be16(frame.delay.numerator) + Be16(frame.delay.denominator) +
                             std::string{static_cast<char>(frame.disposal),
                                         static_cast<char>(frame.blends ? 1 : 0)});
    for (const std::string& data : DataOfPngChunks(*Encode(frame.pixels.view(), {}), "IDAT")) {
      png += i == 0 && file.still_is_frame ? PngChunk("IDAT", data)
                                           : PngChunk("fdAT", Be32(sequence++) + data);
    }
  }
  return png + std::string(late) + PngChunk("IEND", "");
}

struct DecodedFrames {
  ImageHeader header;
  ImageMetadata metadata, late_metadata;
  std::vector<Image> frames;
  std::vector<FrameDelay> delays;
  std::vector<std::string> warnings;
};

// All frames of a file, in random portions of rows; one if it does not move.
inline absl::StatusOr<DecodedFrames> DecodeFrames(std::string_view bytes, std::mt19937& random,
                                                  DecodeLimits limits = {}) {
  limits.frame = 0;
  MemorySource source(bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageDecoder> decoder, OpenImageDecoder(source, limits));
  DecodedFrames decoded{.header = decoder->header(), .metadata = decoder->metadata()};
  const int frames = decoder->header().animation.value_or(Animation()).frames;
  for (int i = 0; i < frames; ++i) {
    if (decoder->header().animation.has_value()) {
      ASSIGN_OR_RETURN(decoded.delays.emplace_back(), decoder->NextFrame());
    }
    ASSIGN_OR_RETURN(decoded.frames.emplace_back(), ReadAllInPortions(*decoder, random));
  }
  decoded.late_metadata = decoder->late_metadata();
  decoded.warnings = decoder->header().warnings;
  for (const std::string& warning : decoder->warnings()) decoded.warnings.push_back(warning);
  return decoded;
}

}  // namespace upscaled::test
