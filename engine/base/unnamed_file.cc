#include "engine/base/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"

namespace upscaled {

absl::StatusOr<UniqueFd> OpenUnnamedFile(const std::string& folder) {
  UniqueFd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  // A kernel without O_TMPFILE sees a folder to write: EISDIR.
  if (!file.valid() && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string name = folder + "/upscaled-XXXXXX";
    file = UniqueFd(mkostemp(name.data(), O_CLOEXEC));
    if (file.valid()) unlink(name.c_str());
  }
  if (file.valid()) return file;
  return absl::Status(absl::ErrnoToStatusCode(errno), strerror(errno));
}

}  // namespace upscaled
