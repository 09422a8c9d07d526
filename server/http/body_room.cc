#include "server/http/body_room.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace upscaled::server {

bool BodyRoom::TakeDiskBlock() {
  if (!disk_.Take(kBodyBlockBytes)) return false;
  disk_in_use_ += kBodyBlockBytes;
  return true;
}

void BodyRoom::ReturnDiskBlocks(size_t blocks) {
  disk_.Return(blocks * kBodyBlockBytes);
  disk_in_use_ -= static_cast<int64_t>(blocks * kBodyBlockBytes);
}

absl::StatusOr<UniqueFd> OpenSpoolFile(const std::string& folder) {
  UniqueFd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR) return SpoolError(folder, errno);
  std::string name = folder + "/upscaled-XXXXXX";  // the file system knows no files without names
  file = UniqueFd(mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) return SpoolError(folder, errno);
  unlink(name.c_str());
  return file;
}

absl::Status SpoolError(const std::string& folder, int error) {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kOverloaded,
                   absl::StrCat("bodies of requests cannot be kept in ", folder,
                                " (spool-dir): ", strerror(error)),
                   {{"limit", "spool-dir"}});
}

}  // namespace upscaled::server
