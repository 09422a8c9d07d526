// Source: CIPA DC-008 (Exif 2.32), section 4.5-4.6; TIFF 6.0, section 2.
#include "engine/image/exif.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/image/endian.h"
#include "engine/image/memory_io.h"
#include "engine/image/orientation.h"
#include "engine/image/tiff_directory.h"
#include "engine/image/xmp.h"

namespace upscaled {
namespace {

constexpr size_t kTiffHeaderBytes = 8;
constexpr size_t kEntryBytes = 12, kFractionBytes = 8;
constexpr uint32_t kShortType = 3, kLongType = 4, kRationalType = 5;
// Cameras write less than a hundred. A directory with more is not read, nor is it edited.
constexpr size_t kMaxEntries = 1024;
constexpr size_t kAddedEntries = 3;  // of a resolution

enum Tag : uint32_t {
  kImageWidth = 0x0100,
  kImageLength = 0x0101,
  kStripOffset = 0x0111,
  kOrientation = 0x0112,
  kStripBytes = 0x0117,
  kXResolution = 0x011A,
  kYResolution = 0x011B,
  kResolutionUnit = 0x0128,
  kThumbnailOffset = 0x0201,
  kThumbnailBytes = 0x0202,
  kXmp = 0x02BC,
  kIptc = 0x83BB,
  kExifDirectory = 0x8769,
  kGpsDirectory = 0x8825,
  kPixelXDimension = 0xA002,
  kPixelYDimension = 0xA003,
  kFocalPlaneXResolution = 0xA20E,
  kFocalPlaneYResolution = 0xA20F,
};

// Bytes of a value by its type; 0: not defined.
size_t ValueBytes(uint32_t type) {
  constexpr uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

// Numbers of a TIFF file in its byte order.
class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool IsTiff() const {
    if (bytes_.size() < kTiffHeaderBytes) return false;
    const bool big = bytes_[0] == 'M' && bytes_[1] == 'M';
    return (big || (bytes_[0] == 'I' && bytes_[1] == 'I')) && Load16(2) == 42;
  }
  bool big_endian() const { return bytes_[0] == 'M'; }
  // `at` must be inside; see Directory.
  uint32_t Load16(size_t at) const {
    return big_endian() ? LoadBe16(&bytes_[at]) : LoadLe16(&bytes_[at]);
  }
  uint32_t Load32(size_t at) const {
    return big_endian() ? LoadBe32(&bytes_[at]) : LoadLe32(&bytes_[at]);
  }

  // Where entries of the directory at `offset` begin, as many as are inside.
  struct Directory {
    size_t begin = 0;
    size_t entries = 0;
    bool whole = false;    // all that it states, and the offset of the next one
    bool refused = false;  // states more than are read
    size_t entry(size_t i) const { return begin + 2 + i * kEntryBytes; }
    size_t end() const { return entry(entries); }
  };
  Directory At(size_t offset) const {
    if (offset < kTiffHeaderBytes || offset > bytes_.size() || bytes_.size() - offset < 2)
      return {};
    const size_t stated = Load16(offset);
    if (stated > kMaxEntries) return {.refused = true};
    const size_t entries = std::min(stated, (bytes_.size() - offset - 2) / kEntryBytes);
    const Directory found{offset, entries};
    return {.begin = offset,
            .entries = entries,
            .whole = entries == stated && bytes_.size() - found.end() >= 4};
  }
  Directory First() const { return At(Load32(4)); }
  // The directory behind the entry `tag` of `from`; empty without.
  Directory Follow(const Directory& from, Tag tag) const {
    for (size_t i = 0; i < from.entries; ++i)
      if (Load16(from.entry(i)) == tag) return At(Load32(from.entry(i) + 8));
    return {};
  }

 private:
  const std::span<const uint8_t> bytes_;
};

// A density as the tags of EXIF state it.
struct DensityEntries {
  static constexpr uint32_t kNoUnit = 1, kInch = 2, kCentimetre = 3;
  static constexpr double kFewest = 10;  // fewer are stated in thousandths
  uint32_t unit = kInch;
  double x = 0, y = 0;

