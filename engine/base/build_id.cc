#include "engine/base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace upscaled {
namespace {

size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

// The build id among a segment's notes.
std::string FindBuildId(std::string_view notes) {
  constexpr std::string_view kOwner("GNU\0", 4);
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    const auto& header = *reinterpret_cast<const ElfW(Nhdr)*>(notes.data());
    notes.remove_prefix(sizeof header);
    const size_t owner_bytes = Padded(header.n_namesz), bytes = Padded(header.n_descsz);
    if (owner_bytes + bytes > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, header.n_namesz) == kOwner) {
      return absl::BytesToHexString(absl::string_view(notes.data() + owner_bytes, header.n_descsz));
    }
    notes.remove_prefix(owner_bytes + bytes);
  }
  return "";
}

struct Search {
  uintptr_t address;
  std::string build_id;
};

bool Holds(const dl_phdr_info& file, uintptr_t address) {
  for (int i = 0; i < file.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = file.dlpi_phdr[i];
    const uintptr_t begin = file.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// Is called by dl_iterate_phdr for each loaded file, until it finds the one with the address.
int Visit(dl_phdr_info* file, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  if (!Holds(*file, search.address)) return 0;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = file->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(file->dlpi_addr + segment.p_vaddr);
    std::string found = FindBuildId({notes, segment.p_memsz});
    if (!found.empty()) search.build_id = std::move(found);
  }
  return 1;
}

}  // namespace

std::string BuildIdOf(const void* address) {
  Search search{.address = reinterpret_cast<uintptr_t>(address), .build_id = ""};
  dl_iterate_phdr(Visit, &search);
  return search.build_id;
}

std::string BuildId() { return BuildIdOf(reinterpret_cast<const void*>(&BuildId)); }

}  // namespace upscaled
