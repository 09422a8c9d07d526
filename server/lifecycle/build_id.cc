#include "server/lifecycle/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace upscaled::server {
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

// Finds the id of the program, which comes before its libraries.
int VisitProgram(dl_phdr_info* program, size_t, void* build_id) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(program->dlpi_addr + segment.p_vaddr);
    std::string found = FindBuildId({notes, segment.p_memsz});
    if (!found.empty()) *static_cast<std::string*>(build_id) = std::move(found);
  }
  return 1;  // no more of them
}

}  // namespace

std::string BuildId() {
  std::string build_id;
  dl_iterate_phdr(VisitProgram, &build_id);
  return build_id;
}

}  // namespace upscaled::server
