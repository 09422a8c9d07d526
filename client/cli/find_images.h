// The images of a folder, and why other files of it are none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/service.h"

namespace upscaled::client {

struct FoundImage {
  std::filesystem::path path;  // relative to the folder
  // The result's: as the content says, PNG for read-only formats. UNSPECIFIED: the content is no
  // image's, only the name is.
  v1::ImageFormat format = v1::IMAGE_FORMAT_UNSPECIFIED;
};

// A file or folder without a result.
struct LeftOut {
  std::string path;
  std::string reason;
  absl::Status error = absl::OkStatus();  // if it could not be looked at
};

struct FoundImages {
  std::vector<FoundImage> images;  // in order of path
  std::vector<LeftOut> left_out;   // likewise
};

// Looks at all files below `root`, except in `excluded`. An image is a file with an image's
// beginning or name, so a damaged one fails by name. Hidden files and folders, and folders behind
// links, are left out. Errors are those of reading `root`.
absl::StatusOr<FoundImages> FindImages(const std::filesystem::path& root,
                                       const std::filesystem::path& excluded);

// Looks at one file as FindImages does: returns one image, or the reason to leave it out.
FoundImages FindImage(const std::filesystem::path& file);

// By the extension; UNSPECIFIED for others than ours.
v1::ImageFormat FormatOfPath(const std::filesystem::path& path);

// Whether both exist and are one, links followed.
bool IsSamePlace(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace upscaled::client
