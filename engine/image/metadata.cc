#include "engine/image/metadata.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "engine/image/codec.h"
#include "engine/image/colour_profile.h"
#include "engine/image/exif.h"
#include "engine/image/iptc.h"
#include "engine/image/jpeg_marker.h"
#include "engine/image/memory_io.h"
#include "engine/image/tiff_exif.h"
#include "engine/image/xmp.h"

namespace upscaled {
namespace {

// A JPEG segment's payload, less its signature.
constexpr size_t kMaxSegmentBytes = 65533;
constexpr size_t kMaxJpegExif = kMaxSegmentBytes - kExifBegin.size(),
                 kMaxJpegXmp = kMaxSegmentBytes - jpeg::kXmpBegin.size(),
                 kMaxJpegIptc = kMaxSegmentBytes - jpeg::kPhotoshopBegin.size() - 12,
                 kMaxJpegProfile = 255 * 65519;

// The steps from a source's blocks to a result's, in order.
class MetadataEditor {
 public:
  MetadataEditor(ImageMetadata metadata, ImageFormat format, const ImageSpec& encoded,
                 std::vector<std::string>& warnings)
      : metadata_(std::move(metadata)),
        is_turned_(!metadata_.keeps_orientation),
        format_(format),
        encoded_(encoded),
        warnings_(warnings) {}

  ImageMetadata Take() { return std::move(metadata_); }

  void KeepColoursOnly() {
    metadata_ = {.icc_profile = std::move(metadata_.icc_profile),
                 .colour_chunks = std::move(metadata_.colour_chunks)};
  }

  void StripAll() {
    if (!metadata_.icc_profile.empty() || !metadata_.colour_chunks.empty())
      warnings_.push_back("the colour profile is stripped: viewers take the colours for sRGB");
    metadata_ = {};
  }

  void StripLocation() {
    if (!metadata_.exif.empty() && !StripExifLocation(metadata_.exif))
      Drop(metadata_.exif, "EXIF is damaged and left out");
    if (XmpTellsLocation(metadata_.xmp))
      Drop(metadata_.xmp, "XMP tells of a location and is left out as a whole");
    if (!metadata_.iptc.empty() && !StripIptcLocation(metadata_.iptc))
      Drop(metadata_.iptc, "IPTC is damaged and left out");
    const auto is_raw = [](const ImageText& text) {
      return absl::StartsWithIgnoreCase(text.keyword, "raw profile type ");
    };
    if (std::erase_if(metadata_.texts, is_raw) > 0)
      warnings_.push_back("raw profiles in texts are left out: they may tell of a location");
    std::erase_if(metadata_.texts, [](const ImageText& text) {
      const std::string keyword = absl::AsciiStrToLower(text.keyword);
      return absl::StrContains(keyword, "gps") || absl::StrContains(keyword, "location");
    });
  }

  void Correct() {
    // Only EXIF turns images. If it says nothing, XMP may still tell viewers how they lie.
    const bool exif_tells = ExifOrientation(AsBytes(metadata_.exif)).has_value();
    if (!metadata_.exif.empty() &&
        !CorrectExif(metadata_.exif, encoded_.size(), metadata_.keeps_orientation))
      Drop(metadata_.exif, "EXIF is damaged and left out");
    metadata_.xmp =
        CorrectXmp(metadata_.xmp, encoded_.size(), metadata_.keeps_orientation || !exif_tells);
  }

  // A profile of other colours than the image's means nothing there. Browsers apply one of RGB to
  // gray, as R = G = B, except in PNG: it forbids this.
  void FitProfile() {
    const std::string_view profile = metadata_.icc_profile, space = SpaceOfProfile(profile);
    if (profile.empty()) return;
    const absl::string_view samples = gray() ? "gray" : "RGB";
    const bool fits = gray() ? space == "GRAY" || (space == "RGB " && format_ != ImageFormat::kPng)
                             : space == "RGB ";
    if (!space.empty() && !fits) {
      Drop(metadata_.icc_profile,
           absl::StrCat("the colour profile is left out: it describes ",
                        absl::StripAsciiWhitespace(ToAbsl(space)), ", the result is ", samples));
    } else if (format_ == ImageFormat::kJxl && !DescribesSamples(profile, gray())) {
      Drop(metadata_.icc_profile,
           absl::StrCat("the colour profile is left out: jxl takes no other than whole ones of ",
                        samples));
    }
  }

  void FitColours() {
    if (format_ == ImageFormat::kPng) return;
    const auto cicp = std::ranges::find(metadata_.colour_chunks, "cICP", &ColourChunk::type);
    const bool has_cicp = cicp != metadata_.colour_chunks.end();
    if (has_cicp) NameLostColours(cicp->data);
    for (const ColourChunk& chunk : metadata_.colour_chunks)
      if (chunk.type == "mDCV" || chunk.type == "cLLI")
        warnings_.push_back(
            absl::StrCat(chunk.type, " is left out: ", ToAbsl(FormatName(format_)), " has none"));
    if (HoldsCicp(format_) && has_cicp) {
      std::erase_if(metadata_.colour_chunks,
                    [](const ColourChunk& chunk) { return chunk.type != "cICP"; });
      return;
    }
    std::vector<std::string> unusable;
    metadata_.icc_profile =
        ProfileOf(metadata_.colour_chunks, metadata_.icc_profile, gray(), &unusable);
    if (!unusable.empty())
      warnings_.push_back(absl::StrCat("colours by ", absl::StrJoin(unusable, ", "),
                                       " are left out: the values describe no colours"));
    metadata_.colour_chunks.clear();
  }