  // Whether rounding may make one of the other.
  bool IsAbout(const DensityEntries& other) const {
    if ((unit == kNoUnit) != (other.unit == kNoUnit)) return false;
    const auto per_inch = [](const DensityEntries& density, double value) {
      return density.unit == kCentimetre ? 2.54 * value : value;
    };
    const auto is_about = [](double a, double b) { return std::abs(a - b) <= 0.01 * b; };
    return is_about(per_inch(*this, x), per_inch(other, other.x)) &&
           is_about(per_inch(*this, y), per_inch(other, other.y));
  }
};

DensityEntries EntriesOf(const PixelDensity& density) {
  using Unit = PixelDensity::Unit;
  if (density.unit == Unit::kMetre) {
    const auto per_inch = [](uint32_t per_metre) {
      const double exact = 0.0254 * per_metre;
      return exact < DensityEntries::kFewest ? exact : std::round(exact);
    };
    return {DensityEntries::kInch, per_inch(density.x), per_inch(density.y)};
  }
  const uint32_t unit = density.unit == Unit::kAspect       ? DensityEntries::kNoUnit
                        : density.unit == Unit::kCentimetre ? DensityEntries::kCentimetre
                                                            : DensityEntries::kInch;
  return {unit, static_cast<double>(density.x), static_cast<double>(density.y)};
}

// nullopt: the first directory has neither of the two resolutions.
std::optional<DensityEntries> DensityIn(std::string_view exif) {
  const std::optional<TiffFile> file = TiffFile::Open(AsBytes(exif));
  if (!file.has_value()) return std::nullopt;
  const TiffDirectory directory = file->Read(file->first_directory());
  if (directory.Find(kTiffXResolution) == nullptr && directory.Find(kTiffYResolution) == nullptr)
    return std::nullopt;
  const auto resolution = [&](uint16_t tag) {
    const TiffEntry* const entry = file->FindHeld(directory, tag, 1);
    return entry != nullptr ? file->Rational(*entry) : 0;
  };
  const TiffEntry* const unit = file->FindHeld(directory, kTiffResolutionUnit, 1);
  return DensityEntries{
      unit != nullptr ? static_cast<uint32_t>(file->Number(*unit)) : DensityEntries::kInch,
      resolution(kTiffXResolution), resolution(kTiffYResolution)};
}

// A TIFF file, changed in place. Removed ranges become zeros, and are cut off at the end of the
// file.
class TiffEditor {
 public:
  explicit TiffEditor(std::string& bytes) : bytes_(bytes), erasable_bytes_(4 * bytes.size()) {}

  TiffReader reader() const {
    return TiffReader({reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()});
  }
  // Whether all entries of both directories are edited. Otherwise one states too many, or more was
  // to be erased than any camera's file has: ranges with endless overlap.
  bool IsDone(const TiffReader::Directory& first, const TiffReader::Directory& details) const {
    return !gave_up_ && !first.refused && !details.refused;
  }

  void SetAll(const TiffReader::Directory& directory, Tag tag, uint32_t type, uint32_t value) {
    for (size_t i = 0; i < directory.entries; ++i) {
      const size_t entry = directory.entry(i);
      if (reader().Load16(entry) != tag) continue;
      Store(entry + 2, type, 2);
      Store(entry + 4, 1, 4);
      Store(entry + 8, 0, 4);
      Store(entry + 8, value, type == kShortType ? 2 : 4);
    }
  }

  // The directory after `directory`, and its image.
  void EraseThumbnail(const TiffReader::Directory& directory) {
    if (!directory.whole) return;
    const TiffReader::Directory next = reader().At(reader().Load32(directory.end()));
    Store(directory.end(), 0, 4);
    for (const auto& [offset, bytes] :
         {std::pair(kThumbnailOffset, kThumbnailBytes), std::pair(kStripOffset, kStripBytes)})
      Erase(ValueOf(next, offset), ValueOf(next, bytes));
    EraseEntriesOf(next);
  }

  // Takes every entry `tag` out of `directory`, with its value; the value may be a directory.
  void EraseEntries(TiffReader::Directory& directory, Tag tag, bool leads_to_directory) {
    for (size_t i = 0; i < directory.entries && !gave_up_;) {
      const size_t entry = directory.entry(i);
      if (reader().Load16(entry) != tag) {
        ++i;
        continue;
      }
      if (leads_to_directory) {
        const TiffReader::Directory inner = reader().At(reader().Load32(entry + 8));
        for (size_t k = 0; k < inner.entries; ++k) EraseValue(inner.entry(k));
        EraseEntriesOf(inner);
      } else {
        EraseValue(entry);
      }
      // The entries behind it, and the offset of the next directory, move up.
      const auto end = bytes_.begin() + std::min(directory.end() + 4, bytes_.size());
      std::fill(std::copy(bytes_.begin() + entry + kEntryBytes, end, bytes_.begin() + entry), end,
                '\0');
      --directory.entries;
      Store(directory.begin, static_cast<uint32_t>(directory.entries), 2);
    }
  }

  // The values of the first entries `a` and `b`, if there are both.
  void Exchange(const TiffReader::Directory& directory, Tag a, Tag b) {
    const size_t at_a = EntryOf(directory, a), at_b = EntryOf(directory, b);
    if (at_a == 0 || at_b == 0) return;
    std::swap_ranges(bytes_.begin() + at_a + 2, bytes_.begin() + at_a + kEntryBytes,
                     bytes_.begin() + at_b + 2);
  }

