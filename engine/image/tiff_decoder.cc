// TIFF by libtiff, from memory: it seeks, and the cage has no files. A row of strips or tiles is
// decoded at a time.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/image/buffered_source.h"
#include "engine/image/codec_list.h"
#include "engine/image/colour_profile.h"
#include "engine/image/endian.h"
#include "engine/image/file_end.h"
#include "engine/image/iptc.h"
#include "engine/image/memory_io.h"
#include "engine/image/premultiplied.h"
#include "engine/image/read_file.h"
#include "engine/image/stored_image.h"
#include "engine/image/tiff_colour.h"
#include "engine/image/tiff_directory.h"
#include "engine/image/tiff_exif.h"
#include "engine/image/tiff_header.h"
#include "engine/image/xmp.h"

namespace upscaled {
namespace {

constexpr int kMaxTiffPages = 10'000;

struct CloseTiff {
  void operator()(TIFF* file) const { TIFFClose(file); }
};
struct FreeTiffOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

// Where the data sets of `iptc` end: many writers fill the block up to words.
size_t EndOfDataSets(std::string_view iptc) {
  constexpr size_t kHeadBytes = 5;
  size_t end = 0;
  while (end + kHeadBytes <= iptc.size() && iptc[end] == '\x1c')
    end += kHeadBytes + LoadBe16(AsBytes(iptc).data() + end + 3);
  const bool is_filled =
      end < iptc.size() && iptc.find_first_not_of('\0', end) == std::string_view::npos;
  return is_filled ? end : iptc.size();
}

// Samples of a row of pixels, whole numbers in native byte order, to be turned into an image's.
class TiffPixels {
 public:
  TiffPixels(const TiffLayout& layout, const ImageSpec& spec, const CmykToSrgb* cmyk_to_srgb)
      : layout_(layout),
        spec_(spec),
        cmyk_to_srgb_(cmyk_to_srgb),
        samples_(static_cast<size_t>(layout.cell.width) * layout.samples) {
    if (layout.colour == TiffColour::kCmyk) cmyk_.resize(size_t{4} * layout.cell.width);
    if (cmyk_to_srgb != nullptr) rgb_.resize(size_t{3} * layout.cell.width);
  }

  // `rows`: one of each plane.
  void Convert(std::span<const uint8_t* const> rows, int width, uint8_t* dst) {
    if (layout_.separate) {
      for (int i = 0; i < layout_.samples; ++i)
        Unpack(rows[i], width, layout_.samples, &samples_[i]);
    } else {
      Unpack(rows[0], width * layout_.samples, 1, samples_.data());
    }
    if (spec_.type == SampleType::kU8)
      Write(width, dst);
    else
      Write(width, reinterpret_cast<uint16_t*>(dst));
  }

 private:
  void Unpack(const uint8_t* src, int count, int stride, uint16_t* dst) const {
    const int bits = layout_.bits;
    for (int i = 0; i < count; ++i, dst += stride) {
      if (bits == 8) {
        *dst = src[i];
      } else if (bits == 16) {
        std::memcpy(dst, src + 2 * static_cast<size_t>(i), 2);
      } else if (bits == 32) {
        uint32_t value;
        std::memcpy(&value, src + 4 * static_cast<size_t>(i), 4);
        *dst = static_cast<uint16_t>(value >> 16);
      } else {  // packed, the first in the upper bits
        const size_t bit = static_cast<size_t>(i) * bits;
        uint32_t word = 0;
        for (size_t byte = bit / 8; byte <= (bit + bits - 1) / 8; ++byte)
          word = word << 8 | src[byte];
        const size_t below = 7 - (bit + bits - 1) % 8;
        *dst = static_cast<uint16_t>(word >> below & ((1U << bits) - 1));
      }
    }
  }

