// The segments of a JPEG file up to the first scan. Source: ITU-T T.81, annex B.
//
// It walks to SOS rather than to SOF: only the first scan tells whether the components come one
// after the other. If they do, the decoder must hold the coefficients of the whole image, and EXIF
// or ICC segments may come in between.
#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/colour_profile.h"
#include "engine/image/endian.h"
#include "engine/image/exif.h"
#include "engine/image/jpeg_marker.h"
#include "engine/image/jpeg_quality.h"
#include "engine/image/memory_io.h"
#include "engine/image/orientation.h"

namespace upscaled {
namespace {

constexpr char kJpeg[] = "JPEG";
// libjpeg's structures and tables, the input buffer.
constexpr size_t kDecoderBytes = 384 << 10;
// libjpeg keeps 48 bytes for each segment of metadata, however short.
constexpr int kMaxSegments = 5000;
constexpr size_t kBlockBytes = 64 * sizeof(int16_t);
// Rows a component in libjpeg while it gives rows, per vertical sampling factor: one row of blocks
// with its context, and the upsampled rows.
constexpr size_t kRowsPerSampling = 8 + 2 + 2;

// The parts of a colour profile, each in a segment with its number and their count.
class ProfileParts {
 public:
  // By the bytes behind the signature. Takes nothing without both numbers, like libjpeg.
  bool Add(std::span<const uint8_t> part) {
    constexpr size_t kNumberBytes = 2;
    if (part.size() < kNumberBytes) return false;
    const int number = part[0], count = part[1];
    if (segments_++ == 0) count_ = count;
    is_wrong_ = is_wrong_ || count != count_ || number < 1 || number > count || seen_[number];
    seen_.set(number);
    parts_[number] = part.subspan(kNumberBytes);
    has_bytes_ = has_bytes_ || part.size() > kNumberBytes;
    return true;
  }

  bool empty() const { return segments_ == 0; }
  // Whether libjpeg puts a profile together from them.
  bool whole() const { return !empty() && !is_wrong_ && segments_ == count_ && has_bytes_; }
  // The first bytes of a whole profile.
  std::string Head() const {
    std::string head;
    for (int i = 1; i <= count_ && head.size() < kIccHeadBytes; ++i)
      head.append(parts_[i].begin(), parts_[i].end());
    return head.substr(0, kIccHeadBytes);
  }
  // How many there are, and how many there should be.
  std::string Counts() const { return absl::StrCat(segments_, " of ", count_); }

