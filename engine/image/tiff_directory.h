// Directories of TIFF files, of both byte orders and both sizes (BigTIFF). Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/image/image.h"

namespace upscaled {

enum TiffTag : uint16_t {
  kTiffNewSubfileType = 254,
  kTiffSubfileType = 255,
  kTiffWidth = 256,
  kTiffHeight = 257,
  kTiffBitsPerSample = 258,
  kTiffCompression = 259,
  kTiffPhotometric = 262,
  kTiffStripOffsets = 273,
  kTiffOrientation = 274,
  kTiffSamplesPerPixel = 277,
  kTiffRowsPerStrip = 278,
  kTiffStripByteCounts = 279,
  kTiffXResolution = 282,
  kTiffYResolution = 283,
  kTiffPlanarConfiguration = 284,
  kTiffResolutionUnit = 296,
  kTiffTransferFunction = 301,
  kTiffPredictor = 317,
  kTiffWhitePoint = 318,
  kTiffPrimaryChromaticities = 319,
  kTiffColourMap = 320,
  kTiffTileWidth = 322,
  kTiffTileHeight = 323,
  kTiffTileOffsets = 324,
  kTiffTileByteCounts = 325,
  kTiffSubDirectories = 330,
  kTiffInkSet = 332,
  kTiffExtraSamples = 338,
  kTiffSampleFormat = 339,
  kTiffXmp = 700,
  kTiffIptc = 33723,
  kTiffPhotoshop = 34377,
  kTiffExifDirectory = 34665,
  kTiffIccProfile = 34675,
  kTiffGpsDirectory = 34853,
  kTiffInteropDirectory = 40965,
  kTiffDngVersion = 50706,
};

enum TiffType : uint16_t {
  kTiffByte = 1,
  kTiffAscii = 2,
  kTiffShort = 3,
  kTiffLong = 4,
  kTiffRational = 5,
  kTiffUndefined = 7,
};

struct TiffEntry {
  uint16_t tag, type;
  uint64_t count;
  uint64_t offset;  // of its value, which may stand in the entry itself
  uint64_t bytes;   // of its value; 0 for a type that is not defined
};

struct TiffDirectory {
  std::vector<TiffEntry> entries;
  uint64_t end;   // of its bytes
  uint64_t next;  // the offset of the next directory, 0: there is none

  const TiffEntry* Find(uint16_t tag) const;
};

// Reads numbers and directories of a file with known first bytes.
class TiffFile {
 public:
  static constexpr size_t kHeaderBytes = 16;  // a classic file needs 8
  static constexpr uint64_t kMaxEntries = 4096;

  // nullopt: `bytes` are too few or begin no TIFF file.
  static std::optional<TiffFile> Open(std::span<const uint8_t> bytes);

  std::span<const uint8_t> bytes() const { return bytes_; }
  uint64_t first_directory() const { return Load(big_ ? 8 : 4, big_ ? 8 : 4); }
  bool Holds(uint64_t offset, uint64_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  // The bytes must be held.
  uint64_t Load(uint64_t offset, int count) const { return LoadFrom(&bytes_[offset], count); }
  uint64_t LoadFrom(const uint8_t* at, int count) const;

  // Bytes of a directory's parts: the count of entries, one entry, the offset of the next one.
  int count_bytes() const { return big_ ? 8 : 2; }
  int entry_bytes() const { return big_ ? 20 : 12; }
  int next_bytes() const { return big_ ? 8 : 4; }

  // The directory at `offset`, wholly in memory and with at most kMaxEntries.
  TiffDirectory Read(uint64_t offset) const;
  // Where it ends if its count is held, else where the count ends. 0: it has too many entries.
  uint64_t EndOfDirectory(uint64_t offset) const;

  // The entry `tag` of `directory` with at least `count` values, all in memory. Null without.
  const TiffEntry* FindHeld(const TiffDirectory& directory, uint16_t tag, uint64_t count) const;
  // The `i`th number of an integer entry in memory; 0 for other types.
  uint64_t Number(const TiffEntry& entry, uint64_t i = 0) const;
  // The `i`th value of a rational entry in memory; 0 for other types.
  double Rational(const TiffEntry& entry, uint64_t i = 0) const;

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_ = false, big_ = false;
};

// An entry with its value, in little-endian byte order.
struct TiffField {
  uint16_t tag, type;
  uint32_t count;
  std::string value;
};
using TiffFields = std::vector<TiffField>;

TiffField NumberField(uint16_t tag, TiffType type, const std::vector<uint32_t>& numbers);
TiffField RationalField(uint16_t tag, uint32_t numerator, uint32_t denominator);
TiffField BytesField(uint16_t tag, TiffType type, std::string bytes);

// The entries of `directory` whose values are held and which a classic file can hold, with values
// where `copies` says so. Leaves out entries once the copied values have more bytes than the file:
// values of a sound one do not overlap.
TiffFields FieldsOf(const TiffFile& file, const TiffDirectory& directory,
                    absl::FunctionRef<bool(uint16_t tag)> copies);

// Appends a directory of `fields` and its values to `out`. The first byte of `out` is at `base` in
// the file. Returns the directory's offset.
uint32_t AppendTiffDirectory(TiffFields fields, uint32_t base, std::string& out);

}  // namespace upscaled