  void FitJpeg() {
    const auto fit = [this](std::string& block, std::string_view name, size_t max_bytes) {
      if (block.size() > max_bytes)
        Drop(block, absl::StrCat(ToAbsl(name), " has ", block.size(),
                                 " bytes and is left out; jpeg holds at most ", max_bytes));
    };
    fit(metadata_.exif, "EXIF", kMaxJpegExif);
    fit(metadata_.xmp, "XMP", kMaxJpegXmp);
    fit(metadata_.iptc, "IPTC", kMaxJpegIptc);
    fit(metadata_.icc_profile, "the colour profile", kMaxJpegProfile);
    // The rest of the format's texts are comments.
    for (ImageText& text : metadata_.texts) {
      if (text.keyword != "Comment") text.text = absl::StrCat(text.keyword, ": ", text.text);
      fit(text.text, text.keyword, kMaxSegmentBytes);
      text = {.keyword = "Comment", .text = std::move(text.text)};
    }
    std::erase_if(metadata_.texts, [](const ImageText& text) { return text.text.empty(); });
  }

  // For the formats with profile, EXIF and XMP.
  void FitThreeBlocks() {
    const absl::string_view name = ToAbsl(FormatName(format_));
    if (!metadata_.iptc.empty())
      Drop(metadata_.iptc, absl::StrCat(name, " holds no IPTC: it is left out"));
    if (!metadata_.texts.empty()) {
      warnings_.push_back(absl::StrCat(name, " holds no text: ", NamesOfTexts(), " left out"));
      metadata_.texts.clear();
    }
    if (!metadata_.density.has_value()) return;
    if (!SetExifDensity(*metadata_.density, metadata_.exif))
      warnings_.push_back(absl::StrCat("the resolution of ", metadata_.density->x, " x ",
                                       metadata_.density->y,
                                       " is left out: EXIF states another, or is damaged"));
    metadata_.density.reset();
  }

  // A text becomes a tag, unless the tag has a text: in EXIF, or of blocks that came earlier.
  void FitTiff(const ImageMetadata* earlier) {
    std::map<uint16_t, std::string> held = TiffTextsOf(metadata_.exif);
    if (earlier != nullptr) {
      held.merge(TiffTextsOf(earlier->exif));
      for (const ImageText& text : earlier->texts)
        if (const auto tag = TiffTagOfText(text.keyword)) held.emplace(*tag, text.text);
    }
    std::erase_if(metadata_.texts, [&](const ImageText& text) {
      const std::optional<uint16_t> tag = TiffTagOfText(text.keyword);
      if (!tag.has_value()) {
        warnings_.push_back(
            absl::StrCat("tiff holds no text of ", text.keyword, ": it is left out"));
        return true;
      }
      const auto [other, is_new] = held.emplace(*tag, text.text);
      if (!is_new && other->second != text.text)
        warnings_.push_back(absl::StrCat("the text of ", text.keyword,
                                         " is left out: tiff has another one in its place"));
      return !is_new;
    });
  }

  // Viewers of AVIF and JPEG XL turn images by the container, not by EXIF.
  void NameLostOrientation() {
    const bool is_heeded = format_ != ImageFormat::kAvif && format_ != ImageFormat::kJxl;
    if (is_turned_ || (is_heeded && !metadata_.exif.empty())) return;
    warnings_.push_back(
        "nothing in the result says how the image lies: viewers show it as it is stored");
  }

  // A file has each of these blocks once; the first one counts. EXIF gets the resolution that the
  // formats without a place for it have nowhere else.
  void DropRepeated(const ImageMetadata& earlier) {
    if (metadata_.density.has_value() && metadata_.density != earlier.density)
      warnings_.push_back("the resolution after the pixels is left out");
    metadata_.density.reset();
    const auto drop = [this](std::string& late, const std::string& first, const char* name) {
      if (!late.empty() && !first.empty())
        Drop(late, absl::StrCat("the ", name, " after the pixels is left out: the source has one ",
                                "before them"));
    };
    drop(metadata_.exif, earlier.exif, "EXIF");
    drop(metadata_.xmp, earlier.xmp, "XMP");
    drop(metadata_.iptc, earlier.iptc, "IPTC");
    if (!metadata_.exif.empty()) metadata_.density = earlier.density;
  }

