#include "engine/train/image_folder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
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

namespace fs = std::filesystem;

constexpr size_t kMaxImageBytes = size_t{1} << 30;
constexpr uint64_t kHeldOutOneIn = 8;

// FNV-1a: the same on every machine.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash ^ hash >> 32;
}

// The part kept of an image of this size: up to `max_pixels`, its place and its sides multiples of
// `scale`.
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
  const auto place = [&](int left, uint64_t random) {
    return static_cast<int>(random % (left / scale + 1)) * scale;
  };
  part.x = place(image.width - part.width, hash);
  part.y = place(image.height - part.height, hash / 7);
  return part;
}

// An image file in the course of reading.
class OpenedImage {
 public:
  static absl::StatusOr<std::unique_ptr<OpenedImage>> Open(const fs::path& path) {
    std::unique_ptr<OpenedImage> image(new OpenedImage);
    ASSIGN_OR_RETURN(image->bytes_, ReadFile(path, kMaxImageBytes));
    image->source_.emplace(image->bytes_);
    ASSIGN_OR_RETURN(image->decoder_, OpenImageDecoder(*image->source_, {}));
    return image;
  }

  Size size() const { return decoder_->spec().size(); }

  // The pixels of `part` as RGB; reads the image up to there, so only once.
  absl::StatusOr<Image> Read(const Rect& part);

 private:
  OpenedImage() = default;

  std::string bytes_;
  std::optional<MemorySource> source_;
  std::unique_ptr<ImageDecoder> decoder_;
};

absl::StatusOr<Image> OpenedImage::Read(const Rect& part) {
  const ImageSpec spec{size().width, size().height, 3, SampleType::kU8};
  const std::unique_ptr<RowSource> rows = ConvertRows(*decoder_, spec);
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

// The same part of the pair's small image.
absl::StatusOr<Image> LoadSmall(const fs::path& path, Size large, const Rect& part, int scale) {
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedImage> small, OpenedImage::Open(path));
  const Size size = small->size();
  if (size.width * scale != large.width || size.height * scale != large.height) {
    return absl::FailedPreconditionError(
        absl::StrCat("has ", large.width, " x ", large.height, " pixels, and its small image ",
                     size.width, " x ", size.height, ": not a ", scale, "th on both sides"));
  }
  return small->Read({part.x / scale, part.y / scale, part.width / scale, part.height / scale});
}

// A folder's regular files by their paths within it.
struct FoundFiles {
  std::vector<fs::path> files;
  std::vector<std::string> skipped;  // as ImageFolder's
};

absl::Status FindFiles(const fs::path& root, const fs::path& folder, FoundFiles& found) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> paths, ListFolder(root / folder));
  for (const fs::path& path : paths) {
    const fs::path file = folder / path.filename();
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (fs::is_directory(status)) {
      RETURN_IF_ERROR(FindFiles(root, file, found));
    } else if (fs::is_regular_file(status)) {
      found.files.push_back(file);
    } else {
      found.skipped.push_back(absl::StrCat(file.string(), ": is a link or no regular file"));
    }
  }
  return absl::OkStatus();
}

// The files of a folder of small images by their paths without extensions.
class SmallImages {
 public:
  static absl::StatusOr<SmallImages> Find(const fs::path& folder) {
    SmallImages images;
    FoundFiles found;
    RETURN_IF_ERROR(FindFiles(folder, {}, found));
    images.folder_ = folder;
    for (const fs::path& file : found.files) images.files_[Key(file)].push_back(file);
    return images;
  }

  // The one of the large image `file`, taken from the list.
  absl::StatusOr<fs::path> Take(const fs::path& file) {
    const auto it = files_.find(Key(file));
    if (it == files_.end()) {
      return absl::NotFoundError(
          absl::StrCat("has no small image of its name in ", folder_.string()));
    }
    const std::vector<fs::path> files = std::move(it->second);
    files_.erase(it);
    if (files.size() == 1) return folder_ / files.front();
    return absl::FailedPreconditionError(absl::StrCat(
        "has ", files.size(), " small images: ", files[0].string(), ", ", files[1].string()));
  }

