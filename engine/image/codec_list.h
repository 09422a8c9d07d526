// The list behind codec.h: one entry per format. Private to engine/image.
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

// As ParseImageHeader; `prefix` may still be shorter than the signature.
using ParseHeaderFn = absl::StatusOr<std::optional<ImageHeader>>(std::span<const uint8_t> prefix,
                                                                 const DecodeLimits& limits,
                                                                 bool is_whole);
// `source` starts at the first byte and holds at least the bytes of the header.
using OpenDecoderFn = absl::StatusOr<std::unique_ptr<ImageDecoder>>(
    std::unique_ptr<ReplaySource> source, const ImageHeader& header, const DecodeLimits& limits,
    const Cancellation* cancellation);
using EncoderBytesFn = size_t(const EncodeOptions& options, const ImageSpec& spec);
// Options and spec have been checked.
using CreateEncoderFn = absl::StatusOr<std::unique_ptr<ImageEncoder>>(
    const EncodeOptions& options, const ImageSpec& spec, const ImageMetadata& metadata,
    ByteSink& sink, const Cancellation* cancellation);

struct Codec {
  ImageFormat format;
  const char* name;   // "jpeg"
  const char* title;  // "JPEG"
  // The preferred one first; "": there is no other.
  std::array<const char*, 2> media_types;
  std::array<const char*, 2> extensions;
  // First bytes, any of these; '?' stands for any byte. "": there is no other.
  std::array<std::string_view, 4> signatures;
  // Brands. A file of boxes (ISO/IEC 14496-12) must name one of them. "": there is no other.
  std::array<std::string_view, 8> brands;

  // The decoder is not to be trusted with files of strangers outside of the decoders' cage.
  bool needs_cage;
  bool reads_frames;  // any of an animation, by DecodeLimits::frame

  // The limits of the encoder.
  int max_side_px;
  bool holds_gray;
  bool holds_alpha;
  bool holds_u16;
  bool holds_cicp;

  // null: this build does not read, or not write, the format.
  ParseHeaderFn* parse_header;
  OpenDecoderFn* open_decoder;
  EncoderBytesFn* encoder_bytes;
  CreateEncoderFn* create_encoder;
  // For animations (EncodeOptions::animation); null: the format holds no frames.
  EncoderBytesFn* animation_encoder_bytes;
  CreateEncoderFn* create_animation_encoder;
};

std::span<const Codec> Codecs();

// In <format>_header.cc, <format>_decoder.cc and <format>_encoder.cc.
ParseHeaderFn ParsePngHeader, ParseJpegHeader, ParseWebpHeader, ParseBmpHeader, ParseGifHeader,
    ParseAvifHeader, ParseHeicHeader, ParseTiffHeader, ParseJxlHeader;
OpenDecoderFn OpenPngDecoder, OpenJpegDecoder, OpenWebpDecoder, OpenBmpDecoder, OpenGifDecoder,
    OpenAvifDecoder, OpenHeicDecoder, OpenTiffDecoder, OpenJxlDecoder;
EncoderBytesFn PngEncoderBytes, ApngEncoderBytes, JpegEncoderBytes, WebpEncoderBytes,
    WebpAnimationEncoderBytes, AvifEncoderBytes, AvifAnimationEncoderBytes, TiffEncoderBytes,
    JxlEncoderBytes;
CreateEncoderFn CreatePngEncoder, CreateApngEncoder, CreateJpegEncoder, CreateWebpEncoder,
    CreateWebpAnimationEncoder, CreateAvifEncoder, CreateAvifAnimationEncoder, CreateTiffEncoder,
    CreateJxlEncoder;

}  // namespace upscaled