  // Blocks known too late.
  void DropAll() {
    const std::pair<bool, absl::string_view> blocks[] = {
        {!metadata_.exif.empty(), "EXIF"},
        {!metadata_.xmp.empty(), "XMP"},
        {!metadata_.iptc.empty(), "IPTC"},
        {!metadata_.texts.empty(), "text"},
    };
    std::vector<absl::string_view> lost;
    for (const auto& [has, name] : blocks)
      if (has) lost.push_back(name);
    if (!lost.empty())
      warnings_.push_back(absl::StrCat(absl::StrJoin(lost, ", "),
                                       " left out: the source has it after its pixels, and ",
                                       ToAbsl(FormatName(format_)), " holds it only before them"));
    metadata_ = {};
  }

 private:
  bool gray() const { return encoded_.channels < kRgbChannels; }

  template <typename Sentence>
  void Drop(std::string& block, const Sentence& sentence) {
    block.clear();
    warnings_.emplace_back(sentence);
  }

  // Names colours by cICP that the format cannot state. AVIF has all their numbers, at full range.
  void NameLostColours(std::string_view cicp) {
    if (cicp.size() != 4 || cicp[2] != 0) return;  // PNG has no matrix: it is not valid
    const int primaries = static_cast<uint8_t>(cicp[0]), transfer = static_cast<uint8_t>(cicp[1]);
    if (cicp[3] == 0) {
      warnings_.push_back(absl::StrCat("the samples are of narrow range (cICP); ",
                                       ToAbsl(FormatName(format_)), " has them at full range"));
    }
    constexpr int kPq = 16, kHlg = 18, kOfJxl[] = {1, 9, 11, 12};
    const bool is_jxl = format_ == ImageFormat::kJxl && (transfer == kPq || transfer == kHlg) &&
                        std::ranges::count(kOfJxl, primaries) > 0;
    // JPEG XL states colours without a range.
    std::string colours(cicp);
    if (format_ == ImageFormat::kJxl) colours[3] = 1;
    if (format_ != ImageFormat::kAvif && !is_jxl && !HasProfile(colours))
      warnings_.push_back(absl::StrCat("the colours by cICP (primaries ", primaries, ", transfer ",
                                       transfer, ") have no profile and are left out"));
  }

  std::string NamesOfTexts() const {
    constexpr size_t kNamed = 5;
    std::vector<absl::string_view> names;
    for (const ImageText& text : metadata_.texts)
      if (names.size() < kNamed) names.push_back(text.keyword);
    const size_t more = metadata_.texts.size() - names.size();
    return absl::StrCat(absl::StrJoin(names, ", "),
                        more > 0 ? absl::StrCat(" and ", more, " more") : "");
  }

  ImageMetadata metadata_;
  const bool is_turned_;  // so that the source's pixels are upright
  const ImageFormat format_;
  const ImageSpec& encoded_;
  std::vector<std::string>& warnings_;
};

}  // namespace

void AddMissing(ImageMetadata late, ImageMetadata& metadata) {
  if (!late.exif.empty()) {
    metadata.exif = std::move(late.exif);
    metadata.keeps_orientation = late.keeps_orientation;
  }
  if (metadata.xmp.empty()) metadata.xmp = std::move(late.xmp);
  if (metadata.iptc.empty()) metadata.iptc = std::move(late.iptc);
  std::ranges::move(late.texts, std::back_inserter(metadata.texts));
}

size_t BytesOf(const ImageMetadata& metadata) {
  size_t bytes = metadata.icc_profile.size() + metadata.exif.size() + metadata.xmp.size() +
                 metadata.iptc.size();
  for (const ImageText& text : metadata.texts)
    bytes += text.keyword.size() + text.text.size() + text.language.size() +
             text.translated_keyword.size();
  for (const ColourChunk& chunk : metadata.colour_chunks) bytes += chunk.data.size();
  return bytes;
}

uint32_t ConvertDensity(uint32_t value, PixelDensity::Unit from, PixelDensity::Unit to) {
  using Unit = PixelDensity::Unit;
  const auto metres = [](Unit of) {
    return of == Unit::kInch ? 0.0254 : of == Unit::kCentimetre ? 0.01 : 1.0;
  };
  const double result = value * metres(to) / metres(from);
  return static_cast<uint32_t>(std::min(std::round(result), 4294967295.0));
}

ImageMetadata MetadataForResult(ImageMetadata metadata, MetadataPolicy policy, ImageFormat format,
                                const ImageSpec& encoded, bool too_late,
                                std::vector<std::string>& warnings, const ImageMetadata* earlier) {
  MetadataEditor editor(std::move(metadata), format, encoded, warnings);
  if (policy == MetadataPolicy::kStrip) editor.StripAll();
  if (policy == MetadataPolicy::kIcc) editor.KeepColoursOnly();
  if (policy == MetadataPolicy::kStripLocation) editor.StripLocation();
  if (earlier != nullptr) editor.DropRepeated(*earlier);
  editor.Correct();
  editor.FitProfile();
  editor.FitColours();
  if (format == ImageFormat::kJpeg) editor.FitJpeg();
  if (format == ImageFormat::kWebp || format == ImageFormat::kAvif || format == ImageFormat::kJxl)
    editor.FitThreeBlocks();
  if (format == ImageFormat::kTiff) editor.FitTiff(earlier);
  if (too_late) editor.DropAll();
  editor.NameLostOrientation();
  return editor.Take();
}

}  // namespace upscaled