 private:
  std::bitset<256> seen_;
  std::array<std::span<const uint8_t>, 256> parts_;  // by number
  int segments_ = 0, count_ = 0;
  bool is_wrong_ = false, has_bytes_ = false;
};

// Segments other than the frame and the scans.
struct JpegExtras {
  std::optional<Orientation> orientation;
  ProfileParts profile;
  std::bitset<16> others;  // application segments that are not carried over
};

void ParseJpegExtra(uint8_t marker, std::span<const uint8_t> segment, JpegExtras& extras) {
  if (marker == jpeg::kApp1 && BeginsWith(segment, kExifBegin) && !extras.orientation.has_value())
    extras.orientation = ExifOrientation(segment.subspan(kExifBegin.size()));
  constexpr std::string_view kProfileBegin("ICC_PROFILE\0", 12);
  const bool profile = marker == jpeg::kApp2 && BeginsWith(segment, kProfileBegin) &&
                       extras.profile.Add(segment.subspan(kProfileBegin.size()));
  // The decoder names the left out ones of these.
  constexpr std::pair<uint8_t, std::string_view> kKnown[] = {
      {jpeg::kApp0, "JFIF"},
      {jpeg::kApp1, kExifBegin},
      {jpeg::kApp1, jpeg::kXmpBegin},
      {jpeg::kApp1, jpeg::kExtendedXmpBegin},
      {jpeg::kApp13, jpeg::kPhotoshopBegin},
      {jpeg::kApp14, "Adobe"},
  };
  const bool known =
      profile || std::ranges::any_of(kKnown, [&](const auto& known_segment) {
        return marker == known_segment.first && BeginsWith(segment, known_segment.second);
      });
  if (marker >= jpeg::kApp0 && marker <= jpeg::kApp15 && !known)
    extras.others.set(marker - jpeg::kApp0);
}

// Sentences about the decoder's losses.
std::vector<std::string> JpegWarnings(const JpegExtras& extras, int components) {
  std::vector<std::string> warnings;
  if (components == 4) {
    const bool whole = extras.profile.whole();
    warnings.push_back(CmykWarning(kJpeg, whole, whole ? extras.profile.Head() : ""));
  }
  if (!extras.profile.empty() && !extras.profile.whole())
    warnings.push_back(absl::StrCat(
        "JPEG: the colour profile is left out: its parts are numbered wrongly or missing (",
        extras.profile.Counts(), " are there)"));
  if (extras.others.none()) return warnings;
  std::string names;
  for (size_t i = 0; i < extras.others.size(); ++i)
    if (extras.others[i]) absl::StrAppend(&names, names.empty() ? "" : ", ", "APP", i);
  warnings.push_back(absl::StrCat("JPEG: segments are left out: ", names));
  return warnings;
}

struct Frame {
  int width = 0, height = 0;
  int components = 0;  // 0: no frame yet
  bool progressive = false;
  int max_h = 1, max_v = 1;
  int blocks_per_mcu = 0;
  int luma_samples = 0;  // of an MCU: the first component's sampling factors, multiplied
  uint8_t luma_table = 0;
};

// By number; only those defined so far by the file.
using QuantisationTables = std::array<std::optional<QuantisationTable>, 4>;

bool IsFrame(uint8_t marker) {
  return marker >= jpeg::kSof0 && marker <= jpeg::kSof15 && marker != jpeg::kDht &&
         marker != jpeg::kJpg && marker != jpeg::kDac;
}

absl::Status ParseFrame(uint8_t marker, std::span<const uint8_t> segment,
                        const DecodeLimits& limits, Frame& frame) {
  if (frame.components != 0) return absl::InvalidArgumentError("JPEG: it has two frame headers");
  if (marker > jpeg::kSof2 && marker != jpeg::kSof9 && marker != jpeg::kSof10)
    return absl::UnimplementedError(absl::StrCat(
        "JPEG: lossless and hierarchical coding are not read (SOF", marker - jpeg::kSof0, ")"));
  if (segment.size() < 6 || segment.size() != 6 + 3 * size_t{segment[5]})
    return absl::InvalidArgumentError("JPEG: the frame header has a wrong length");
  if (segment[0] != 8)
    return absl::UnimplementedError(
        absl::StrCat("JPEG: samples of ", segment[0], " bits are not read; only 8 bits are"));
  frame.height = LoadBe16(&segment[1]);
  frame.width = LoadBe16(&segment[3]);
  frame.components = segment[5];
  frame.progressive = marker == jpeg::kSof2 || marker == jpeg::kSof10;
  if (frame.components != 1 && frame.components != 3 && frame.components != 4)
    return absl::UnimplementedError(
        absl::StrCat("JPEG: ", frame.components, " components are not read; only 1, 3 and 4 are"));
  for (int i = 0; i < frame.components; ++i) {
    const int h = segment[6 + 3 * i + 1] >> 4, v = segment[6 + 3 * i + 1] & 15;
    if (h < 1 || h > 4 || v < 1 || v > 4)
      return absl::InvalidArgumentError(
          absl::StrCat("JPEG: a sampling factor is ", h, " x ", v, "; the format allows 1..4"));
    frame.max_h = std::max(frame.max_h, h);
    frame.max_v = std::max(frame.max_v, v);
    frame.blocks_per_mcu += h * v;
    if (i > 0) continue;
    frame.luma_samples = h * v;
    frame.luma_table = segment[6 + 2];
  }
  return CheckImageSize(kJpeg, frame.width, frame.height, limits);
}

// Passes over malformed tables. The decoder refuses them.
void ParseTables(std::span<const uint8_t> segment, QuantisationTables& tables) {
  while (!segment.empty()) {
    const size_t sample_bytes = segment[0] >> 4 ? 2 : 1, number = segment[0] & 15;
    QuantisationTable table;
    const size_t bytes = 1 + table.size() * sample_bytes;
    if (number >= tables.size() || segment.size() < bytes) return;
    for (size_t i = 0; i < table.size(); ++i) {
      const uint8_t* step = &segment[1 + i * sample_bytes];
      table[i] = sample_bytes == 2 ? LoadBe16(step) : *step;
    }
    tables[number] = table;
    segment = segment.subspan(bytes);
  }
}

std::optional<JpegCoding> CodingOf(const Frame& frame, const QuantisationTables& tables) {
  if (frame.luma_table >= tables.size() || !tables[frame.luma_table]) return std::nullopt;
  return JpegCoding{.quality = EstimateJpegQuality(*tables[frame.luma_table]),
                    .subsampled = frame.blocks_per_mcu < frame.components * frame.luma_samples};
}

ImageHeader MakeHeader(const Frame& frame, const JpegExtras& extras, bool multiple_scans,
                       size_t pixels_begin) {
  const Orientation orientation = extras.orientation.value_or(Orientation::kIdentity);
  ImageHeader header;
  header.warnings = JpegWarnings(extras, frame.components);
  header.format = ImageFormat::kJpeg;
  header.orientation = orientation;
  header.spec = {frame.width, frame.height, frame.components == 1 ? 1 : 3, SampleType::kU8};
  if (SwapsSides(orientation)) std::swap(header.spec.width_px, header.spec.height_px);

  const size_t mcus_x = (frame.width + 8 * frame.max_h - 1) / (8 * frame.max_h);
  const size_t mcus_y = (frame.height + 8 * frame.max_v - 1) / (8 * frame.max_v);
  header.prefix_bytes = HeaderBufferBytes(pixels_begin);
  header.metadata_bytes = 2 * pixels_begin;  // comments grow when they become UTF-8
  // A profile is held in libjpeg's segments, put together, and as our metadata.
  header.decoder_bytes =
      kDecoderBytes + header.prefix_bytes + 2 * header.metadata_bytes +
      mcus_x * 8 * frame.max_h * frame.components * kRowsPerSampling * frame.max_v;
  if (multiple_scans) header.decoder_bytes += mcus_x * mcus_y * frame.blocks_per_mcu * kBlockBytes;
  if (frame.components == 4 && extras.profile.whole())
    header.decoder_bytes += CmykToSrgb::kBytes + 3 * pixels_begin;
  if (orientation != Orientation::kIdentity)
    header.decoder_bytes += UprightBytes({frame.width, frame.height, header.spec.channels});
  return header;
}

}  // namespace

absl::StatusOr<std::optional<ImageHeader>> ParseJpegHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits, bool) {
  Frame frame;
  QuantisationTables tables;
  JpegExtras extras;
  int segments = 0;
  size_t position = 2;  // after SOI
  while (true) {
    // Stray bytes between segments are skipped, as libjpeg does.
    while (position < prefix.size() && prefix[position] != jpeg::kPrefix) ++position;
    while (position < prefix.size() && prefix[position] == jpeg::kPrefix) ++position;
    RETURN_IF_ERROR(CheckMetadataBytes(kJpeg, position, limits));
    if (position >= prefix.size()) return std::nullopt;
    const uint8_t marker = prefix[position++];
    if (marker == 0 || marker == jpeg::kTem || jpeg::IsRestart(marker)) continue;
    if (marker == jpeg::kSoi || marker == jpeg::kEoi)
      return absl::InvalidArgumentError(
          absl::StrCat("JPEG: it has no pixels: ", marker == jpeg::kSoi ? "a second SOI" : "EOI",
                       " comes before the first scan"));
    if (prefix.size() < position + 2) return std::nullopt;
    if (++segments > kMaxSegments)
      return absl::ResourceExhaustedError(
          absl::StrCat("JPEG: at least ", segments,
                       " segments come before the pixels; the limit is ", kMaxSegments));
    const size_t length = LoadBe16(&prefix[position]);
    if (length < 2)
      return absl::InvalidArgumentError(
          absl::StrCat("JPEG: a segment of ", length, " bytes; 2 is the least"));
    RETURN_IF_ERROR(CheckMetadataBytes(kJpeg, position + length, limits));
    if (prefix.size() < position + length) return std::nullopt;
    const std::span<const uint8_t> segment = prefix.subspan(position + 2, length - 2);
    position += length;

    if (IsFrame(marker)) RETURN_IF_ERROR(ParseFrame(marker, segment, limits, frame));
    if (marker == jpeg::kDqt) ParseTables(segment, tables);
    ParseJpegExtra(marker, segment, extras);
    if (marker == jpeg::kSos) {
      if (frame.components == 0 || segment.empty())
        return absl::InvalidArgumentError("JPEG: a scan comes before the frame header");
      ImageHeader header =
          MakeHeader(frame, extras, frame.progressive || segment[0] < frame.components, position);
      header.jpeg = CodingOf(frame, tables);
      return header;
    }
  }
}

}  // namespace upscaled