  template <typename T>
  void Write(int width, T* dst) {
    constexpr uint32_t kMost = T(-1);
    const uint32_t stored_most = layout_.bits >= 16 ? UINT16_MAX : (1U << layout_.bits) - 1;
    const auto scaled = [stored_most](uint32_t sample) {
      return static_cast<T>((sample * kMost + stored_most / 2) / stored_most);
    };
    if (layout_.colour == TiffColour::kCmyk) MakeRgb<T>(width, scaled);
    const uint16_t* src = samples_.data();
    const int channels = spec_.channels;
    for (int x = 0; x < width; ++x, src += layout_.samples, dst += channels) {
      switch (layout_.colour) {
        case TiffColour::kGray:
          dst[0] = scaled(src[0]);
          break;
        case TiffColour::kInvertedGray:
          dst[0] = scaled(stored_most - src[0]);
          break;
        case TiffColour::kRgb:
          for (int c = 0; c < 3; ++c) dst[c] = scaled(src[c]);
          break;
        case TiffColour::kPalette:
          for (int c = 0; c < 3; ++c)
            dst[c] = static_cast<T>(layout_.palette[(size_t{1} << layout_.bits) * c + src[0]] >> 8);
          break;
        case TiffColour::kCmyk:
          for (int c = 0; c < 3; ++c) dst[c] = RgbRow<T>()[3 * x + c];
          break;
      }
      if (layout_.alpha_sample < 0) continue;
      dst[channels - 1] = scaled(src[layout_.alpha_sample]);
      if (layout_.premultiplied) DivideByAlpha(channels, dst);
    }
  }

  template <typename T>
  T* RgbRow() {
    return reinterpret_cast<T*>(cmyk_to_srgb_ == nullptr ? cmyk_.data() : rgb_.data());
  }

  // Without a profile by the plain product, in place.
  template <typename T, typename Scaled>
  void MakeRgb(int width, const Scaled& scaled) {
    constexpr uint32_t kMost = T(-1);
    T* const cmyk = reinterpret_cast<T*>(cmyk_.data());
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 4; ++c)
        cmyk[4 * x + c] = kMost - scaled(samples_[static_cast<size_t>(x) * layout_.samples + c]);
    if (cmyk_to_srgb_ != nullptr) {
      cmyk_to_srgb_->Convert(cmyk, width, rgb_.data());
      return;
    }
    for (int x = 0; x < width; ++x) {
      const uint32_t key = cmyk[4 * x + 3];
      for (int c = 0; c < 3; ++c)
        cmyk[3 * x + c] = static_cast<T>((cmyk[4 * x + c] * key + kMost / 2) / kMost);
    }
  }

  const TiffLayout& layout_;
  const ImageSpec spec_;
  const CmykToSrgb* const cmyk_to_srgb_;
  std::vector<uint16_t> samples_, cmyk_, rgb_;  // the latter of 8-bit samples, too
};

class TiffReader final : public StoredImage {
 public:
  TiffReader(TiffLayout layout, const DecodeLimits& limits)
      : layout_(std::move(layout)), spec_(TiffSpec(layout_)), limits_(limits) {}

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

  absl::Status Start(std::unique_ptr<ReplaySource> source, const Cancellation* cancellation);

 private:
  static TiffReader& Self(thandle_t self) { return *static_cast<TiffReader*>(self); }
  static int OnError(TIFF*, void* self, const char*, const char* format, va_list arguments);
  static tmsize_t OnRead(thandle_t self, void* dst, tmsize_t count);
  static toff_t OnSeek(thandle_t self, toff_t offset, int from);

  absl::Status OpenLibrary();
  absl::Status ReadMetadata();
  std::string Keep(const TiffBlock& block, absl::string_view name);
  absl::Status DecodeBand();
  absl::Status DecodeCells(int x);
  absl::Status LackBand(const absl::Status& why);
  absl::Status CountPages();
  // Counts the bytes that a file with one directory does not state.
  absl::Status NameBytesBehind();
  absl::StatusOr<bool> ReadAt(uint64_t offset, std::span<uint8_t> dst);
  // Whether the directory at `offset` was found: `is_page` then, and where the next one is.
  absl::StatusOr<bool> ReadChained(const TiffFile& file, uint64_t offset, bool& is_page,
                                   uint64_t& next);

