// Bytes of an image on disk.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/image_io.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// A file without a name in SpoolFolder() (spool_folder.h): nothing is left of it when its process
// ends. Errors are INTERNAL: this machine cannot keep the bytes.
class SpoolFile final : public ImageSink {
 public:
  static absl::StatusOr<SpoolFile> Create();

  absl::Status Write(absl::string_view bytes) override;
  absl::Status Restart() override;
  // The file, at its first byte. Call once, last.
  absl::StatusOr<UniqueFd> Finish();

 private:
  explicit SpoolFile(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace upscaled::client
