#include "engine/image/codec_list.h"

namespace upscaled {
namespace {

constexpr Codec kCodecs[] = {
    {
        .format = ImageFormat::kPng,
        .name = "png",
        .title = "PNG",
        .media_types = {"image/png", ""},
        .extensions = {"png", ""},
        .signatures = {"\x89PNG\r\n\x1a\n"},
        .reads_frames = true,
        .max_side_px = 1'000'000,  // libpng's own default limit
        .holds_gray = true,
        .holds_alpha = true,
        .holds_u16 = true,
        .holds_cicp = true,
        .parse_header = ParsePngHeader,
        .open_decoder = OpenPngDecoder,
        .encoder_bytes = PngEncoderBytes,
        .create_encoder = CreatePngEncoder,
        .animation_encoder_bytes = ApngEncoderBytes,
        .create_animation_encoder = CreateApngEncoder,
    },
    {
        .format = ImageFormat::kJpeg,
        .name = "jpeg",
        .title = "JPEG",
        .media_types = {"image/jpeg", "image/jpg"},
        .extensions = {"jpg", "jpe"},
        .signatures = {"\xff\xd8\xff"},
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
        .title = "WebP",
        .media_types = {"image/webp", ""},
        .extensions = {"webp", ""},
        .signatures = {"RIFF????WEBP"},
        .reads_frames = true,
        .max_side_px = 16383,  // 14 bits in the format
        .holds_gray = false,
        .holds_alpha = true,
        .holds_u16 = false,
        .parse_header = ParseWebpHeader,
        .open_decoder = OpenWebpDecoder,
        .encoder_bytes = WebpEncoderBytes,
        .create_encoder = CreateWebpEncoder,
        .animation_encoder_bytes = WebpAnimationEncoderBytes,
        .create_animation_encoder = CreateWebpAnimationEncoder,
    },
    {
        .format = ImageFormat::kAvif,
        .name = "avif",
        .title = "AVIF",
        .media_types = {"image/avif", ""},
        .extensions = {"avif", ""},
        .signatures = {std::string_view("\0\0??ftyp", 8)},
        .brands = {"avif", "avis"},
        .max_side_px = 65536,  // AV1's
        .holds_gray = true,
        .holds_alpha = true,
        .holds_u16 = true,
        .holds_cicp = true,
        .parse_header = ParseAvifHeader,
#ifdef UPSCALED_HAVE_AVIF
        .open_decoder = OpenAvifDecoder,
        .encoder_bytes = AvifEncoderBytes,
        .create_encoder = CreateAvifEncoder,
        .animation_encoder_bytes = AvifAnimationEncoderBytes,
        .create_animation_encoder = CreateAvifAnimationEncoder,
#endif
    },
    {
        .format = ImageFormat::kJxl,
        .name = "jxl",
        .title = "JPEG XL",
        .media_types = {"image/jxl", ""},
        .extensions = {"jxl", ""},
        .signatures = {"\xff\x0a", std::string_view("\0\0\0\x0cJXL \r\n\x87\n", 12)},
        .max_side_px = 262'144,  // the format's level 5, which viewers read
        .holds_gray = true,
        .holds_alpha = true,
        .holds_u16 = true,
        .holds_cicp = true,
        .parse_header = ParseJxlHeader,
#ifdef UPSCALED_HAVE_JXL
        .open_decoder = OpenJxlDecoder,
        .encoder_bytes = JxlEncoderBytes,
        .create_encoder = CreateJxlEncoder,
#endif
    },
    {
        .format = ImageFormat::kTiff,
        .name = "tiff",
        .title = "TIFF",
        .media_types = {"image/tiff", "image/x-tiff"},
        .extensions = {"tif", "tiff"},
        .signatures = {std::string_view("II*\0", 4), std::string_view("MM\0*", 4),
                       std::string_view("II+\0", 4), std::string_view("MM\0+", 4)},
        .max_side_px = 1'000'000,
        .holds_gray = true,
        .holds_alpha = true,
        .holds_u16 = true,
        .parse_header = ParseTiffHeader,
#ifdef UPSCALED_HAVE_TIFF
        .open_decoder = OpenTiffDecoder,
#endif
        .encoder_bytes = TiffEncoderBytes,
        .create_encoder = CreateTiffEncoder,
    },
    {
        .format = ImageFormat::kGif,
        .name = "gif",
        .title = "GIF",
        .media_types = {"image/gif", ""},
        .extensions = {"gif", ""},
        .signatures = {"GIF87a", "GIF89a"},
        .reads_frames = true,
        .parse_header = ParseGifHeader,
#ifdef UPSCALED_HAVE_GIF
        .open_decoder = OpenGifDecoder,
#endif
    },
    {
        .format = ImageFormat::kBmp,
        .name = "bmp",
        .title = "BMP",
        .media_types = {"image/bmp", "image/x-ms-bmp"},
        .extensions = {"bmp", "dib"},
        .signatures = {std::string_view("BM????\0\0\0\0", 10)},
        .parse_header = ParseBmpHeader,
        .open_decoder = OpenBmpDecoder,
    },
    {
        .format = ImageFormat::kHeic,
        .name = "heic",
        .title = "HEIC",
        .media_types = {"image/heic", "image/heif"},
        .extensions = {"heic", "heif"},
        .signatures = {std::string_view("\0\0??ftyp", 8)},
        .brands = {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"},
        .needs_cage = true,
        .parse_header = ParseHeicHeader,
#ifdef UPSCALED_HAVE_HEIC
        .open_decoder = OpenHeicDecoder,
#endif
    },
};

}  // namespace

std::span<const Codec> Codecs() { return kCodecs; }

}  // namespace upscaled