  const TiffLayout layout_;
  const ImageSpec spec_;
  const DecodeLimits limits_;
  std::vector<uint8_t> file_;             // up to the end of the first image
  std::unique_ptr<BufferedSource> rest_;  // on from there
  toff_t position_ = 0;                   // of the library in it
  std::string fault_;                     // the library's first message
  std::unique_ptr<TIFF, CloseTiff> tiff_;
  std::unique_ptr<CmykToSrgb> cmyk_to_srgb_;
  std::unique_ptr<TiffPixels> pixels_;
  std::vector<std::vector<uint8_t>> cells_;  // one of each plane
  Image band_;
  int band_begin_ = 0, band_end_ = 0, next_row_ = 0;
  int missing_rows_ = 0;
};

int TiffReader::OnError(TIFF*, void* self, const char*, const char* format, va_list arguments) {
  std::string& fault = Self(self).fault_;
  if (!fault.empty()) return 1;
  char text[200];
  std::vsnprintf(text, sizeof(text), format, arguments);
  fault = text;
  return 1;
}

tmsize_t TiffReader::OnRead(thandle_t self, void* dst, tmsize_t count) {
  TiffReader& reader = Self(self);
  const size_t begin = std::min<size_t>(reader.position_, reader.file_.size());
  const size_t got = std::min<size_t>(count, reader.file_.size() - begin);
  std::copy_n(reader.file_.begin() + static_cast<ptrdiff_t>(begin), got,
              static_cast<uint8_t*>(dst));
  reader.position_ = begin + got;
  return static_cast<tmsize_t>(got);
}

toff_t TiffReader::OnSeek(thandle_t self, toff_t offset, int from) {
  TiffReader& reader = Self(self);
  const toff_t origin = from == SEEK_SET   ? 0
                        : from == SEEK_CUR ? reader.position_
                                           : reader.file_.size();
  return reader.position_ = origin + offset;
}

absl::Status TiffReader::Start(std::unique_ptr<ReplaySource> source,
                               const Cancellation* cancellation) {
  std::vector<uint8_t> prefix = source->TakePrefix();
  prefix.reserve(layout_.file_end);
  ASSIGN_OR_RETURN(file_, ReadFile(*source, std::max<uint64_t>(layout_.file_end, prefix.size()),
                                   cancellation, std::move(prefix)));
  rest_ = std::make_unique<BufferedSource>(std::move(source), cancellation);
  RETURN_IF_ERROR(ReadMetadata());
  if (layout_.colour == TiffColour::kCmyk) {
    cmyk_to_srgb_ = CmykToSrgb::Create(metadata.icc_profile, spec_.type);
    if (cmyk_to_srgb_ == nullptr && SpaceOfProfile(metadata.icc_profile) == "CMYK")
      warnings.push_back("TIFF: the colour profile of CMYK cannot be applied and is left out");
    metadata.icc_profile.clear();  // the result is in sRGB
  }
  pixels_ = std::make_unique<TiffPixels>(layout_, spec_, cmyk_to_srgb_.get());
  cells_.assign(layout_.planes(), std::vector<uint8_t>(layout_.cell_bytes()));
  ImageSpec band = spec_;
  band.height_px = std::min(layout_.cell.height, spec_.height_px);
  band_ = Image(band);
  return OpenLibrary();
}

absl::Status TiffReader::OpenLibrary() {
  const std::unique_ptr<TIFFOpenOptions, FreeTiffOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) return absl::ResourceExhaustedError("TIFF: no memory");
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, this);
  TIFFOpenOptionsSetWarningHandlerExtR(
      options.get(), [](TIFF*, void*, const char*, const char*, va_list) { return 1; }, nullptr);
  const auto no_write = [](thandle_t, void*, tmsize_t) -> tmsize_t { return -1; };
  const auto size = [](thandle_t self) -> toff_t { return Self(self).file_.size(); };
  // "c": a strip stays one, however large. Not mapped: it takes addresses for places in a strip.
  tiff_.reset(TIFFClientOpenExt(
      "", "rc", this, OnRead, no_write, OnSeek, [](thandle_t) { return 0; }, size, nullptr, nullptr,
      options.get()));
  if (tiff_ == nullptr) return absl::InvalidArgumentError(absl::StrCat("TIFF: ", fault_));
  if (layout_.is_ycbcr) TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  const auto cell = static_cast<tmsize_t>(layout_.cell_bytes());
  const tmsize_t expected = layout_.tiled ? TIFFTileSize(tiff_.get()) : TIFFStripSize(tiff_.get());
  if (expected != cell)
    return absl::InvalidArgumentError(absl::StrCat("TIFF: its parts have ", expected,
                                                   " bytes, by the header ", cell, "; ", fault_));
  return absl::OkStatus();
}

std::string TiffReader::Keep(const TiffBlock& block, absl::string_view name) {
  if (block.offset <= file_.size() && block.bytes <= file_.size() - block.offset)
    return std::string(reinterpret_cast<const char*>(file_.data()) + block.offset, block.bytes);
  warnings.push_back(absl::StrCat("TIFF: ", name, " is left out: the file ends before its end"));
  return {};
}

