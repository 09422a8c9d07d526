// Sources: TIFF 6.0, section 2; the BigTIFF design (Adobe, AWare Systems).
#include "engine/image/tiff_directory.h"

#include <algorithm>
#include <utility>

namespace upscaled {
namespace {

constexpr uint16_t kTiffLong8 = 16, kTiffSignedLong8 = 17, kTiffDirectory8 = 18;

// Bytes of one value by its type; 0: not defined.
uint64_t TiffValueBytes(uint16_t type) {
  constexpr uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

// Bytes in the file's order.
int TiffWordBytes(uint16_t type) {
  const bool is_pair = type == kTiffRational || type == 10;
  return is_pair ? 4 : static_cast<int>(TiffValueBytes(type));
}

void AppendLittle(uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i));
}

}  // namespace

const TiffEntry* TiffDirectory::Find(uint16_t tag) const {
  const auto found = std::ranges::find(entries, tag, &TiffEntry::tag);
  return found == entries.end() ? nullptr : &*found;
}

std::optional<TiffFile> TiffFile::Open(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8) return std::nullopt;
  TiffFile file;
  file.bytes_ = bytes;
  file.big_endian_ = bytes[0] == 'M';
  if (bytes[0] != bytes[1] || (bytes[0] != 'I' && bytes[0] != 'M')) return std::nullopt;
  const uint64_t version = file.Load(2, 2);
  file.big_ = version == 43;
  if (version != 42 && !file.big_) return std::nullopt;
  // BigTIFF states the bytes of an offset.
  if (file.big_ && (bytes.size() < kHeaderBytes || file.Load(4, 2) != 8)) return std::nullopt;
  return file;
}

uint64_t TiffFile::LoadFrom(const uint8_t* at, int count) const {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | at[big_endian_ ? i : count - 1 - i];
  return value;
}

uint64_t TiffFile::EndOfDirectory(uint64_t offset) const {
  if (!Holds(offset, count_bytes())) return offset + count_bytes();
  const uint64_t entries = Load(offset, count_bytes());
  if (entries > kMaxEntries) return 0;
  return offset + count_bytes() + entries * entry_bytes() + next_bytes();
}

TiffDirectory TiffFile::Read(uint64_t offset) const {
  TiffDirectory directory;
  uint64_t at = offset + count_bytes();
  for (uint64_t left = Load(offset, count_bytes()); left > 0; --left, at += entry_bytes()) {
    TiffEntry entry = {static_cast<uint16_t>(Load(at, 2)), static_cast<uint16_t>(Load(at + 2, 2)),
                       Load(at + 4, next_bytes())};
    constexpr uint64_t kFar = uint64_t{1} << 48;
    entry.bytes = std::min(entry.count, kFar) * TiffValueBytes(entry.type);
    entry.offset = at + 4 + next_bytes();
    if (entry.bytes > static_cast<uint64_t>(next_bytes()))
      entry.offset = Load(entry.offset, next_bytes());
    directory.entries.push_back(entry);
  }
  directory.next = Load(at, next_bytes());
  directory.end = at + next_bytes();
  return directory;
}

uint64_t TiffFile::Number(const TiffEntry& entry, uint64_t i) const {
  const uint64_t bytes = TiffValueBytes(entry.type);
  const bool is_integer = entry.type == kTiffByte || entry.type == kTiffShort ||
                          entry.type == kTiffLong || entry.type == kTiffLong8 || entry.type == 13 ||
                          entry.type == kTiffDirectory8;
  return is_integer && i < entry.count ? Load(entry.offset + i * bytes, static_cast<int>(bytes))
                                       : 0;
}

const TiffEntry* TiffFile::FindHeld(const TiffDirectory& directory, uint16_t tag,
                                    uint64_t count) const {
  const TiffEntry* const entry = directory.Find(tag);
  const bool is_held =
      entry != nullptr && entry->count >= count && Holds(entry->offset, entry->bytes);
  return is_held ? entry : nullptr;
}

double TiffFile::Rational(const TiffEntry& entry, uint64_t i) const {
  if (entry.type != kTiffRational || i >= entry.count) return 0;
  const uint64_t at = entry.offset + 8 * i, denominator = Load(at + 4, 4);
  return denominator == 0 ? 0 : static_cast<double>(Load(at, 4)) / denominator;
}

TiffField NumberField(uint16_t tag, TiffType type, const std::vector<uint32_t>& numbers) {
  TiffField field = {tag, type, static_cast<uint32_t>(numbers.size())};
  for (const uint32_t number : numbers)
    AppendLittle(number, static_cast<int>(TiffValueBytes(type)), field.value);
  return field;
}

TiffField RationalField(uint16_t tag, uint32_t numerator, uint32_t denominator) {
  TiffField field = {tag, kTiffRational, 1};
  AppendLittle(numerator, 4, field.value);
  AppendLittle(denominator, 4, field.value);
  return field;
}

TiffField BytesField(uint16_t tag, TiffType type, std::string bytes) {
  return {tag, type, static_cast<uint32_t>(bytes.size()), std::move(bytes)};
}

TiffFields FieldsOf(const TiffFile& file, const TiffDirectory& directory,
                    absl::FunctionRef<bool(uint16_t tag)> copies) {
  TiffFields fields;
  uint64_t room = file.bytes().size();
  for (const TiffEntry& entry : directory.entries) {
    const bool is_classic = entry.type < kTiffLong8 || entry.type > kTiffDirectory8;
    if (!is_classic || entry.bytes == 0 || !file.Holds(entry.offset, entry.bytes)) continue;
    TiffField field = {entry.tag, entry.type, static_cast<uint32_t>(entry.count)};
    if (copies(entry.tag)) {
      if (entry.bytes > room) continue;
      room -= entry.bytes;
      const int word = TiffWordBytes(entry.type);
      for (uint64_t i = 0; i < entry.bytes; i += word)
        AppendLittle(file.Load(entry.offset + i, word), word, field.value);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

uint32_t AppendTiffDirectory(TiffFields fields, uint32_t base, std::string& out) {
  constexpr size_t kInline = 4, kEntry = 12;
  std::ranges::stable_sort(fields, {}, &TiffField::tag);
  if (out.size() % 2 != 0) out.push_back('\0');
  const auto offset = static_cast<uint32_t>(base + out.size());
  size_t value_at = offset + 2 + fields.size() * kEntry + 4;
  AppendLittle(fields.size(), 2, out);
  for (const TiffField& field : fields) {
    AppendLittle(field.tag, 2, out);
    AppendLittle(field.type, 2, out);
    AppendLittle(field.count, 4, out);
    if (field.value.size() > kInline) {
      AppendLittle(value_at, 4, out);
      value_at += field.value.size() + field.value.size() % 2;
    } else {
      out += field.value;
      out.append(kInline - field.value.size(), '\0');
    }
  }
  AppendLittle(0, 4, out);  // no other directory
  for (const TiffField& field : fields) {
    if (field.value.size() <= kInline) continue;
    out += field.value;
    if (field.value.size() % 2 != 0) out.push_back('\0');
  }
  return offset;
}

}  // namespace upscaled
