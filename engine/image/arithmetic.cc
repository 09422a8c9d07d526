#include "engine/image/arithmetic.h"

#include <cstdio>

#include <gnu/libc-version.h>
#include <jpeglib.h>
#include <lcms2.h>
#include <png.h>
#include <webp/decode.h>
#include <webp/encode.h>
#include <zlib.h>
#ifdef UPSCALED_HAVE_AVIF
#include <avif/avif.h>
#endif
#ifdef UPSCALED_HAVE_HEIC
#include <libde265/de265.h>
#endif
#ifdef UPSCALED_HAVE_TIFF
#include <tiffio.h>
#endif
#ifdef UPSCALED_HAVE_JXL
#include <jxl/decode.h>
#endif
#ifdef UPSCALED_HAVE_ISAL
#include <isa-l.h>
#endif

#include "absl/strings/str_cat.h"
#include "hwy/targets.h"

namespace upscaled {
namespace {

#ifdef UPSCALED_HAVE_ISAL
constexpr int kIsalVersion = ISAL_VERSION;
#else
constexpr int kIsalVersion = 0;
#endif

#ifdef UPSCALED_HAVE_TIFF
constexpr int kTiffVersion = TIFFLIB_VERSION;
#else
constexpr int kTiffVersion = 0;
#endif

// libavif and the coders that it calls.
std::string AvifVersions() {
#ifdef UPSCALED_HAVE_AVIF
  char coders[256];
  avifCodecVersions(coders);
  return absl::StrCat(avifVersion(), " (", coders, ")");
#else
  return "0";
#endif
}

uint32_t De265Version() {
#ifdef UPSCALED_HAVE_HEIC
  return de265_get_version_number();
#else
  return 0;
#endif
}

uint32_t JxlVersion() {
#ifdef UPSCALED_HAVE_JXL
  return JxlDecoderVersion();
#else
  return 0;
#endif
}

// To be counted up whenever an encoder writes other bytes for the same pixels and options.
constexpr int kEncoders = 4;
// The same for decoders, and the pixels and metadata that they give.
constexpr int kDecoders = 3;

// Debian's libjpeg-turbo tells its version to the preprocessor alone.
constexpr int kJpegVersion =
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    LIBJPEG_TURBO_VERSION_NUMBER;
#else
    JPEG_LIB_VERSION;
#endif

}  // namespace

std::string ImageArithmetic() {
  return absl::StrCat(
      "decoders ", kDecoders, ", encoders ", kEncoders, ", lcms ", LCMS_VERSION, ", libjpeg ",
      kJpegVersion, ", libpng ", png_access_version_number(), ", libwebp ", WebPGetDecoderVersion(),
      "/", WebPGetEncoderVersion(), ", libavif ", AvifVersions(), ", libde265 ", De265Version(),
      ", libtiff ", kTiffVersion, ", libjxl ", JxlVersion(), ", zlib ", zlibVersion(), ", isa-l ",
      kIsalVersion, ", libc ", gnu_get_libc_version(), ", targets ", hwy::SupportedTargets());
}

}  // namespace upscaled