  // "PATH: why" for the ones without a large image.
  std::vector<std::string> Left() const {
    std::vector<std::string> left;
    for (const auto& [key, files] : files_) {
      for (const fs::path& file : files) {
        left.push_back(absl::StrCat((folder_ / file).string(), ": no large image has its name"));
      }
    }
    return left;
  }

 private:
  static std::string Key(fs::path file) { return file.replace_extension().string(); }

  fs::path folder_;
  std::map<std::string, std::vector<fs::path>> files_;
};

// Loads the images of a folder one by one.
class Loader {
 public:
  // Borrows the options and the small images (null unless images come in pairs).
  Loader(const fs::path& folder, const ImageFolderOptions& options, SmallImages* small_images,
         size_t files)
      : folder_(folder),
        options_(options),
        small_images_(small_images),
        max_pixels_(MaxPixels(options, files)) {}

  absl::StatusOr<TrainingImage> Load(const fs::path& file) const {
    TrainingImage image{.file = file.string()};
    ASSIGN_OR_RETURN(const std::unique_ptr<OpenedImage> opened, OpenedImage::Open(folder_ / file));
    const Size size = opened->size();
    const Rect part = KeptPart(size, max_pixels_, options_.scale, Hash(image.file));
    if (std::min(part.width, part.height) < options_.min_side_px) {
      return absl::FailedPreconditionError(absl::StrCat(
          "has ", size.width, " x ", size.height, " pixels, of which ", part.width, " x ",
          part.height, " fit its share of memory; training needs ", options_.min_side_px));
    }
    if (small_images_ != nullptr) {
      ASSIGN_OR_RETURN(const fs::path small, small_images_->Take(file));
      ASSIGN_OR_RETURN(image.reduced.emplace_back(), LoadSmall(small, size, part, options_.scale));
    }
    ASSIGN_OR_RETURN(image.original, opened->Read(part));
    if (small_images_ != nullptr) return image;
    for (const Reduction reduction : options_.reductions) {
      ASSIGN_OR_RETURN(image.reduced.emplace_back(),
                       Reduce(image.original, options_.scale, reduction));
    }
    return image;
  }

 private:
  // An image's share of memory, in pixels of the original.
  static int64_t MaxPixels(const ImageFolderOptions& options, size_t files) {
    const size_t reduced = options.small_images.empty() ? options.reductions.size() : 1;
    const double bytes_per_pixel =
        3 * (1 + static_cast<double>(reduced) / (options.scale * options.scale));
    const double share =
        static_cast<double>(options.cache_bytes) / static_cast<double>(std::max<size_t>(files, 1));
    return static_cast<int64_t>(share / bytes_per_pixel);
  }

  const fs::path& folder_;
  const ImageFolderOptions& options_;
  SmallImages* const small_images_;
  const int64_t max_pixels_;
};

}  // namespace

bool IsHeldOut(std::string_view file) { return Hash(file) % kHeldOutOneIn == 0; }

absl::StatusOr<ImageFolder> LoadImageFolder(const std::filesystem::path& folder,
                                            const ImageFolderOptions& options) {
  FoundFiles found;
  RETURN_IF_ERROR(FindFiles(folder, {}, found));
  std::optional<SmallImages> small_images;
  if (!options.small_images.empty()) {
    ASSIGN_OR_RETURN(small_images, SmallImages::Find(options.small_images));
  }
  const Loader loader(folder, options, small_images ? &*small_images : nullptr, found.files.size());
  ImageFolder result{.skipped = std::move(found.skipped)};
  for (const fs::path& file : found.files) {
    absl::StatusOr<TrainingImage> image = loader.Load(file);
    if (!image.ok()) {
      result.skipped.push_back(absl::StrCat(file.string(), ": ", image.status().message()));
      continue;
    }
    (IsHeldOut(image->file) ? result.held_out : result.training).push_back(*std::move(image));
  }
  if (small_images) {
    for (std::string& left : small_images->Left()) result.skipped.push_back(std::move(left));
  }
  const size_t images = result.training.size() + result.held_out.size();
  if (images < kMinImages) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder.string(), ": has ", images, " images of ", options.min_side_px,
        " pixels or more on each side, training needs ", kMinImages, "; ", result.skipped.size(),
        " files were skipped",
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
