// Sources: TIFF 6.0; Adobe's TIFF Technical Notes; the BigTIFF design.
//
// A file may have its directory behind its pixels. Then the header is known when the bytes up to
// there have come. The limit on metadata does not count these: kTiffReach times the limit bounds
// them.
#include "engine/image/tiff_header.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/colour_profile.h"
#include "engine/image/orientation.h"
#include "engine/image/tiff_colour.h"
#include "engine/image/tiff_directory.h"
#include "engine/image/tiff_exif.h"

namespace upscaled {
namespace {

constexpr char kTiff[] = "TIFF";
constexpr uint64_t kTiffReach = 64;
// Tiles reach over the image's edges; a tile of more pixels than these, or four times the image's,
// is no image's.
constexpr int64_t kMaxPaddedPixels = int64_t{1} << 22;
constexpr int kMaxTiffSamples = 16;
constexpr uint32_t kTiffJpeg = 7, kTiffLzma = 34925, kTiffZstd = 50000;
// libtiff's structures, and libjpeg's for a row of blocks; the windows of LZMA at its highest level
// and of Zstandard.
constexpr size_t kLibtiffBytes = size_t{12} << 20, kLzmaBytes = size_t{80} << 20,
                 kZstdBytes = size_t{24} << 20;
constexpr size_t kLibtiffBytesPerCell = 48;

absl::Status TiffFault(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(kTiff, ": ", what));
}
absl::Status TiffIsNotRead(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat(kTiff, ": ", what, " not read"));
}

absl::Status CheckCompression(uint64_t compression) {
  struct Named {
    uint32_t value;
    const char* name;
  };
  // Deflate has two numbers; LERC holds whole numbers, too. The library of JBIG ends the process
  // when memory is short. Nothing bounds the tables of WebP within TIFF. libtiff 4.5 misreads CCITT
  // in words. Raw photographs only hold a preview.
  constexpr uint32_t kRead[] = {1,     2,     3,     4,     5,     7,         8,
                                32766, 32773, 32809, 32946, 34887, kTiffLzma, kTiffZstd};
  constexpr Named kRefused[] = {
      {6, "old-style JPEG"}, {9, "JBIG"},          {10, "JBIG"},         {32771, "CCITT in words"},
      {32908, "Pixar film"}, {32909, "Pixar log"}, {34661, "JBIG"},      {34676, "SGI LogL"},
      {34677, "SGI LogLuv"}, {34712, "JPEG 2000"}, {34892, "lossy DNG"}, {50001, "WebP"},
      {50002, "JPEG XL"}};
  if (std::ranges::find(kRead, compression) != std::end(kRead)) return absl::OkStatus();
  const auto named = std::ranges::find(kRefused, compression, &Named::value);
  return TiffIsNotRead(
      absl::StrCat("compression ", compression,
                   named == std::end(kRefused) ? "" : absl::StrCat(" (", named->name, ")"), " is"));
}

class TiffParser {
 public:
  TiffParser(const TiffFile& file, const DecodeLimits& limits, bool is_whole)
      : file_(file), limits_(limits), is_whole_(is_whole) {}

  absl::StatusOr<std::optional<TiffLayout>> Parse() {
    layout_.directory = file_.first_directory();
    ASSIGN_OR_RETURN(const bool found, ReadDirectory());
    if (!found) return std::nullopt;
    for (const auto step :
         {&TiffParser::RefuseRaw, &TiffParser::ReadSize, &TiffParser::ReadSamples,
          &TiffParser::ReadColour, &TiffParser::ReadCells, &TiffParser::ReadPlaces,
          &TiffParser::ReadDescription, &TiffParser::ReadMetadataPlaces}) {
      const absl::Status status = (this->*step)();
      if (needs_more_) return std::nullopt;  // also where a default in a value's place is refused
      RETURN_IF_ERROR(status);
    }
    layout_.header_end = needed_end_;
    layout_.file_end = std::max(layout_.file_end, needed_end_);
    layout_.stated_end = has_further_directories_ ? 0 : StatedEnd();
    return std::move(layout_);
  }

 private:
  // Whether the bytes are there. Otherwise more of the file are needed, if there are any.
  absl::StatusOr<bool> Need(uint64_t offset, uint64_t bytes, absl::string_view what) {
    RETURN_IF_ERROR(CheckReach(offset, bytes, what));
    if (file_.Holds(offset, bytes)) {
      needed_end_ = std::max(needed_end_, offset + bytes);
      return true;
    }
    needs_more_ = true;
    return false;
  }

