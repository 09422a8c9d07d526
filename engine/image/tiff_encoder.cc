// Writes TIFF with Deflate. By our own hand: libtiff writes EXIF field by field and its fractions
// as floats. The directory needs the strips' sizes, and the first bytes tell its place: compressed
// strips are held until the end.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/memory_io.h"
#include "engine/image/tiff_directory.h"
#include "engine/image/tiff_exif.h"

namespace upscaled {
namespace {

constexpr size_t kTiffStripBytes = size_t{256} << 10;
constexpr size_t kTiffHeadBytes = 8;
// A file's offsets have 32 bits; metadata have at most a few MB.
constexpr uint64_t kMaxTiffBytes = (uint64_t{1} << 32) - (uint64_t{64} << 20);

int TiffRowsPerStrip(const ImageSpec& spec) {
  const size_t rows = std::max<size_t>(1, kTiffStripBytes / std::max<size_t>(spec.row_bytes(), 1));
  return static_cast<int>(std::min<size_t>(rows, spec.height_px));
}

uint64_t MaxTiffPixelBytes(const ImageSpec& spec) {
  const uint64_t raw = spec.row_bytes() * static_cast<uint64_t>(spec.height_px);
  const int rows = TiffRowsPerStrip(spec);
  const uint64_t strips = (spec.height_px + rows - 1) / rows;
  return strips * compressBound(spec.row_bytes() * rows) + raw % 2;
}

class TiffEncoder final : public ImageEncoder {
 public:
  TiffEncoder(const ImageSpec& spec, int level, const ImageMetadata& metadata, ByteSink& sink)
      : spec_(spec),
        level_(level),
        sink_(sink),
        metadata_(metadata),
        rows_per_strip_(TiffRowsPerStrip(spec)) {}

  absl::Status WriteRows(ImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    for (int y = 0; y < rows.height_px(); ++y) {
      AddRow(rows.row(y));
      ++next_row_;
      if (next_row_ % rows_per_strip_ == 0 || next_row_ == spec_.height_px)
        RETURN_IF_ERROR(EndStrip());
    }
    return absl::OkStatus();
  }
  void AddLateMetadata(ImageMetadata late) override { AddMissing(std::move(late), metadata_); }
  absl::Status Finish() override;

 private:
  void AddRow(const uint8_t* row);
  absl::Status EndStrip();
  ExifFields Descriptions() const;
  // The directory's fields but those for the places of strips.
  void AddLayout(TiffFields& fields) const;
  void AddMetadata(TiffFields& fields) const;

