#include "engine/image/arithmetic.h"

#include <cstdint>
#include <cstdio>
#include <string_view>

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
#include "engine/base/build_id.h"
#include "hwy/targets.h"

namespace upscaled {
namespace {

// These tell their versions to the preprocessor only, and another one may run.
std::string JpegBuild() { return BuildIdOf(reinterpret_cast<const void*>(&jpeg_std_error)); }

std::string IsalBuild() {
#ifdef UPSCALED_HAVE_ISAL
  return BuildIdOf(reinterpret_cast<const void*>(&isal_deflate));
#else
  return "none";
#endif
}

std::string TiffVersion() {
#ifdef UPSCALED_HAVE_TIFF
  const std::string_view version = TIFFGetVersion();
  return std::string(version.substr(0, version.find('\n')));
#else
  return "none";
#endif
}

// libavif and its coders.
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
constexpr int kEncoders = 5;
// The same for decoders, and the pixels and metadata that they give.
constexpr int kDecoders = 5;

}  // namespace

std::string ImageArithmetic() {
  return absl::StrCat("decoders ", kDecoders, ", encoders ", kEncoders, ", lcms ",
                      cmsGetEncodedCMMversion(), ", libjpeg ", JpegBuild(), ", libpng ",
                      png_access_version_number(), ", libwebp ", WebPGetDecoderVersion(), "/",
                      WebPGetEncoderVersion(), ", libavif ", AvifVersions(), ", libde265 ",
                      De265Version(), ", libtiff ", TiffVersion(), ", libjxl ", JxlVersion(),
                      ", zlib ", zlibVersion(), ", isa-l ", IsalBuild(), ", libc ",
                      gnu_get_libc_version(), ", targets ", hwy::SupportedTargets());
}

}  // namespace upscaled