  absl::Status CheckReach(uint64_t offset, uint64_t bytes, absl::string_view what) {
    const uint64_t reach = kTiffReach * limits_.max_metadata_bytes;
    if (offset <= reach && bytes <= reach - offset) return absl::OkStatus();
    const uint64_t most = std::min<uint64_t>(std::max(offset, bytes), INT64_MAX);
    return BeyondLimit(
        limits_, DecodeLimit::kMetadataBytes, static_cast<int64_t>(most),
        absl::StrCat(kTiff, ": ", what, " ends ", bytes, " bytes behind byte ", offset,
                     "; the limit is ", reach, ", ", kTiffReach, " times that on metadata"));
  }

  absl::StatusOr<bool> ReadDirectory() {
    const uint64_t at = layout_.directory;
    if (at < 8) return TiffFault(absl::StrCat("its directory stands at byte ", at));
    ASSIGN_OR_RETURN(const bool counted, Need(at, file_.count_bytes(), "the directory"));
    if (!counted) return false;
    const uint64_t end = file_.EndOfDirectory(at);
    if (end == 0)
      return TiffFault(
          absl::StrCat("its directory has more than ", TiffFile::kMaxEntries, " entries"));
    ASSIGN_OR_RETURN(const bool whole, Need(at, end - at, "the directory"));
    if (!whole) return false;
    directory_ = file_.Read(at);
    layout_.next_directory = directory_.next;
    has_further_directories_ =
        directory_.next != 0 || directory_.Find(kTiffSubDirectories) != nullptr;
    return true;
  }

