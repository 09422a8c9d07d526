// Source: PNG specification (third edition), section 11.3; XMP specification, part 3, section
// 1.1.5. Profiles as hexadecimal text are a habit of ImageMagick, known to other readers and
// writers.
#include "engine/image/png_metadata.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <zlib.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/image/endian.h"
#include "engine/image/exif.h"
#include "engine/image/iptc.h"
#include "engine/image/memory_io.h"
#include "engine/image/utf8.h"

namespace upscaled {
namespace {

constexpr std::string_view kXmpKeyword = "XML:com.adobe.xmp";
constexpr std::string_view kRawProfile = "Raw profile type ";
// Sizes of chunks about the samples' colours.
constexpr std::pair<std::string_view, size_t> kColourChunks[] = {
    {"cICP", 4}, {"mDCV", 24}, {"cLLI", 8}, {"sRGB", 1}, {"gAMA", 4}, {"cHRM", 32}};
constexpr std::string_view kOthers[] = {"eXIf", "pHYs", "tEXt", "zTXt", "iTXt"};
constexpr size_t kMaxPlainText = 1024;  // longer text is deflated
constexpr size_t kMaxKeyword = 79;

// The text up to the next zero byte. Both are taken off `rest`.
std::optional<std::string_view> TakeField(std::string_view& rest) {
  const size_t end = rest.find('\0');
  if (end == rest.npos) return std::nullopt;
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return field;
}

std::optional<std::string> Inflated(std::string_view deflated, size_t max_bytes) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return std::nullopt;
  stream.next_in = const_cast<Bytef*>(AsBytes(deflated).data());  // zlib only reads it
  stream.avail_in = static_cast<uInt>(deflated.size());
  std::string text;
  int result = Z_OK;
  while (result == Z_OK && text.size() <= max_bytes) {
    char piece[4096];
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof(piece);
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(piece, sizeof(piece) - stream.avail_out);
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END || text.size() > max_bytes) return std::nullopt;
  return text;
}

std::optional<ImageText> ParseText(std::string_view type, std::string_view rest, size_t max_bytes) {
  const auto keyword = TakeField(rest);
  if (!keyword.has_value() || keyword->empty() || keyword->size() > kMaxKeyword)
    return std::nullopt;
  ImageText text{.keyword = std::string(*keyword)};
  bool deflated = type == "zTXt";
  if (type == "iTXt") {
    if (rest.size() < 2 || rest[0] > 1 || rest[1] != 0) return std::nullopt;
    deflated = rest[0] == 1;
    rest.remove_prefix(2);
    const auto language = TakeField(rest);
    const auto translated = language.has_value() ? TakeField(rest) : std::nullopt;
    if (!translated.has_value()) return std::nullopt;
    text.language = *language;
    text.translated_keyword = *translated;
  } else if (deflated) {
    if (rest.empty() || rest[0] != 0) return std::nullopt;
    rest.remove_prefix(1);
  }
  if (deflated) {
    std::optional<std::string> inflated = Inflated(rest, max_bytes);
    if (!inflated.has_value()) return std::nullopt;
    text.text = *std::move(inflated);
  } else {
    text.text = rest;
  }
  if (type != "iTXt") text.text = Latin1ToUtf8(text.text);
  return text;
}

// The bytes of a profile in hexadecimal, behind its name and length.
std::optional<std::string> ParseRawProfile(std::string_view text) {
  std::string digits;
  size_t line = 0;
  for (size_t position = 1; position < text.size() && text[0] == '\n'; ++line) {
    const size_t end = std::min(text.find('\n', position), text.size());
    if (line >= 2) digits.append(text.substr(position, end - position));
    position = end + 1;
  }
  const bool valid = digits.size() % 2 == 0 && !digits.empty() &&
                     std::ranges::all_of(digits, [](char c) { return absl::ascii_isxdigit(c); });
  return valid ? std::optional(absl::HexStringToBytes(digits)) : std::nullopt;
}

std::string RawProfile(std::string_view name, std::string_view bytes) {
  constexpr size_t kLineDigits = 72;
  std::string text =
      absl::StrCat("\n", ToAbsl(name), "\n", absl::Dec(bytes.size(), absl::kSpacePad8));
  const std::string digits = absl::BytesToHexString(ToAbsl(bytes));
  for (size_t i = 0; i < digits.size(); i += kLineDigits)
    absl::StrAppend(&text, "\n", digits.substr(i, kLineDigits));
  return text + "\n";
}

// Takes `text` as a block written as text by some programs; false: it is text.
bool TakeAsBlock(const ImageText& text, ImageMetadata& metadata) {
  const auto set = [](std::string& block, std::string_view bytes) {
    if (block.empty()) block = bytes;
    return true;
  };
  if (text.keyword == kXmpKeyword) return set(metadata.xmp, text.text);
  if (!text.keyword.starts_with(kRawProfile)) return false;
  const std::optional<std::string> profile = ParseRawProfile(text.text);
  if (!profile.has_value()) return false;
  const std::string_view name = std::string_view(text.keyword).substr(kRawProfile.size());
  if (name == "xmp") return set(metadata.xmp, *profile);
  if (name == "exif") return set(metadata.exif, WithoutExifBegin(*profile));
  if (name == "APP1" && profile->starts_with(kExifBegin))
    return set(metadata.exif, WithoutExifBegin(*profile));
  bool others = false;
  if (name == "iptc" || name == "8bim")
    return set(metadata.iptc,
               profile->starts_with("8BIM") ? IptcOfResources(*profile, others) : *profile);
  return false;
}

bool ReadDensity(std::string_view data, ImageMetadata& metadata) {
  if (data.size() != 9 || static_cast<uint8_t>(data[8]) > 1) return false;
  const uint8_t* const bytes = AsBytes(data).data();
  const PixelDensity density{
      data[8] == 1 ? PixelDensity::Unit::kMetre : PixelDensity::Unit::kAspect, LoadBe32(bytes),
      LoadBe32(bytes + 4)};
  if (density.x == 0 || density.y == 0) return false;
  metadata.density = density;
  return true;
}

void Append32(uint32_t value, std::string& out) {
  uint8_t bytes[4];
  StoreBe32(value, bytes);
  out.append(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

PngChunk DensityChunk(PixelDensity density) {
  using Unit = PixelDensity::Unit;
  if (density.unit != Unit::kAspect) {
    density.x = ConvertDensity(density.x, density.unit, Unit::kMetre);
    density.y = ConvertDensity(density.y, density.unit, Unit::kMetre);
  }
  PngChunk chunk{"pHYs", ""};
  Append32(density.x, chunk.data);
  Append32(density.y, chunk.data);
  chunk.data.push_back(density.unit == Unit::kAspect ? 0 : 1);
  return chunk;
}

std::string Deflated(std::string_view text) {
  uLongf bytes = compressBound(text.size());
  std::string deflated(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(deflated.data()), &bytes, AsBytes(text).data(), text.size());
  deflated.resize(bytes);
  return deflated;
}

PngChunk TextChunk(const ImageText& text) {
  const bool deflate = text.text.size() > kMaxPlainText;
  std::string data = text.keyword.substr(0, kMaxKeyword);
  data.push_back('\0');
  const std::optional<std::string> latin1 = text.language.empty() && text.translated_keyword.empty()
                                                ? Utf8ToLatin1(text.text)
                                                : std::nullopt;
  if (!latin1.has_value()) {
    data.append({deflate ? '\1' : '\0', '\0'});
    data.append(text.language).push_back('\0');
    data.append(text.translated_keyword).push_back('\0');
    return {"iTXt", data + (deflate ? Deflated(text.text) : text.text)};
  }
  if (!deflate) return {"tEXt", data + *latin1};
  data.push_back('\0');
  return {"zTXt", data + Deflated(*latin1)};
}

}  // namespace

bool IsPngMetadata(std::string_view type) {
  return std::ranges::count(kOthers, type) > 0 ||
         std::ranges::count(kColourChunks, type, &std::pair<std::string_view, size_t>::first) > 0;
}

bool ReadPngChunk(std::string_view type, std::string_view data, size_t max_bytes,
                  ImageMetadata& metadata) {
  if (data.size() > max_bytes) return false;
  if (type == "eXIf") {
    if (metadata.exif.empty()) metadata.exif = WithoutExifBegin(data);
    return true;
  }
  if (type == "pHYs") return metadata.density.has_value() || ReadDensity(data, metadata);
  if (type == "tEXt" || type == "zTXt" || type == "iTXt") {
    std::optional<ImageText> text = ParseText(type, data, max_bytes);
    if (!text.has_value() || metadata.texts.size() == kMaxTexts) return false;
    if (!TakeAsBlock(*text, metadata)) metadata.texts.push_back(*std::move(text));
    return true;
  }
  for (const auto& [colour_type, bytes] : kColourChunks) {
    if (type != colour_type) continue;
    if (data.size() != bytes) return false;
    if (std::ranges::count(metadata.colour_chunks, type, &ColourChunk::type) == 0)
      metadata.colour_chunks.push_back({std::string(type), std::string(data)});
  }
  return true;
}

std::vector<PngChunk> PngChunksOf(const ImageMetadata& metadata) {
  std::vector<PngChunk> chunks;
  for (const ColourChunk& chunk : metadata.colour_chunks)
    chunks.push_back({chunk.type, chunk.data});
  if (metadata.density.has_value()) chunks.push_back(DensityChunk(*metadata.density));
  if (!metadata.exif.empty()) chunks.push_back({"eXIf", metadata.exif});
  if (!metadata.xmp.empty()) {
    // Readers of XMP look for the packet as it is, without inflating.
    chunks.push_back({"iTXt", std::string(kXmpKeyword).append(5, '\0') + metadata.xmp});
  }
  if (!metadata.iptc.empty())
    chunks.push_back(TextChunk({.keyword = std::string(kRawProfile) + "iptc",
                                .text = RawProfile("iptc", ResourcesOfIptc(metadata.iptc))}));
  for (const ImageText& text : metadata.texts) chunks.push_back(TextChunk(text));
  return chunks;
}

}  // namespace upscaled
