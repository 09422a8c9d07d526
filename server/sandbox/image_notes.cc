#include "server/sandbox/image_notes.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace upscaled::server {
namespace {

constexpr size_t kMaxWarnings = 64, kMaxWarningBytes = 1024;

enum class Block : uint32_t {
  kProfile = 1,
  kExif,
  kXmp,
  kIptc,
  kDensity,
  kTurned,
  kText,    // the keyword; followed by three blocks of its other parts
  kColour,  // followed by the chunk's data
  kWarning,
};

class Writer {
 public:
  void Put(Block block, std::string_view bytes) {
    const uint32_t head[] = {static_cast<uint32_t>(block), static_cast<uint32_t>(bytes.size())};
    bytes_.append(reinterpret_cast<const char*>(head), sizeof(head)).append(bytes);
  }
  void PutUnlessEmpty(Block block, std::string_view bytes) {
    if (!bytes.empty()) Put(block, bytes);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  bool ended() const { return rest_.empty(); }

  // False: the bytes end within it.
  bool Next(Block& block, std::string& bytes) {
    uint32_t head[2];
    if (rest_.size() < sizeof(head)) return false;
    std::memcpy(head, rest_.data(), sizeof(head));
    rest_ = rest_.subspan(sizeof(head));
    if (head[1] > rest_.size()) return false;
    block = static_cast<Block>(head[0]);
    bytes.assign(reinterpret_cast<const char*>(rest_.data()), head[1]);
    rest_ = rest_.subspan(head[1]);
    return true;
  }
  bool NextOf(Block expected, std::string& bytes) {
    Block block;
    return Next(block, bytes) && block == expected;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace

std::string SerializeNotes(const ImageNotes& notes) {
  const ImageMetadata& metadata = notes.metadata;
  Writer writer;
  writer.PutUnlessEmpty(Block::kProfile, metadata.icc_profile);
  writer.PutUnlessEmpty(Block::kExif, metadata.exif);
  writer.PutUnlessEmpty(Block::kXmp, metadata.xmp);
  writer.PutUnlessEmpty(Block::kIptc, metadata.iptc);
  if (metadata.density.has_value()) {
    const uint32_t numbers[] = {static_cast<uint32_t>(metadata.density->unit), metadata.density->x,
                                metadata.density->y};
    writer.Put(Block::kDensity, {reinterpret_cast<const char*>(numbers), sizeof(numbers)});
  }
  if (metadata.keeps_orientation) writer.Put(Block::kTurned, "");
  for (const ImageText& text : metadata.texts)
    for (const std::string* part :
         {&text.keyword, &text.text, &text.language, &text.translated_keyword})
      writer.Put(Block::kText, *part);
  for (const ColourChunk& chunk : metadata.colour_chunks) {
    writer.Put(Block::kColour, chunk.type);
    writer.Put(Block::kColour, chunk.data);
  }
  for (size_t i = 0; i < std::min(notes.warnings.size(), kMaxWarnings); ++i)
    writer.Put(Block::kWarning, std::string_view(notes.warnings[i]).substr(0, kMaxWarningBytes));
  return writer.Take();
}

std::optional<ImageNotes> ParseNotes(std::span<const uint8_t> bytes) {
  ImageNotes notes;
  ImageMetadata& metadata = notes.metadata;
  Reader reader(bytes);
  while (!reader.ended()) {
    Block block;
    std::string value;
    if (!reader.Next(block, value)) return std::nullopt;
    switch (block) {
      case Block::kProfile:
        metadata.icc_profile = std::move(value);
        break;
      case Block::kExif:
        metadata.exif = std::move(value);
        break;
      case Block::kXmp:
        metadata.xmp = std::move(value);
        break;
      case Block::kIptc:
        metadata.iptc = std::move(value);
        break;
      case Block::kDensity: {
        uint32_t numbers[3];
        if (value.size() != sizeof(numbers)) return std::nullopt;
        std::memcpy(numbers, value.data(), sizeof(numbers));
        if (numbers[0] > static_cast<uint32_t>(PixelDensity::Unit::kMetre)) return std::nullopt;
        metadata.density = {static_cast<PixelDensity::Unit>(numbers[0]), numbers[1], numbers[2]};
        break;
      }
      case Block::kTurned:
        metadata.keeps_orientation = true;
        break;
      case Block::kText: {
        ImageText text{.keyword = std::move(value)};
        for (std::string* part : {&text.text, &text.language, &text.translated_keyword})
          if (!reader.NextOf(Block::kText, *part)) return std::nullopt;
        metadata.texts.push_back(std::move(text));
        break;
      }
      case Block::kColour: {
        ColourChunk chunk{.type = std::move(value)};
        if (chunk.type.size() != 4 || !reader.NextOf(Block::kColour, chunk.data))
          return std::nullopt;
        metadata.colour_chunks.push_back(std::move(chunk));
        break;
      }
      case Block::kWarning:
        notes.warnings.push_back(std::move(value));
        break;
      default:
        return std::nullopt;
    }
  }
  return notes;
}

}  // namespace upscaled::server