  // The values of the first entries `a` and `b`, which may share one: each a fraction.
  void MultiplyFractions(const TiffReader::Directory& directory, Tag a, double factor_a, Tag b,
                         double factor_b) {
    const size_t value_a = FractionOf(directory, a), value_b = FractionOf(directory, b);
    if (value_a != 0) MultiplyFraction(value_a, factor_a);
    if (value_b != 0 && value_b != value_a) MultiplyFraction(value_b, factor_b);
  }

  // Moves the first directory, which is whole, behind all other bytes, and adds `density` to it.
  void MoveWithDensity(const TiffReader::Directory& first, const DensityEntries& density) {
    std::vector<std::pair<uint32_t, std::string>> entries;  // by tag
    for (size_t i = 0; i < first.entries; ++i) {
      const uint32_t tag = reader().Load16(first.entry(i));
      if (tag != kResolutionUnit)
        entries.emplace_back(tag, bytes_.substr(first.entry(i), kEntryBytes));
    }
    if (bytes_.size() % 2 != 0) bytes_.push_back('\0');
    const size_t begin = bytes_.size();
    const size_t values = begin + 2 + (entries.size() + kAddedEntries) * kEntryBytes + 4;
    const auto add = [&](Tag tag, uint32_t type, const std::string& value) {
      entries.emplace_back(tag, Number(tag, 2) + Number(type, 2) + Number(1, 4) + value);
    };
    add(kXResolution, kRationalType, Number(values, 4));
    add(kYResolution, kRationalType, Number(values + kFractionBytes, 4));
    add(kResolutionUnit, kShortType, Number(density.unit, 2) + Number(0, 2));
    std::ranges::stable_sort(entries, {}, &std::pair<uint32_t, std::string>::first);
    std::string directory = Number(entries.size(), 2);
    for (const auto& [tag, entry] : entries) directory += entry;
    directory += bytes_.substr(first.end(), 4);
    for (const double value : {density.x, density.y}) {
      const int parts = value < DensityEntries::kFewest ? 1000 : 1;
      directory += Number(static_cast<size_t>(std::round(value * parts)), 4) + Number(parts, 4);
    }
    bytes_ += directory;
    Store(4, static_cast<uint32_t>(begin), 4);
  }

  void CutErasedEnd() {
    std::ranges::sort(erased_, {}, &Range::end);
    for (; !erased_.empty(); erased_.pop_back()) {
      const Range& last = erased_.back();
      const bool at_end = last.begin < bytes_.size() && last.end + 1 >= bytes_.size();  // padding
      if (at_end) bytes_.resize(last.begin);
    }
  }

 private:
  struct Range {
    size_t begin, end;
  };

  // 0: the directory has none.
  size_t EntryOf(const TiffReader::Directory& directory, Tag tag) const {
    for (size_t i = 0; i < directory.entries; ++i)
      if (reader().Load16(directory.entry(i)) == tag) return directory.entry(i);
    return 0;
  }
  // Where the value of the first entry `tag` stands; 0: it is no fraction of the file.
  size_t FractionOf(const TiffReader::Directory& directory, Tag tag) const {
    const size_t entry = EntryOf(directory, tag);
    if (entry == 0 || reader().Load16(entry + 2) != kRationalType) return 0;
    const size_t at = reader().Load32(entry + 8);
    return at >= kTiffHeaderBytes && at + kFractionBytes <= bytes_.size() ? at : 0;
  }
  void MultiplyFraction(size_t at, double factor) {
    const PositiveFraction product = Times({reader().Load32(at), reader().Load32(at + 4)}, factor);
    Store(at, product.numerator, 4);
    Store(at + 4, product.denominator, 4);
  }
  uint32_t ValueOf(const TiffReader::Directory& directory, Tag tag) const {
    const size_t entry = EntryOf(directory, tag);
    return entry == 0 ? 0 : reader().Load32(entry + 8);
  }

  // In the file's byte order.
  std::string Number(size_t value, int count) const {
    const bool big_endian = reader().big_endian();
    std::string bytes;
    for (int i = 0; i < count; ++i)
      bytes.push_back(static_cast<char>(value >> 8 * (big_endian ? count - 1 - i : i)));
    return bytes;
  }

  void Store(size_t at, uint32_t value, int count) {
    bytes_.replace(at, count, Number(value, count));
  }

  // The header is never a part of a range.
  void Erase(size_t begin, size_t count) {
    if (begin < kTiffHeaderBytes || begin > bytes_.size() || count == 0) return;
    count = std::min(count, bytes_.size() - begin);
    gave_up_ = gave_up_ || count > erasable_bytes_;
    if (gave_up_) return;
    erasable_bytes_ -= count;
    std::fill_n(bytes_.begin() + begin, count, '\0');
    erased_.push_back({begin, begin + count});
  }

