// What codec.h is made of: one entry per format. Private to engine/image.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "engine/image/replay_source.h"

namespace upscaled {

struct Codec {
  ImageFormat format;
  const char* name;
  const char* media_type;
  std::array<const char*, 2> extensions;  // beside `name`; "" for none
  std::string_view signature;             // first bytes; '?' stands for any byte

  // What the encoder takes.
  int max_side_px;
  bool holds_gray;
  bool holds_alpha;
  bool holds_u16;

  // As ParseImageHeader; `prefix` may still be shorter than the signature.
  absl::StatusOr<std::optional<ImageHeader>> (*parse_header)(std::span<const uint8_t> prefix,
                                                             const DecodeLimits& limits);
  // `source` starts at the first byte and holds at least what the header needed.
  absl::StatusOr<std::unique_ptr<ImageDecoder>> (*open_decoder)(
      std::unique_ptr<ReplaySource> source, const ImageHeader& header, const DecodeLimits& limits);
  size_t (*encoder_bytes)(const ImageSpec& spec);
  // Options and spec have been checked.
  absl::StatusOr<std::unique_ptr<ImageEncoder>> (*create_encoder)(const EncodeOptions& options,
                                                                  const ImageSpec& spec,
                                                                  const ImageMetadata& metadata,
                                                                  ByteSink& sink);
};

std::span<const Codec> Codecs();

// png_*.cc
absl::StatusOr<std::optional<ImageHeader>> ParsePngHeader(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits);
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPngDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits);
size_t PngEncoderBytes(const ImageSpec& spec);
absl::StatusOr<std::unique_ptr<ImageEncoder>> CreatePngEncoder(const EncodeOptions& options,
                                                               const ImageSpec& spec,
                                                               const ImageMetadata& metadata,
                                                               ByteSink& sink);

// jpeg_*.cc
absl::StatusOr<std::optional<ImageHeader>> ParseJpegHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits);
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpegDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits);
size_t JpegEncoderBytes(const ImageSpec& spec);
absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateJpegEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink);

// webp_*.cc
absl::StatusOr<std::optional<ImageHeader>> ParseWebpHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits);
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenWebpDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits);
size_t WebpEncoderBytes(const ImageSpec& spec);
absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateWebpEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink);

}  // namespace upscaled