absl::Status TiffReader::ReadMetadata() {
  metadata.density = layout_.density;
  metadata.icc_profile = Keep(layout_.icc, "the colour profile");
  metadata.xmp = UprightXmp(Keep(layout_.xmp, "XMP"));
  metadata.iptc = Keep(layout_.iptc, "IPTC");
  metadata.iptc.resize(EndOfDataSets(metadata.iptc));
  bool others = false;
  const std::string resources = Keep(layout_.photoshop, "Photoshop's resources");
  if (metadata.iptc.empty()) metadata.iptc = IptcOfResources(resources, others);
  const std::optional<TiffFile> file = TiffFile::Open(file_);
  if (!file.has_value()) return absl::InternalError("TIFF: the header was read from other bytes");
  // CMYK becomes sRGB, which these tags do not describe.
  const std::vector<ColourChunk> colours =
      ReadTiffColours(*file, file->Read(layout_.directory), layout_.bits, warnings);
  if (layout_.colour != TiffColour::kCmyk) metadata.colour_chunks = colours;
  ExifFields fields = ReadExifFields(*file, layout_.directory, /*foreign_values=*/false);
  const std::vector<uint16_t> foreign = RemoveForeignTags(fields.image);
  if (!foreign.empty())
    warnings.push_back(
        absl::StrCat("TIFF: ", foreign.size(), " tags that describe no picture are left out: ",
                     absl::StrJoin(foreign.begin(),
                                   foreign.begin() + std::min<size_t>(foreign.size(), 10), ", ")));
  metadata.exif = ExifBlockOf(fields);
  return absl::OkStatus();
}

absl::Status TiffReader::DecodeCells(int x) {
  for (int plane = 0; plane < layout_.planes(); ++plane) {
    std::vector<uint8_t>& cell = cells_[plane];
    const auto sample = static_cast<uint16_t>(plane);
    tmsize_t count;
    if (layout_.tiled) {
      count =
          TIFFReadEncodedTile(tiff_.get(), TIFFComputeTile(tiff_.get(), x, band_begin_, 0, sample),
                              cell.data(), static_cast<tmsize_t>(cell.size()));
    } else {
      count = TIFFReadEncodedStrip(tiff_.get(), TIFFComputeStrip(tiff_.get(), band_begin_, sample),
                                   cell.data(), static_cast<tmsize_t>(cell.size()));
    }
    const auto needed = static_cast<tmsize_t>(layout_.cell_row_bytes()) * (band_end_ - band_begin_);
    if (count < needed || !fault_.empty())
      return absl::InvalidArgumentError(absl::StrCat(
          "TIFF: the data are corrupt or truncated (",
          fault_.empty() ? absl::StrCat(count, " of ", needed, " bytes") : fault_, ")"));
  }
  return absl::OkStatus();
}

absl::Status TiffReader::DecodeBand() {
  band_begin_ = band_end_;
  band_end_ = std::min(band_begin_ + layout_.cell.height, spec_.height_px);
  for (int x = 0; x < spec_.width_px; x += layout_.cell.width) {
    fault_.clear();
    if (const absl::Status status = DecodeCells(x); !status.ok()) return LackBand(status);
    const int width = std::min(layout_.cell.width, spec_.width_px - x);
    std::vector<const uint8_t*> rows(cells_.size());
    for (int y = 0; y < band_end_ - band_begin_; ++y) {
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = &cells_[i][y * layout_.cell_row_bytes()];
      pixels_->Convert(rows, width, band_.mutable_view().row(y) + x * spec_.pixel_bytes());
    }
  }
  return absl::OkStatus();
}

absl::Status TiffReader::LackBand(const absl::Status& why) {
  if (!limits_.fill_damage)
    return absl::InvalidArgumentError(
        absl::StrCat(why.message(), "; ", band_begin_, " of ", spec_.height_px, " rows were read"));
  if (missing_rows_ == 0) warnings.emplace_back(why.message());
  missing_rows_ += band_end_ - band_begin_;
  std::memset(band_.mutable_view().data, spec_.has_alpha() ? 0 : kMissingSample, band_.bytes());
  return absl::OkStatus();
}