  void EraseEntriesOf(const TiffReader::Directory& directory) {
    Erase(directory.begin, directory.end() - directory.begin + (directory.whole ? 4 : 0));
  }

  // The value of an entry too small for it.
  void EraseValue(size_t entry) {
    const uint64_t bytes =
        uint64_t{ValueBytes(reader().Load16(entry + 2))} * reader().Load32(entry + 4);
    if (bytes > 4) Erase(reader().Load32(entry + 8), std::min<uint64_t>(bytes, bytes_.size()));
  }

  std::string& bytes_;
  std::vector<Range> erased_;
  size_t erasable_bytes_;
  bool gave_up_ = false;
};

}  // namespace

std::optional<Orientation> ExifOrientation(std::span<const uint8_t> tiff) {
  const TiffReader reader(tiff);
  if (!reader.IsTiff()) return std::nullopt;
  const TiffReader::Directory directory = reader.First();
  for (size_t i = 0; i < directory.entries; ++i) {
    const size_t entry = directory.entry(i);
    if (reader.Load16(entry) != kOrientation) continue;
    const uint32_t value = reader.Load16(entry + 8);
    if (reader.Load16(entry + 2) != kShortType || value < 1 || value > 8) return std::nullopt;
    return static_cast<Orientation>(value);
  }
  return std::nullopt;
}

bool CorrectExif(std::string& exif, Size size, bool keep_orientation) {
  const bool is_turned = !keep_orientation && ExifOrientation(AsBytes(exif)).has_value();
  TiffEditor editor(exif);
  if (!editor.reader().IsTiff()) return false;
  editor.EraseThumbnail(editor.reader().First());
  editor.CutErasedEnd();
  const TiffReader::Directory first = editor.reader().First();
  if (is_turned) editor.SetAll(first, kOrientation, kShortType, 1);
  editor.SetAll(first, kImageWidth, kLongType, size.width);
  editor.SetAll(first, kImageLength, kLongType, size.height);
  const TiffReader::Directory details = editor.reader().Follow(first, kExifDirectory);
  editor.SetAll(details, kPixelXDimension, kLongType, size.width);
  editor.SetAll(details, kPixelYDimension, kLongType, size.height);
  return editor.IsDone(first, details);
}

bool StripExifLocation(std::string& exif) {
  TiffEditor editor(exif);
  if (!editor.reader().IsTiff()) return false;
  TiffReader::Directory first = editor.reader().First();
  editor.EraseEntries(first, kGpsDirectory, /*leads_to_directory=*/true);
  editor.EraseEntries(first, kXmp, false);
  editor.EraseEntries(first, kIptc, false);
  TiffReader::Directory details = editor.reader().Follow(first, kExifDirectory);
  editor.EraseEntries(details, kGpsDirectory, /*leads_to_directory=*/true);
  editor.CutErasedEnd();
  return editor.IsDone(first, details);
}

void TurnDensity(Orientation orientation, ImageMetadata& metadata) {
  if (!SwapsSides(orientation)) return;
  if (metadata.density.has_value()) std::swap(metadata.density->x, metadata.density->y);
  metadata.xmp = TurnXmpDensity(metadata.xmp);
  TiffEditor editor(metadata.exif);
  if (!editor.reader().IsTiff()) return;
  const TiffReader::Directory first = editor.reader().First();
  editor.Exchange(first, kXResolution, kYResolution);
  editor.Exchange(editor.reader().Follow(first, kExifDirectory), kFocalPlaneXResolution,
                  kFocalPlaneYResolution);
}

void ScaleSensorDensity(double factor_x, double factor_y, ImageMetadata& metadata) {
  if (factor_x == 1 && factor_y == 1) return;
  metadata.xmp = ScaleXmpSensorDensity(metadata.xmp, factor_x, factor_y);
  TiffEditor editor(metadata.exif);
  if (!editor.reader().IsTiff()) return;
  editor.MultiplyFractions(editor.reader().Follow(editor.reader().First(), kExifDirectory),
                           kFocalPlaneXResolution, factor_x, kFocalPlaneYResolution, factor_y);
}

bool SetExifDensity(const PixelDensity& density, std::string& exif) {
  if (exif.empty()) exif = std::string("II\x2a\0\x08\0\0\0\0\0\0\0\0\0", 14);  // no entries
  TiffEditor editor(exif);
  if (!editor.reader().IsTiff()) return false;
  const TiffReader::Directory first = editor.reader().First();
  if (!first.whole || first.entries + kAddedEntries > kMaxEntries) return false;
  const DensityEntries wanted = EntriesOf(density);
  if (const std::optional<DensityEntries> stated = DensityIn(exif)) return stated->IsAbout(wanted);
  editor.MoveWithDensity(first, wanted);
  return true;
}

}  // namespace upscaled
