// Sources: TIFF 6.0; CIPA DC-008 (Exif 2.32), section 4.6.
#include "engine/image/tiff_exif.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/image/memory_io.h"
#include "engine/image/tiff_colour.h"

namespace upscaled {
namespace {

bool IsResolution(uint16_t tag) {
  return tag == kTiffXResolution || tag == kTiffYResolution || tag == kTiffResolutionUnit;
}

// How pixels are stored, other metadata, and places in the file.
bool IsStructure(uint16_t tag) {
  if (IsResolution(tag)) return false;
  constexpr uint16_t kOthers[] = {kTiffSubDirectories,
                                  kTiffInkSet,
                                  333,
                                  334,
                                  336,
                                  kTiffExtraSamples,
                                  kTiffSampleFormat,
                                  340,
                                  341,
                                  347,
                                  50674,
                                  kTiffXmp,
                                  kTiffIptc,
                                  kTiffPhotoshop,
                                  kTiffExifDirectory,
                                  kTiffIccProfile,
                                  kTiffGpsDirectory,
                                  kTiffInteropDirectory};
  const bool is_layout = (tag >= kTiffNewSubfileType && tag <= 268) || tag == kTiffStripOffsets ||
                         (tag >= kTiffSamplesPerPixel && tag <= 281) || tag == 284 ||
                         (tag >= 288 && tag <= 295) || tag == 297 || tag == kTiffPredictor ||
                         (tag >= kTiffColourMap && tag <= 328) || (tag >= 512 && tag <= 532);
  return is_layout || std::ranges::find(kOthers, tag) != std::end(kOthers);
}

std::optional<TiffDirectory> DirectoryAt(const TiffFile& file, uint64_t offset) {
  if (offset < 8 || !file.Holds(offset, file.count_bytes())) return std::nullopt;
  const uint64_t end = file.EndOfDirectory(offset);
  if (end == 0 || end > file.bytes().size()) return std::nullopt;
  return file.Read(offset);
}

// The directory behind the entry `tag` of `from`.
std::optional<TiffDirectory> Follow(const TiffFile& file, const std::optional<TiffDirectory>& from,
                                    uint16_t tag) {
  const TiffEntry* const entry = from.has_value() ? from->Find(tag) : nullptr;
  if (entry == nullptr || !file.Holds(entry->offset, entry->bytes)) return std::nullopt;
  return DirectoryAt(file, file.Number(*entry));
}

TiffFields FieldsBut(const TiffFile& file, const std::optional<TiffDirectory>& directory,
                     uint16_t but) {
  if (!directory.has_value()) return {};
  const auto is_other = [but](uint16_t tag) { return tag != but; };
  TiffFields fields = FieldsOf(file, *directory, is_other);
  std::erase_if(fields, [&](const TiffField& field) { return !is_other(field.tag); });
  return fields;
}

}  // namespace

bool IsTiffDescription(uint16_t tag) {
  constexpr uint16_t kTags[] = {269,   270,   271,   272,   285,   305,   306,   315,  316,
                                18246, 18249, 33432, 40091, 40092, 40093, 40094, 40095};
  return IsResolution(tag) || std::ranges::find(kTags, tag) != std::end(kTags);
}

ExifFields ReadExifFields(const TiffFile& file, uint64_t first, bool foreign_values) {
  const std::optional<TiffDirectory> image = DirectoryAt(file, first);
  const std::optional<TiffDirectory> exif = Follow(file, image, kTiffExifDirectory);
  ExifFields fields;
  const auto copies = [foreign_values](uint16_t tag) {
    return !IsStructure(tag) && (foreign_values || IsTiffDescription(tag));
  };
  if (image.has_value()) fields.image = FieldsOf(file, *image, copies);
  std::erase_if(fields.image, [](const TiffField& field) { return IsStructure(field.tag); });
  fields.exif = FieldsBut(file, exif, kTiffInteropDirectory);
  fields.gps = FieldsBut(file, Follow(file, image, kTiffGpsDirectory), 0xFFFF);
  fields.interop = FieldsBut(file, Follow(file, exif, kTiffInteropDirectory), 0xFFFF);
  return fields;
}

std::vector<uint16_t> RemoveForeignTags(TiffFields& image) {
  std::vector<uint16_t> removed;
  for (const TiffField& field : image)
    if (!IsTiffDescription(field.tag) && !IsTiffColour(field.tag) && field.tag != kTiffOrientation)
      removed.push_back(field.tag);
  std::erase_if(image, [](const TiffField& field) { return !IsTiffDescription(field.tag); });
  return removed;
}

std::optional<uint16_t> TiffTagOfText(std::string_view keyword) {
  constexpr std::pair<std::string_view, uint16_t> kTags[] = {
      {"Description", 270}, {"Comment", 270}, {"Title", 269},
      {"Software", 305},    {"Author", 315},  {"Copyright", 33432}};
  for (const auto& [text, tag] : kTags)
    if (text == keyword) return tag;
  return std::nullopt;
}

std::map<uint16_t, std::string> TiffTextsOf(std::string_view exif) {
  std::map<uint16_t, std::string> texts;
  const std::optional<TiffFile> block = TiffFile::Open(AsBytes(exif));
  if (!block.has_value()) return texts;
  const ExifFields fields = ReadExifFields(*block, block->first_directory(), false);
  for (const TiffField& field : fields.image)
    texts.emplace(field.tag, field.value.substr(0, field.value.find('\0')));
  return texts;
}

void AppendExifDirectories(const ExifFields& fields, uint32_t base, std::string& out,
                           TiffFields& image) {
  TiffFields exif = fields.exif;
  if (!fields.interop.empty())
    exif.push_back(NumberField(kTiffInteropDirectory, kTiffLong,
                               {AppendTiffDirectory(fields.interop, base, out)}));
  if (!exif.empty())
    image.push_back(
        NumberField(kTiffExifDirectory, kTiffLong, {AppendTiffDirectory(exif, base, out)}));
  if (!fields.gps.empty())
    image.push_back(
        NumberField(kTiffGpsDirectory, kTiffLong, {AppendTiffDirectory(fields.gps, base, out)}));
}

std::string ExifBlockOf(const ExifFields& fields) {
  const bool is_bare = std::ranges::all_of(
      fields.image, [](const TiffField& field) { return IsResolution(field.tag); });
  if (is_bare && fields.exif.empty() && fields.gps.empty()) return {};
  std::string block("II\x2a\0\0\0\0\0", 8);
  TiffFields image = fields.image;
  AppendExifDirectories(fields, 0, block, image);
  const uint32_t first = AppendTiffDirectory(image, 0, block);
  for (int i = 0; i < 4; ++i) block[4 + i] = static_cast<char>(first >> 8 * i);
  return block;
}

}  // namespace upscaled
