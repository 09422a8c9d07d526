#include "engine/train/image_folder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/geometry.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/convert.h"
#include "engine/image/memory_io.h"

namespace upscaled::train {
namespace {

constexpr size_t kMaxImageBytes = size_t{1} << 30;
constexpr uint64_t kHeldOutOneIn = 8;

// FNV-1a: the same on every machine.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash ^ hash >> 32;
}

// The part kept of an image of this size: up to `max_pixels`, sides that are multiples of `scale`.
Rect KeptPart(Size image, int64_t max_pixels, int scale, uint64_t hash) {
  const auto square = static_cast<int64_t>(std::sqrt(static_cast<double>(max_pixels)));
  const int64_t short_side = std::min<int64_t>({image.width, image.height, square});
  const int64_t long_side = max_pixels / std::max<int64_t>(short_side, 1);
  const auto kept = [&](int side) {
    const bool is_short = side == std::min(image.width, image.height);
    return static_cast<int>(std::min<int64_t>(side, is_short ? short_side : long_side)) / scale *
           scale;
  };
  Rect part{0, 0, kept(image.width), kept(image.height)};
  part.x = static_cast<int>(hash % (image.width - part.width + 1));
  part.y = static_cast<int>(hash / 7 % (image.height - part.height + 1));
  return part;
}

absl::StatusOr<Image> DecodePart(std::string_view bytes, const ImageFolderOptions& options,
                                 int64_t max_pixels, uint64_t hash) {
  MemorySource source(bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageDecoder> decoder, OpenImageDecoder(source, {}));
  const Size size = decoder->spec().size();
  const ImageSpec spec{size.width, size.height, 3, SampleType::kU8};
  const Rect part = KeptPart(size, max_pixels, options.scale, hash);
  if (std::min(part.width, part.height) < options.min_side_px) {
    return absl::FailedPreconditionError(absl::StrCat(
        "has ", size.width, " x ", size.height, " pixels, of which ", part.width, " x ",
        part.height, " fit its share of memory; training needs ", options.min_side_px));
  }
  const std::unique_ptr<RowSource> rows = ConvertRows(*decoder, spec);
  Image row({spec.width_px, 1, 3, SampleType::kU8});
  Image kept({part.width, part.height, 3, SampleType::kU8});
  for (int y = 0; y < part.bottom(); ++y) {
    RETURN_IF_ERROR(rows->ReadRows(row.mutable_view()));
    if (y < part.y) continue;
    std::memcpy(kept.mutable_view().row(y - part.y), row.view().row(0) + size_t{3} * part.x,
                kept.spec().row_bytes());
  }
  return kept;
}

absl::StatusOr<TrainingImage> Load(const std::filesystem::path& path,
                                   const ImageFolderOptions& options, int64_t max_pixels) {
  TrainingImage image{.file = path.filename().string()};
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxImageBytes));
  ASSIGN_OR_RETURN(image.original, DecodePart(bytes, options, max_pixels, Hash(image.file)));
  for (const Reduction reduction : options.reductions) {
    ASSIGN_OR_RETURN(image.reduced.emplace_back(),
                     Reduce(image.original, options.scale, reduction));
  }
  return image;
}

absl::StatusOr<std::vector<std::filesystem::path>> RegularFiles(
    const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(std::vector<std::filesystem::path> paths, ListFolder(folder));
  std::erase_if(paths, [](const std::filesystem::path& path) {
    std::error_code error;
    return !std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error));
  });
  return paths;
}

}  // namespace

bool IsHeldOut(std::string_view file) { return Hash(file) % kHeldOutOneIn == 0; }

absl::StatusOr<ImageFolder> LoadImageFolder(const std::filesystem::path& folder,
                                            const ImageFolderOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, RegularFiles(folder));
  const double bytes_per_pixel =
      3 * (1 + static_cast<double>(options.reductions.size()) / (options.scale * options.scale));
  const double share = static_cast<double>(options.cache_bytes) /
                       static_cast<double>(std::max<size_t>(paths.size(), 1));
  ImageFolder result;
  for (const std::filesystem::path& path : paths) {
    absl::StatusOr<TrainingImage> image =
        Load(path, options, static_cast<int64_t>(share / bytes_per_pixel));
    if (!image.ok()) {
      result.skipped.push_back(
          absl::StrCat(path.filename().string(), ": ", image.status().message()));
      continue;
    }
    (IsHeldOut(image->file) ? result.held_out : result.training).push_back(*std::move(image));
  }
  const size_t images = result.training.size() + result.held_out.size();
  if (images < kMinImages) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder.string(), ": has ", images, " images of ", options.min_side_px,
        " pixels or more on each side, training needs ", kMinImages, "; of ", paths.size(),
        " files ", result.skipped.size(), " were skipped",
        result.skipped.empty() ? "" : absl::StrCat(", the first: ", result.skipped.front())));
  }
  for (auto [from, to] : {std::pair(&result.training, &result.held_out),
                          std::pair(&result.held_out, &result.training)}) {
    if (!to->empty()) continue;
    to->push_back(std::move(from->back()));
    from->pop_back();
  }
  return result;
}

}  // namespace upscaled::train