  // The numbers of the entry `tag`; without one the default. Empty while they are not there.
  absl::StatusOr<std::vector<uint64_t>> Numbers(uint16_t tag, std::vector<uint64_t> otherwise) {
    const TiffEntry* const entry = directory_.Find(tag);
    if (entry == nullptr || entry->bytes == 0) return otherwise;
    RETURN_IF_ERROR(CheckMetadataBytes(kTiff, entry->bytes, limits_));
    ASSIGN_OR_RETURN(const bool held, Need(entry->offset, entry->bytes, absl::StrCat("tag ", tag)));
    std::vector<uint64_t> numbers;
    for (uint64_t i = 0; held && i < entry->count; ++i) numbers.push_back(file_.Number(*entry, i));
    return numbers;
  }
  absl::StatusOr<uint64_t> One(uint16_t tag, uint64_t otherwise) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Numbers(tag, {otherwise}));
    return numbers.empty() ? otherwise : numbers[0];
  }
  // Values with one number for all samples.
  absl::StatusOr<uint64_t> Same(uint16_t tag, uint64_t otherwise, absl::string_view what) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, Numbers(tag, {otherwise}));
    if (numbers.empty()) return otherwise;
    for (const uint64_t number : numbers)
      if (number != numbers[0]) return TiffIsNotRead(absl::StrCat(what, " that differ are"));
    return numbers[0];
  }

  // Raw photographs are TIFF files with a preview.
  absl::Status RefuseRaw() {
    constexpr uint64_t kReduced = 1;
    ASSIGN_OR_RETURN(const uint64_t kind, One(kTiffNewSubfileType, 0));
    const bool is_raw = directory_.Find(kTiffDngVersion) != nullptr ||
                        ((kind & kReduced) != 0 && directory_.Find(kTiffSubDirectories) != nullptr);
    if (is_raw) return TiffIsNotRead("this is a raw photograph with a preview, which is");
    if ((kind & kReduced) != 0)
      layout_.warnings.push_back("TIFF: its first image says that it is a reduced copy of another");
    return absl::OkStatus();
  }

  absl::Status ReadSize() {
    ASSIGN_OR_RETURN(const uint64_t width, One(kTiffWidth, 0));
    ASSIGN_OR_RETURN(const uint64_t height, One(kTiffHeight, 0));
    RETURN_IF_ERROR(CheckImageSize(kTiff, std::min<uint64_t>(width, UINT32_MAX),
                                   std::min<uint64_t>(height, UINT32_MAX), limits_));
    layout_.size = {static_cast<int>(width), static_cast<int>(height)};
    return absl::OkStatus();
  }

  absl::Status ReadSamples() {
    constexpr uint64_t kUnsigned = 1, kSigned = 2, kFloat = 3, kVoid = 4;
    ASSIGN_OR_RETURN(const uint64_t samples, One(kTiffSamplesPerPixel, 1));
    ASSIGN_OR_RETURN(const uint64_t bits, Same(kTiffBitsPerSample, 1, "bits of samples"));
    ASSIGN_OR_RETURN(const uint64_t format, Same(kTiffSampleFormat, 1, "formats of samples"));
    ASSIGN_OR_RETURN(const uint64_t compression, One(kTiffCompression, 1));
    ASSIGN_OR_RETURN(const uint64_t planar, One(kTiffPlanarConfiguration, 1));
    if (samples < 1 || samples > kMaxTiffSamples)
      return TiffIsNotRead(absl::StrCat(samples, " samples a pixel are"));
    if (format == kFloat)
      return TiffIsNotRead("floating-point samples, the range of which no tag states, are");
    if (format == kSigned) return TiffIsNotRead("signed samples are");
    if (format != kUnsigned && format != kVoid)
      return TiffIsNotRead(absl::StrCat("sample format ", format, " is"));
    if (bits < 1 || (bits > 16 && bits != 32))
      return TiffIsNotRead(absl::StrCat(bits, " bits a sample are"));
    RETURN_IF_ERROR(CheckCompression(compression));
    if (compression == kTiffJpeg && bits != 8)
      return TiffIsNotRead(absl::StrCat("JPEG of ", bits, " bits is"));
    if (planar != 1 && planar != 2)
      return TiffFault(absl::StrCat("planar configuration ", planar, " is not defined"));
    if (bits == 32) layout_.warnings.push_back("TIFF: 32 bits a sample become 16");
    layout_.samples = static_cast<int>(samples);
    layout_.bits = static_cast<int>(bits);
    layout_.compression = static_cast<uint32_t>(compression);
    layout_.separate = planar == 2 && samples > 1;
    return absl::OkStatus();
  }

  absl::Status ReadColour() {
    ASSIGN_OR_RETURN(const uint64_t photometric, One(kTiffPhotometric, 1));
    int colours = 1;
    switch (photometric) {
      case 0:
        layout_.colour = TiffColour::kInvertedGray;
        break;
      case 1:
        break;
      case 2:
        layout_.colour = TiffColour::kRgb;
        colours = 3;
        break;
      case 3:
        layout_.colour = TiffColour::kPalette;
        RETURN_IF_ERROR(ReadPalette());
        break;
      case 5: {
        ASSIGN_OR_RETURN(const uint64_t inks, One(kTiffInkSet, 1));
        if (inks != 1 || layout_.samples < 4) return TiffIsNotRead("inks other than CMYK are");
        layout_.colour = TiffColour::kCmyk;
        colours = 4;
        break;
      }
      case 6:
        if (layout_.compression != kTiffJpeg || layout_.separate || layout_.bits != 8)
          return TiffIsNotRead("YCbCr without JPEG compression is");
        layout_.colour = TiffColour::kRgb;
        layout_.is_ycbcr = true;
        colours = 3;
        break;
      default:
        return TiffIsNotRead(absl::StrCat("photometric interpretation ", photometric,
                                          NameOfPhotometric(photometric), " is"));
    }
    if (layout_.samples < colours)
      return TiffFault(absl::StrCat("it has ", layout_.samples, " samples a pixel, not ", colours));
    return ReadExtraSamples(colours);
  }

  static absl::string_view NameOfPhotometric(uint64_t photometric) {
    switch (photometric) {
      case 4:
        return " (a transparency mask)";
      case 8:
      case 9:
      case 10:
        return " (Lab)";
      case 32803:
      case 34892:
        return " (a raw photograph)";
      case 32844:
      case 32845:
        return " (LogLuv)";
      default:
        return "";
    }
  }

  absl::Status ReadPalette() {
    if (layout_.bits > 8)
      return TiffIsNotRead(absl::StrCat("a palette for ", layout_.bits, " bits is"));
    ASSIGN_OR_RETURN(const std::vector<uint64_t> colours, Numbers(kTiffColourMap, {}));
    if (needs_more_) return absl::OkStatus();
    if (colours.size() < size_t{3} << layout_.bits)
      return TiffFault(absl::StrCat("its palette has ", colours.size(), " numbers, not ",
                                    size_t{3} << layout_.bits));
    layout_.palette.assign(colours.begin(), colours.end());
    // Old programs wrote 8 bits, as other readers know.
    const bool is_short = std::ranges::all_of(colours, [](uint64_t value) { return value < 256; });
    if (is_short) std::ranges::for_each(layout_.palette, [](auto& value) { value *= 256; });
    return absl::OkStatus();
  }

  // Samples beyond those of `colours`: one may be alpha.
  absl::Status ReadExtraSamples(int colours) {
    constexpr uint64_t kAssociated = 1, kUnassociated = 2;
    const int extra = layout_.samples - colours;
    if (extra == 0) return absl::OkStatus();
    const bool is_stated = directory_.Find(kTiffExtraSamples) != nullptr;
    ASSIGN_OR_RETURN(const std::vector<uint64_t> kinds,
                     Numbers(kTiffExtraSamples, {kUnassociated}));
    for (int i = 0; i < extra && i < static_cast<int>(kinds.size()); ++i) {
      if (kinds[i] != kAssociated && kinds[i] != kUnassociated) continue;
      layout_.alpha_sample = colours + i;
      layout_.premultiplied = kinds[i] == kAssociated;
      break;
    }
    if (!is_stated)
      layout_.warnings.push_back(absl::StrCat("TIFF: no tag says that sample ", colours + 1,
                                              " of a pixel is alpha; it is taken for that"));
    if (const int others = extra - (layout_.alpha_sample >= 0 ? 1 : 0); others > 0)
      layout_.warnings.push_back(absl::StrCat("TIFF: ", others, " of ", layout_.samples,
                                              " samples a pixel are neither colour nor "
                                              "alpha and left out"));
    return absl::OkStatus();
  }

  absl::Status ReadCells() {
    layout_.tiled = directory_.Find(kTiffTileWidth) != nullptr;
    uint64_t width = layout_.size.width, height = 0;
    if (layout_.tiled) {
      ASSIGN_OR_RETURN(width, One(kTiffTileWidth, 0));
      ASSIGN_OR_RETURN(height, One(kTiffTileHeight, 0));
    } else {
      ASSIGN_OR_RETURN(height, One(kTiffRowsPerStrip, UINT32_MAX));
      height = std::min<uint64_t>(height, layout_.size.height);
    }
    constexpr uint64_t kMaxCellSide = 1 << 30;
    if (width < 1 || height < 1 || width > kMaxCellSide || height > kMaxCellSide)
      return TiffFault(absl::StrCat("its parts are ", width, " x ", height, " px"));
    const int64_t pixels = static_cast<int64_t>(width * height);
    const int64_t most = std::max(kMaxPaddedPixels, 4 * layout_.size.Area());
    if (pixels > most)
      return TiffFault(absl::StrCat("a tile has ", pixels, " pixels; the limit is ", most));
    layout_.cell = {static_cast<int>(width), static_cast<int>(height)};
    return absl::OkStatus();
  }

  // Where the cells are.
  absl::Status ReadPlaces() {
    const uint16_t offset_tag = layout_.tiled ? kTiffTileOffsets : kTiffStripOffsets,
                   count_tag = layout_.tiled ? kTiffTileByteCounts : kTiffStripByteCounts;
    ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, Numbers(offset_tag, {}));
    ASSIGN_OR_RETURN(std::vector<uint64_t> counts, Numbers(count_tag, {}));
    if (needs_more_) return absl::OkStatus();
    const auto cells = static_cast<size_t>(layout_.cells());
    // Old writers do without counts.
    if (counts.empty() && layout_.compression == 1) counts.assign(cells, layout_.cell_bytes());
    if (offsets.size() < cells || counts.size() < cells)
      return TiffFault(absl::StrCat("the places of ", std::min(offsets.size(), counts.size()),
                                    " of ", cells, " parts are stated"));
    for (size_t i = 0; i < cells; ++i) {
      RETURN_IF_ERROR(CheckReach(offsets[i], counts[i], "a part of the image"));
      layout_.file_end = std::max(layout_.file_end, offsets[i] + counts[i]);
      layout_.largest_cell = std::max(layout_.largest_cell, counts[i]);
    }
    return absl::OkStatus();
  }

  absl::Status ReadDescription() {
    const uint64_t orientation = One(kTiffOrientation, 1).value_or(1);
    if (orientation >= 1 && orientation <= 8)
      layout_.orientation = static_cast<Orientation>(orientation);
    const double x = Resolution(kTiffXResolution), y = Resolution(kTiffYResolution);
    constexpr double kMost = 1e6;
    if (x <= 0 || y <= 0 || x > kMost || y > kMost) return absl::OkStatus();
    using Unit = PixelDensity::Unit;
    const uint64_t unit = One(kTiffResolutionUnit, 2).value_or(2);
    const auto is_whole = [](double value) { return std::abs(value - std::round(value)) < 1e-3; };
    PixelDensity density = {unit == 1   ? Unit::kAspect
                            : unit == 3 ? Unit::kCentimetre
                                        : Unit::kInch};
    double per_unit = 1;
    if (density.unit != Unit::kAspect && !(is_whole(x) && is_whole(y))) {
      per_unit = density.unit == Unit::kInch ? 1 / 0.0254 : 100;
      density.unit = Unit::kMetre;
    }
    density.x = static_cast<uint32_t>(std::lround(x * per_unit));
    density.y = static_cast<uint32_t>(std::lround(y * per_unit));
    if (density.x > 0 && density.y > 0) layout_.density = density;
    return absl::OkStatus();
  }

  // 0: not stated, or not within reach.
  double Resolution(uint16_t tag) {
    const TiffEntry* const entry = directory_.Find(tag);
    if (entry == nullptr || entry->bytes == 0) return 0;
    const absl::StatusOr<bool> held = Optional(entry->offset, entry->bytes);
    return held.value_or(false) ? file_.Rational(*entry) : 0;
  }

  // As Need, for optional parts of an image: the missing ones of the file are passed over.
  absl::StatusOr<bool> Optional(uint64_t offset, uint64_t bytes) {
    if (is_whole_ && !file_.Holds(offset, bytes)) return false;
    return Need(offset, bytes, "metadata");
  }

  absl::Status ReadMetadataPlaces() {
    // EXIF becomes a block of its own: a header, and the directories with their references.
    constexpr uint64_t kBlockBytes = 64;
    layout_.metadata_bytes = kBlockBytes + directory_.end - layout_.directory;
    for (const TiffEntry& entry : directory_.entries) {
      TiffBlock* const block = entry.tag == kTiffIccProfile  ? &layout_.icc
                               : entry.tag == kTiffXmp       ? &layout_.xmp
                               : entry.tag == kTiffIptc      ? &layout_.iptc
                               : entry.tag == kTiffPhotoshop ? &layout_.photoshop
                                                             : nullptr;
      if (block != nullptr) *block = {entry.offset, entry.bytes};
      // Descriptions and tables of the compression are short; large values of other tags are
      // private.
      constexpr uint64_t kMaxShortBytes = 64 << 10;
      if (block != nullptr || entry.bytes <= kMaxShortBytes || IsTiffDescription(entry.tag) ||
          IsTiffColour(entry.tag))
        RETURN_IF_ERROR(AddMetadata(entry.offset, entry.bytes));
    }
    if (layout_.colour == TiffColour::kCmyk && layout_.icc.bytes > 0)
      RETURN_IF_ERROR(ReadProfileHead());
    for (const uint16_t tag : {kTiffExifDirectory, kTiffGpsDirectory}) {
      ASSIGN_OR_RETURN(const uint64_t offset, One(tag, 0));
      if (offset > 0) RETURN_IF_ERROR(AddDirectory(offset, /*depth=*/0));
    }
    if (layout_.metadata_bytes > limits_.max_metadata_bytes)
      return BeyondLimit(limits_, DecodeLimit::kMetadataBytes,
                         static_cast<int64_t>(layout_.metadata_bytes),
                         absl::StrCat(kTiff, ": its metadata have ", layout_.metadata_bytes,
                                      " bytes; the limit is ", limits_.max_metadata_bytes));
    return absl::OkStatus();
  }

  // Large values of private tags, too, are the image's.
  uint64_t StatedEnd() const {
    uint64_t end = layout_.file_end;
    for (const TiffEntry& entry : directory_.entries)
      if (entry.bytes <= UINT64_MAX - entry.offset) end = std::max(end, entry.offset + entry.bytes);
    return end;
  }

  // Whether a profile is of CMYK.
  absl::Status ReadProfileHead() {
    const uint64_t bytes = std::min<uint64_t>(layout_.icc.bytes, kIccHeadBytes);
    ASSIGN_OR_RETURN(const bool held, Optional(layout_.icc.offset, bytes));
    if (held)
      layout_.profile_head.assign(reinterpret_cast<const char*>(&file_.bytes()[layout_.icc.offset]),
                                  bytes);
    return absl::OkStatus();
  }

  absl::Status AddMetadata(uint64_t offset, uint64_t bytes) {
    layout_.metadata_bytes += bytes;
    if (bytes > limits_.max_metadata_bytes) return absl::OkStatus();  // the sum tells
    RETURN_IF_ERROR(CheckReach(offset, bytes, "metadata"));
    layout_.file_end = std::max(layout_.file_end, offset + bytes);
    return absl::OkStatus();
  }

  absl::Status AddDirectory(uint64_t at, int depth) {
    ASSIGN_OR_RETURN(const bool counted, Optional(at, file_.count_bytes()));
    if (!counted) return absl::OkStatus();
    const uint64_t end = file_.EndOfDirectory(at);
    if (end == 0) return absl::OkStatus();  // damaged, and left out with a warning
    ASSIGN_OR_RETURN(const bool whole, Optional(at, end - at));
    if (!whole) return absl::OkStatus();
    const TiffDirectory directory = file_.Read(at);
    layout_.metadata_bytes += directory.end - at;
    for (const TiffEntry& entry : directory.entries) {
      const bool inside = !is_whole_ || file_.Holds(entry.offset, entry.bytes);
      if (inside) RETURN_IF_ERROR(AddMetadata(entry.offset, entry.bytes));
    }
    const TiffEntry* const interop = directory.Find(kTiffInteropDirectory);
    if (interop == nullptr || depth > 0 || !file_.Holds(interop->offset, interop->bytes))
      return absl::OkStatus();
    return AddDirectory(file_.Number(*interop), depth + 1);
  }

  const TiffFile& file_;
  const DecodeLimits& limits_;
  const bool is_whole_;
  TiffDirectory directory_;
  TiffLayout layout_;
  bool needs_more_ = false, has_further_directories_ = false;
  uint64_t needed_end_ = TiffFile::kHeaderBytes;
};

}  // namespace

