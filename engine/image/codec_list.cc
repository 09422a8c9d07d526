#include "engine/image/codec_list.h"

namespace upscaled {
namespace {

constexpr Codec kCodecs[] = {
    {
        .format = ImageFormat::kPng,
        .name = "png",
        .media_types = {"image/png", ""},
        .extensions = {"png", ""},
        .signature = "\x89PNG\r\n\x1a\n",
        .max_side_px = 1'000'000,  // libpng's own default limit
        .holds_gray = true,
        .holds_alpha = true,
        .holds_u16 = true,
        .parse_header = ParsePngHeader,
        .open_decoder = OpenPngDecoder,
        .encoder_bytes = PngEncoderBytes,
        .create_encoder = CreatePngEncoder,
    },
    {
        .format = ImageFormat::kJpeg,
        .name = "jpeg",
        .media_types = {"image/jpeg", "image/jpg"},
        .extensions = {"jpg", "jpe"},
        .signature = "\xff\xd8\xff",
        .max_side_px = 65500,  // libjpeg's JPEG_MAX_DIMENSION
        .holds_gray = true,
        .holds_alpha = false,
        .holds_u16 = false,
        .parse_header = ParseJpegHeader,
        .open_decoder = OpenJpegDecoder,
        .encoder_bytes = JpegEncoderBytes,
        .create_encoder = CreateJpegEncoder,
    },
    {
        .format = ImageFormat::kWebp,
        .name = "webp",
        .media_types = {"image/webp", ""},
        .extensions = {"webp", ""},
        .signature = "RIFF????WEBP",
        .max_side_px = 16383,  // 14 bits in the format
        .holds_gray = false,
        .holds_alpha = true,
        .holds_u16 = false,
        .parse_header = ParseWebpHeader,
        .open_decoder = OpenWebpDecoder,
        .encoder_bytes = WebpEncoderBytes,
        .create_encoder = CreateWebpEncoder,
    },
};

}  // namespace

std::span<const Codec> Codecs() { return kCodecs; }

}  // namespace upscaled
