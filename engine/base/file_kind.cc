#include "engine/base/file_kind.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace upscaled {
namespace {

using Type = FileKind::Type;

// The first bytes of a file, '?' for any byte.
struct Signature {
  absl::string_view bytes;
  FileKind kind;
};

template <size_t kSize>
constexpr absl::string_view Bytes(const char (&text)[kSize]) {
  return {text, kSize - 1};  // which may hold zeros
}

constexpr char kBinaryAdvice[] = "send its bytes unchanged";
constexpr char kBase64Advice[] = "decode it, or send it as {\"image\": \"...\"} in JSON";

// The first fitting one.
constexpr Signature kSignatures[] = {
    {Bytes("\x89PNG\r\n\x1a\n"), {"PNG", "", Type::kReadImage}},
    {Bytes("\xff\xd8\xff"), {"JPEG", "", Type::kReadImage}},
    {Bytes("RIFF????WEBP"), {"WebP", "", Type::kReadImage}},

    {Bytes("\x89PNG\n\x1a\n"), {"a PNG whose line ends were changed in transfer", kBinaryAdvice}},
    {Bytes("\x89PNG\r\n\x1a\r\n"),
     {"a PNG whose line ends were changed in transfer", kBinaryAdvice}},
    {Bytes("\x89PNG\r\r\n\x1a\r\n"),
     {"a PNG whose line ends were changed in transfer", kBinaryAdvice}},
    {Bytes("\x89PNG\x1a"), {"a PNG whose line ends were dropped in transfer", kBinaryAdvice}},
    {Bytes("\x09PNG\r\n\x1a\n"), {"a PNG that was sent as 7-bit text", kBinaryAdvice}},
    {Bytes("\xef\xbf\xbdPNG"), {"a PNG that was read as text", kBinaryAdvice}},
    {Bytes("\xc2\x89PNG"), {"a PNG that was read as text", kBinaryAdvice}},
    {Bytes("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"),
     {"binary data that was read as text", kBinaryAdvice}},
    {Bytes("\xc3\xbf\xc3\x98\xc3\xbf"), {"a JPEG that was read as text", kBinaryAdvice}},

    {Bytes("GIF8"), {"GIF", "", Type::kReadImage}},
    {Bytes("II*\0"), {"TIFF", "", Type::kReadImage}},
    {Bytes("MM\0*"), {"TIFF", "", Type::kReadImage}},
    {Bytes("II+\0"), {"TIFF", "", Type::kReadImage}},
    {Bytes("MM\0+"), {"TIFF", "", Type::kReadImage}},
    {Bytes("BM????\0\0\0\0"), {"BMP", "", Type::kReadImage}},
    {Bytes("\xff\x0a"), {"JPEG XL", "", Type::kReadImage}},
    {Bytes("\0\0\0\x0cJXL \r\n\x87\n"), {"JPEG XL", "", Type::kReadImage}},
    {Bytes("\0\0\0\x0cjP  \r\n\x87\n"), {"JPEG 2000", "", Type::kOtherImage}},
    {Bytes("\xff\x4f\xff\x51"), {"JPEG 2000", "", Type::kOtherImage}},
    {Bytes("\0\0\1\0"), {"an ICO icon", "", Type::kOtherImage}},
    {Bytes("8BPS"), {"a Photoshop document", "", Type::kOtherImage}},
    {Bytes("qoif"), {"QOI", "", Type::kOtherImage}},
    {Bytes("DDS "), {"DDS", "", Type::kOtherImage}},
    {Bytes("\x76\x2f\x31\x01"), {"OpenEXR", "", Type::kOtherImage}},
    {Bytes("#?RADIANCE"), {"Radiance HDR", "", Type::kOtherImage}},
    {Bytes("P4\n"), {"PBM", "", Type::kOtherImage}},
    {Bytes("P5\n"), {"PGM", "", Type::kOtherImage}},
    {Bytes("P6\n"), {"PPM", "", Type::kOtherImage}},
    {Bytes("\x8bJNG\r\n\x1a\n"), {"JNG", "", Type::kOtherImage}},
    {Bytes("\x8aMNG\r\n\x1a\n"), {"MNG", "", Type::kOtherImage}},

    {Bytes("\x1f\x8b"), {"gzip", "decompress it"}},
    {Bytes("PK\3\4"), {"a ZIP archive", "send one image of it"}},
    {Bytes("\x28\xb5\x2f\xfd"), {"zstd", "decompress it"}},
    {Bytes("BZh"), {"bzip2", "decompress it"}},
    {Bytes("\xfd"
           "7zXZ\0"),
     {"xz", "decompress it"}},
    {Bytes("7z\xbc\xaf\x27\x1c"), {"a 7z archive", "send one image of it"}},
    {Bytes("Rar!"), {"a RAR archive", "send one image of it"}},
    {Bytes("%PDF"), {"PDF", ""}},
    {Bytes("\x1a\x45\xdf\xa3"), {"a Matroska or WebM video", ""}},
    {Bytes("RIFF????AVI "), {"an AVI video", ""}},
    {Bytes("RIFF????WAVE"), {"WAV sound", ""}},
    {Bytes("\0\0\0\0\0\0\0\0"), {"a file of zeros", ""}},
    {Bytes("\xff\xfe"), {"text in UTF-16", ""}},
    {Bytes("\xfe\xff"), {"text in UTF-16", ""}},
};

// By how a text begins, in any case, behind white space.
constexpr Signature kTexts[] = {
    {"<!doctype html", {"an HTML page", "send the image that the page shows"}},
    {"<html", {"an HTML page", "send the image that the page shows"}},
    {"<head", {"an HTML page", "send the image that the page shows"}},
    {"<body", {"an HTML page", "send the image that the page shows"}},
    {"<svg", {"SVG", "draw it at the size that you need", Type::kOtherImage}},
    {"<?xml", {"XML", ""}},
    {"{", {"JSON", "send it with Content-Type: application/json"}},
    {"[", {"JSON", ""}},
    {"data:", {"a data: URL", "send it as the option url"}},
    {"http://", {"a URL", "send it as the option url"}},
    {"https://", {"a URL", "send it as the option url"}},
    {"iVBORw0KGgo", {"a PNG in base64 text", kBase64Advice}},
    {"/9j/", {"a JPEG in base64 text", kBase64Advice}},
    {"UklGR", {"a WebP in base64 text", kBase64Advice}},
    {"89504e470d0a1a0a", {"a PNG in hexadecimal text", "decode it"}},
    {"ffd8ff", {"a JPEG in hexadecimal text", "decode it"}},
    {"b'\\x", {"the Python text of bytes", "send the bytes themselves"}},
    {"version https://git-lfs", {"a pointer of Git LFS", "fetch the file itself (git lfs pull)"}},
    {"%!PS", {"PostScript", ""}},
};

bool Begins(absl::string_view bytes, absl::string_view signature) {
  if (bytes.size() < signature.size()) return false;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (signature[i] != '?' && signature[i] != bytes[i]) return false;
  }
  return true;
}

