// EXIF as a TIFF file has it, spread over its directories, and as a block. Private to engine/image.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/image/tiff_directory.h"

namespace upscaled {

// The descriptive fields of an image, by their directories.
struct ExifFields {
  TiffFields image, exif, gps, interop;
};

// Whether a tag of an image's directory describes the picture, not its place in another system.
bool IsTiffDescription(uint16_t tag);

// The fields that `file` holds, of the directory at `first` and those that it leads to. `image`
// lacks the tags that describe how pixels are stored, the tags of other metadata and of
// directories. Its tags that are no descriptions have values if `foreign_values`: an image file's
// may be larger than its pixels. Safe for any bytes; damaged directories are passed over.
ExifFields ReadExifFields(const TiffFile& file, uint64_t first, bool foreign_values);

// Removes the fields of `image` for other purposes than a photograph's description, such as places
// on a map, and returns their tags, except those of colours (see tiff_colour.h).
std::vector<uint16_t> RemoveForeignTags(TiffFields& image);

// The tag of an image for a text of PNG or JPEG. nullopt: TIFF has none for it.
std::optional<uint16_t> TiffTagOfText(std::string_view keyword);

// The texts of the image in a block of EXIF, by their tags. Safe for any bytes.
std::map<uint16_t, std::string> TiffTextsOf(std::string_view exif);

// Appends the directories of `fields` but `image` to `out`, as AppendTiffDirectory, and adds the
// tags for them to `image`.
void AppendExifDirectories(const ExifFields& fields, uint32_t base, std::string& out,
                           TiffFields& image);

// `fields` as a block of EXIF. "" if all but resolution is empty.
std::string ExifBlockOf(const ExifFields& fields);

}  // namespace upscaled
