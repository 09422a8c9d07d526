// The folder for bytes on disk.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace upscaled::server {

// Returns TMPDIR if set. Otherwise /var/tmp, because /tmp may be memory, or /tmp if /var/tmp cannot
// be written.
inline std::string SpoolFolder() {
  const char* const chosen = getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

}  // namespace upscaled::server
