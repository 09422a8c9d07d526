// A folder of images with its subfolders, in memory as large and small ones, a part of it held out.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/image.h"
#include "engine/train/reduce.h"

namespace upscaled::train {

// RGB of 8 bits; transparent images before white.
struct TrainingImage {
  std::string file;            // its path within the folder
  Image original;              // a part of the file's image where that is large
  std::vector<Image> reduced;  // as the options list them, or the one small image of the pair
};

struct ImageFolder {
  std::vector<TrainingImage> training, held_out;
  // "PATH: why", of files other than images, small ones, links, and images without their pair.
  std::vector<std::string> skipped;
};

struct ImageFolderOptions {
  int scale = 2;
  int min_side_px = 1;  // of an original; smaller ones are skipped
  std::vector<Reduction> reductions = {Reduction::kBox};
  // Folder of pairs: each image's small one, under the same path with any extension. Empty:
  // `reductions` make the small images.
  std::filesystem::path small_images;
  // For the pixels of all images. Each may take its share of it; of larger ones this much is kept,
  // from a place given by the name.
  size_t cache_bytes = size_t{1} << 30;
};

inline constexpr size_t kMinImages = 4;

// Whether a file is held out, regardless of other files in the folder. One in eight is.
bool IsHeldOut(std::string_view file);

// Reads all regular files of the folder and its subfolders, never through links. Where chance holds
// none out or all, the last one is, or is not. NOT_FOUND: a folder cannot be read;
// FAILED_PRECONDITION: fewer than kMinImages are images of this size.
absl::StatusOr<ImageFolder> LoadImageFolder(const std::filesystem::path& folder,
                                            const ImageFolderOptions& options);

}  // namespace upscaled::train