absl::StatusOr<std::optional<TiffLayout>> ParseTiffLayout(std::span<const uint8_t> prefix,
                                                          const DecodeLimits& limits,
                                                          bool is_whole) {
  if (prefix.size() < TiffFile::kHeaderBytes) return std::nullopt;
  const std::optional<TiffFile> file = TiffFile::Open(prefix);
  if (!file.has_value()) return TiffFault("its first bytes are damaged");
  return TiffParser(*file, limits, is_whole).Parse();
}

ImageSpec TiffSpec(const TiffLayout& layout) {
  const bool gray =
      layout.colour == TiffColour::kGray || layout.colour == TiffColour::kInvertedGray;
  return {layout.size.width, layout.size.height,
          (gray ? 1 : kRgbChannels) + (layout.alpha_sample >= 0 ? 1 : 0),
          layout.bits > 8 ? SampleType::kU16 : SampleType::kU8};
}

absl::StatusOr<std::optional<ImageHeader>> ParseTiffHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits,
                                                           bool is_whole) {
  ASSIGN_OR_RETURN(const std::optional<TiffLayout> layout,
                   ParseTiffLayout(prefix, limits, is_whole));
  if (!layout.has_value()) return std::nullopt;
  ImageHeader header;
  header.format = ImageFormat::kTiff;
  header.spec = TiffSpec(*layout);
  header.orientation = layout->orientation;
  header.warnings = layout->warnings;
  header.prefix_bytes = HeaderBufferBytes(layout->header_end);
  header.metadata_bytes = layout->metadata_bytes;

  ImageSpec band = header.spec;
  band.height_px = std::min(layout->cell.height, band.height_px);
  header.decoder_bytes =
      header.prefix_bytes + layout->file_end + 6 * header.metadata_bytes + kLibtiffBytes +
      kLibtiffBytesPerCell * static_cast<size_t>(layout->cells()) + 2 * layout->largest_cell +
      (layout->planes() + 2) * layout->cell_bytes() + ImageBytes(band) +
      16 * static_cast<size_t>(layout->cell.width) * layout->samples +
      (layout->compression == kTiffLzma   ? kLzmaBytes
       : layout->compression == kTiffZstd ? kZstdBytes
                                          : 0);
  if (layout->colour == TiffColour::kCmyk) {
    header.warnings.push_back(CmykWarning(kTiff, layout->icc.bytes > 0, layout->profile_head));
    header.decoder_bytes += CmykToSrgb::kBytes + 3 * layout->icc.bytes;
  }
  if (header.orientation != Orientation::kIdentity)
    header.decoder_bytes += UprightBytes(header.spec);
  if (SwapsSides(header.orientation)) std::swap(header.spec.width_px, header.spec.height_px);
  return header;
}

}  // namespace upscaled
