// Whole images for measuring a model's quality: read, reduced, compressed, enlarged. All of them
// are RGB kU8.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"

namespace upscaled::bench {

// The rows of an image in memory. The image must outlive them.
class ImageRows final : public RowSource {
 public:
  explicit ImageRows(const Image& image) : image_(image) {}
  const ImageSpec& spec() const override { return image_.spec(); }
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  const Image& image_;
  int next_ = 0;
};

absl::StatusOr<Image> ReadAll(RowSource& rows);

// A shaded image with a little grain, nowhere flat, another for each seed. PNG shrinks it as it
// does photographs.
Image ShadedImage(Size size, unsigned seed = 0);

// The files of a folder with names of images, in order.
absl::StatusOr<std::vector<std::filesystem::path>> ListImages(const std::filesystem::path& folder);

// Without the last columns and rows beyond a multiple of `factor`. INVALID_ARGUMENT when a side is
// then below `min_side_px`.
absl::StatusOr<Image> LoadImage(const std::filesystem::path& path, int factor, int min_side_px);

// The middle of an image, repeated on an axis if the image is shorter.
Image CutOrRepeat(const Image& image, Size size);

enum class Reduction { kBox, kBicubic, kLanczos };

// `factor` divides both sides. kBox: the mean of each block, rounded half up; the others widen
// their filter as MakeResizer does.
absl::StatusOr<Image> Reduce(const Image& image, int factor, Reduction reduction);

absl::StatusOr<Image> ThroughJpeg(const Image& image, int quality);
absl::StatusOr<Image> EnlargeByLanczos(const Image& image, Size size);

}  // namespace upscaled::bench
