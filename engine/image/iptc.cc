// Sources: IPTC-NAA information interchange model 4.2, chapters 1.5 and 6; Adobe Photoshop file
// formats specification, section "Image resource blocks".
#include "engine/image/iptc.h"

#include <algorithm>
#include <cstdint>

#include "engine/image/endian.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

constexpr std::string_view kResourceBegin = "8BIM";
constexpr uint32_t kIptcResource = 0x0404;
constexpr uint8_t kDataSetBegin = 0x1C;
constexpr uint8_t kApplicationRecord = 2;
// Content location code and name, city, sublocation, province, country code and name.
constexpr uint8_t kLocationSets[] = {26, 27, 90, 92, 95, 100, 101};

}  // namespace

std::string IptcOfResources(std::string_view resources, bool& others) {
  std::string iptc;
  while (resources.size() >= 12) {
    const uint8_t* const bytes = AsBytes(resources).data();
    // Signature, number, a name with its length and padding, the data's length.
    const size_t name_end = 6 + (1 + bytes[6] + 1) / 2 * 2;
    if (resources.substr(0, 4) != kResourceBegin || resources.size() < name_end + 4) break;
    const size_t length = LoadBe32(bytes + name_end);
    const std::string_view data = resources.substr(name_end + 4);
    if (length > data.size()) break;
    if (LoadBe16(bytes + 4) == kIptcResource)
      iptc.append(data.substr(0, length));
    else
      others = true;
    resources = data.substr(std::min(length + length % 2, data.size()));
  }
  return iptc;
}

std::string ResourcesOfIptc(std::string_view iptc) {
  std::string resources(kResourceBegin);
  uint8_t length[4];
  StoreBe32(static_cast<uint32_t>(iptc.size()), length);
  resources.append("\x04\x04\0\0", 4).append(reinterpret_cast<const char*>(length), 4);
  resources.append(iptc);
  if (iptc.size() % 2 == 1) resources.push_back('\0');
  return resources;
}

bool StripIptcLocation(std::string& iptc) {
  std::string kept;
  std::string_view rest = iptc;
  while (rest.size() >= 5 && static_cast<uint8_t>(rest[0]) == kDataSetBegin) {
    const uint8_t* const bytes = AsBytes(rest).data();
    size_t length = LoadBe16(bytes + 3), begin = 5;
    if ((length & 0x8000) != 0) {  // the length of the length
      const size_t count = length & 0x7FFF;
      if (count > 4 || rest.size() < begin + count) return false;
      length = 0;
      for (size_t i = 0; i < count; ++i) length = length << 8 | bytes[begin + i];
      begin += count;
    }
    if (rest.size() - begin < length) return false;
    const bool location =
        bytes[1] == kApplicationRecord && std::ranges::count(kLocationSets, bytes[2]) > 0;
    if (!location) kept.append(rest.substr(0, begin + length));
    rest.remove_prefix(begin + length);
  }
  // Padding may follow.
  if (rest.find_first_not_of('\0') != rest.npos) return false;
  iptc = std::move(kept);
  return true;
}

}  // namespace upscaled
