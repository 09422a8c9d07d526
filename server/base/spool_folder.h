// The folder for bytes that wait on disk.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace upscaled::server {

// TMPDIR where it is set; else /var/tmp, which is a disk where /tmp may be memory; else /tmp, where
// /var/tmp cannot be written.
inline std::string SpoolFolder() {
  const char* const chosen = getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

}  // namespace upscaled::server