absl::Status TiffReader::ReadRows(MutableImageView rows) {
  for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
    if (next_row_ == band_end_) RETURN_IF_ERROR(DecodeBand());
    std::memcpy(rows.row(y), band_.view().row(next_row_ - band_begin_), spec_.row_bytes());
  }
  if (next_row_ < spec_.height_px || tiff_ == nullptr) return absl::OkStatus();
  tiff_.reset();
  if (missing_rows_ > 0)
    warnings.push_back(absl::StrCat("TIFF: ", missing_rows_, " of ", spec_.height_px,
                                    " rows are missing and ",
                                    spec_.has_alpha() ? "transparent" : "gray"));
  RETURN_IF_ERROR(CountPages());
  return NameBytesBehind();
}

absl::Status TiffReader::NameBytesBehind() {
  constexpr size_t kPieceBytes = size_t{16} << 10;
  if (layout_.stated_end == 0) return absl::OkStatus();
  BytesBehind behind;
  const uint64_t held_end = std::min<uint64_t>(layout_.stated_end, file_.size());
  behind.Pass(std::span(file_).subspan(held_end));
  if (layout_.stated_end > file_.size())
    RETURN_IF_ERROR(rest_->Skip(layout_.stated_end - file_.size()).status());
  std::vector<uint8_t> piece(kPieceBytes);
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, rest_->Read(piece));
    if (count == 0) break;
    behind.Pass(std::span(piece).first(count));
  }
  if (!behind.is_padding()) warnings.push_back(behind.Warning("TIFF"));
  return absl::OkStatus();
}

// false: the bytes were passed already, or the file has no more.
absl::StatusOr<bool> TiffReader::ReadAt(uint64_t offset, std::span<uint8_t> dst) {
  if (offset <= file_.size() && dst.size() <= file_.size() - offset) {
    std::copy_n(&file_[offset], dst.size(), dst.data());
    return true;
  }
  const uint64_t position = file_.size() + rest_->position();
  if (offset < position) return false;
  ASSIGN_OR_RETURN(const bool found, rest_->Skip(offset - position));
  if (!found) return false;
  ASSIGN_OR_RETURN(const size_t count, rest_->Read(dst));
  return count == dst.size();
}

absl::StatusOr<bool> TiffReader::ReadChained(const TiffFile& file, uint64_t offset, bool& is_page,
                                             uint64_t& next) {
  constexpr uint64_t kReducedOrMask = 1 | 4;
  std::vector<uint8_t> bytes(file.count_bytes());
  ASSIGN_OR_RETURN(bool found, ReadAt(offset, bytes));
  if (!found) return false;
  const uint64_t entries = file.LoadFrom(bytes.data(), file.count_bytes());
  if (entries > TiffFile::kMaxEntries) return false;
  bytes.resize(entries * file.entry_bytes() + file.next_bytes());
  ASSIGN_OR_RETURN(found, ReadAt(offset + file.count_bytes(), bytes));
  if (!found) return false;
  is_page = true;
  const uint8_t* entry = bytes.data();
  for (uint64_t i = 0; i < entries; ++i, entry += file.entry_bytes()) {
    const uint8_t* const value = entry + 4 + file.next_bytes();
    if (file.LoadFrom(entry, 2) == kTiffNewSubfileType)
      is_page = (file.LoadFrom(value, 4) & kReducedOrMask) == 0;
    if (file.LoadFrom(entry, 2) == kTiffSubfileType) is_page = file.LoadFrom(value, 2) != 2;
  }
  next = file.LoadFrom(entry, file.next_bytes());
  return true;
}

absl::Status TiffReader::CountPages() {
  const std::optional<TiffFile> file = TiffFile::Open(file_);
  std::set<uint64_t> seen = {layout_.directory};
  int others = 0;
  bool whole = true;
  for (uint64_t next = layout_.next_directory; next != 0 && whole && others < kMaxTiffPages;) {
    if (!seen.insert(next).second) break;
    bool is_page = false;
    ASSIGN_OR_RETURN(whole, ReadChained(*file, next, is_page, next));
    others += whole && is_page ? 1 : 0;
  }
  whole = whole && others < kMaxTiffPages;
  if (others > 0 || !whole)
    warnings.push_back(absl::StrCat("TIFF: it has ", whole ? "" : "at least ", others + 1,
                                    " pages: the first is computed, the others are left out"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenTiffDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits,
                                                              const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(std::optional<TiffLayout> layout,
                   ParseTiffLayout(source->prefix(), limits, /*is_whole=*/true));
  if (!layout.has_value()) return absl::InternalError("TIFF: the header was read from more bytes");
  auto reader = std::make_unique<TiffReader>(*std::move(layout), limits);
  RETURN_IF_ERROR(reader->Start(std::move(source), cancellation));
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