  const ImageSpec spec_;
  const int level_;
  ByteSink& sink_;
  ImageMetadata metadata_;
  const int rows_per_strip_;
  int next_row_ = 0;
  std::string strip_;  // not yet compressed
  std::vector<std::string> strips_;
};

// Each sample less the one of the pixel before it (TIFF 6.0, section 14), in little-endian byte
// order.
void TiffEncoder::AddRow(const uint8_t* row) {
  const size_t channels = spec_.channels, count = channels * spec_.width_px;
  if (spec_.type == SampleType::kU8) {
    for (size_t i = 0; i < count; ++i)
      strip_.push_back(static_cast<char>(row[i] - (i < channels ? 0 : row[i - channels])));
    return;
  }
  const auto* const samples = reinterpret_cast<const uint16_t*>(row);
  for (size_t i = 0; i < count; ++i) {
    const int difference = samples[i] - (i < channels ? 0 : samples[i - channels]);
    strip_.push_back(static_cast<char>(difference));
    strip_.push_back(static_cast<char>(difference >> 8));
  }
}

absl::Status TiffEncoder::EndStrip() {
  uLongf size = compressBound(strip_.size());
  std::string compressed(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(compressed.data()), &size,
                reinterpret_cast<const Bytef*>(strip_.data()), strip_.size(), level_);
  if (result != Z_OK) return absl::ResourceExhaustedError("TIFF: no memory");
  compressed.resize(size);
  compressed.shrink_to_fit();
  strips_.push_back(std::move(compressed));
  strip_.clear();
  return absl::OkStatus();
}

void TiffEncoder::AddLayout(TiffFields& fields) const {
  constexpr uint32_t kAdobeDeflate = 8, kGrayFromBlack = 1, kRgb = 2, kUnassociated = 2;
  const bool gray = spec_.channels < kRgbChannels;
  const auto bits = static_cast<uint32_t>(8 * SampleBytes(spec_.type));
  const TiffField layout[] = {
      NumberField(kTiffWidth, kTiffLong, {static_cast<uint32_t>(spec_.width_px)}),
      NumberField(kTiffHeight, kTiffLong, {static_cast<uint32_t>(spec_.height_px)}),
      NumberField(kTiffBitsPerSample, kTiffShort, std::vector<uint32_t>(spec_.channels, bits)),
      NumberField(kTiffCompression, kTiffShort, {kAdobeDeflate}),
      NumberField(kTiffPhotometric, kTiffShort, {gray ? kGrayFromBlack : kRgb}),
      NumberField(kTiffSamplesPerPixel, kTiffShort, {static_cast<uint32_t>(spec_.channels)}),
      NumberField(kTiffRowsPerStrip, kTiffLong, {static_cast<uint32_t>(rows_per_strip_)}),
      NumberField(kTiffPlanarConfiguration, kTiffShort, {1}),
      NumberField(kTiffPredictor, kTiffShort, {2}),
      NumberField(kTiffSampleFormat, kTiffShort, std::vector<uint32_t>(spec_.channels, 1)),
  };
  fields.insert(fields.end(), std::begin(layout), std::end(layout));
  if (spec_.has_alpha())
    fields.push_back(NumberField(kTiffExtraSamples, kTiffShort, {kUnassociated}));
}

ExifFields TiffEncoder::Descriptions() const {
  const std::optional<TiffFile> block = TiffFile::Open(AsBytes(metadata_.exif));
  ExifFields fields;
  if (block.has_value()) {
    fields = ReadExifFields(*block, block->first_directory(), /*foreign_values=*/true);
  }
  for (const ImageText& text : metadata_.texts) {
    const std::optional<uint16_t> tag = TiffTagOfText(text.keyword);
    const auto has = [&](const TiffField& field) { return field.tag == tag; };
    if (tag.has_value() && std::ranges::none_of(fields.image, has))
      fields.image.push_back(BytesField(*tag, kTiffAscii, text.text + '\0'));
  }
  return fields;
}

void TiffEncoder::AddMetadata(TiffFields& fields) const {
  if (!metadata_.icc_profile.empty())
    fields.push_back(BytesField(kTiffIccProfile, kTiffUndefined, metadata_.icc_profile));
  if (!metadata_.xmp.empty()) fields.push_back(BytesField(kTiffXmp, kTiffByte, metadata_.xmp));
  if (!metadata_.iptc.empty())
    fields.push_back(BytesField(kTiffIptc, kTiffUndefined, metadata_.iptc));
  if (!metadata_.density.has_value()) return;
  using Unit = PixelDensity::Unit;
  const PixelDensity& density = *metadata_.density;
  std::erase_if(fields, [](const TiffField& field) {
    return field.tag == kTiffXResolution || field.tag == kTiffYResolution ||
           field.tag == kTiffResolutionUnit;
  });
  // Per metre as a hundredth of the number per centimetre.
  const uint32_t unit = density.unit == Unit::kAspect ? 1 : density.unit == Unit::kInch ? 2 : 3;
  const uint32_t denominator = density.unit == Unit::kMetre ? 100 : 1;
  fields.push_back(RationalField(kTiffXResolution, density.x, denominator));
  fields.push_back(RationalField(kTiffYResolution, density.y, denominator));
  fields.push_back(NumberField(kTiffResolutionUnit, kTiffShort, {unit}));
}

absl::Status TiffEncoder::Finish() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, next_row_));
  const ExifFields descriptions = Descriptions();
  TiffFields fields = descriptions.image;
  AddLayout(fields);
  AddMetadata(fields);
  std::vector<uint32_t> offsets, counts;
  size_t end = kTiffHeadBytes;
  for (const std::string& strip : strips_) {
    offsets.push_back(static_cast<uint32_t>(end));
    counts.push_back(static_cast<uint32_t>(strip.size()));
    end += strip.size();
  }
  fields.push_back(NumberField(kTiffStripOffsets, kTiffLong, offsets));
  fields.push_back(NumberField(kTiffStripByteCounts, kTiffLong, counts));

  std::string tail(end % 2, '\0');  // directories begin at even bytes
  const auto base = static_cast<uint32_t>(end);
  AppendExifDirectories(descriptions, base, tail, fields);
  const uint32_t directory = AppendTiffDirectory(std::move(fields), base, tail);
  std::string head("II\x2a\0\0\0\0\0", kTiffHeadBytes);
  for (int i = 0; i < 4; ++i) head[4 + i] = static_cast<char>(directory >> 8 * i);
  RETURN_IF_ERROR(sink_.Write(AsBytes(head)));
  for (std::string& strip : strips_) {
    RETURN_IF_ERROR(sink_.Write(AsBytes(strip)));
    strip = {};
  }
  return WriteInPieces(AsBytes(tail), sink_);
}

}  // namespace

size_t TiffEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  constexpr size_t kDeflateBytes = size_t{512} << 10, kBytesPerStrip = 128;
  const auto strips = static_cast<size_t>(spec.height_px / TiffRowsPerStrip(spec) + 1);
  return MaxTiffPixelBytes(spec) + kDeflateBytes + kBytesPerStrip * strips +
         3 * (kTiffStripBytes + spec.row_bytes());
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateTiffEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink,
                                                                const Cancellation*) {
  if (const uint64_t most = MaxTiffPixelBytes(spec); most > kMaxTiffBytes)
    return absl::ResourceExhaustedError(
        absl::StrCat("TIFF: the result may take ", most, " bytes; the limit is ", kMaxTiffBytes));
  return std::make_unique<TiffEncoder>(spec, options.compression, metadata, sink);
}

}  // namespace upscaled