// An image or a video in the boxes of ISO/IEC 14496-12: the brand, and its compatible brands, tell
// the kind.
FileKind KindOfBoxes(absl::string_view bytes) {
  const auto size = static_cast<uint8_t>(bytes[3]);
  const absl::string_view brands = bytes.substr(8, size < 8 ? 0 : size - 8);
  for (const absl::string_view brand : {"avif", "avis"}) {
    if (absl::StrContains(brands, brand)) return {"AVIF", "", Type::kReadImage};
  }
  for (const absl::string_view brand : {"heic", "heix", "hevc", "heim", "heis", "mif1", "msf1"}) {
    if (absl::StrContains(brands, brand)) return {"HEIC", "", Type::kReadImage};
  }
  if (absl::StrContains(brands, "crx ")) return {"a CR3 raw photograph", "", Type::kOtherImage};
  return {"an MP4 or QuickTime video", ""};
}

bool IsText(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_isprint(byte) || absl::ascii_isspace(byte) || byte >= 0x80;
  });
}

bool IsBase64(absl::string_view text) {
  constexpr size_t kMinBytes = 40;  // longer than words
  return text.size() >= kMinBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/' ||
                  c == '=' || c == '-' || c == '_' || c == '\r' || c == '\n';
         });
}

std::optional<FileKind> KindOfText(absl::string_view bytes) {
  absl::string_view text = bytes;
  if (absl::StartsWith(text, "\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  text = absl::StripLeadingAsciiWhitespace(text);
  if (text.empty() || !IsText(text)) return std::nullopt;
  for (const Signature& signature : kTexts) {
    if (absl::StartsWithIgnoreCase(text, signature.bytes)) return signature.kind;
  }
  if (absl::StartsWith(text, "--") &&
      absl::StrContains(absl::AsciiStrToLower(text), "content-disposition")) {
    return FileKind{"a form", "send it with Content-Type: multipart/form-data and its boundary"};
  }
  if (IsBase64(text)) return FileKind{"base64 text", kBase64Advice};
  return FileKind{"text", ""};
}

}  // namespace

std::optional<FileKind> RecognizeFileKind(std::span<const uint8_t> beginning) {
  const absl::string_view bytes(reinterpret_cast<const char*>(beginning.data()),
                                std::min(beginning.size(), kFileKindBytes));
  for (const Signature& signature : kSignatures) {
    if (Begins(bytes, signature.bytes)) return signature.kind;
  }
  if (Begins(bytes, "????ftyp") && bytes.size() >= 12) return KindOfBoxes(bytes);
  return KindOfText(bytes);
}

}  // namespace upscaled
