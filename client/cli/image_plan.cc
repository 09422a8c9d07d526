#include "client/cli/image_plan.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "client/jobs/url_file.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

v1::ImageFormat FormatOfPath(const fs::path& path) {
  const std::string extension = path.extension();
  return extension.empty() ? v1::IMAGE_FORMAT_UNSPECIFIED : ParseFormat(extension.substr(1));
}

const char* ExtensionOf(v1::ImageFormat format) {
  switch (format) {
    case v1::IMAGE_FORMAT_JPEG:
      return ".jpg";
    case v1::IMAGE_FORMAT_WEBP:
      return ".webp";
    default:
      return ".png";
  }
}

// Whether both exist and are one, links followed.
bool Same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

absl::Status SameError(absl::string_view path) {
  return absl::InvalidArgumentError(absl::StrCat("input and output are the same: ", path));
}

// "cat.jpg" of "pets/cat.jpg" and of "https://host/pets/cat.jpg?size=9"; empty without a name. Keys
// of S3 have no query.
fs::path FileNameOf(const std::string& input) {
  if (input == kStandardStream) return {};
  if (!IsUrl(input)) return fs::path(input).filename();
  const size_t end = IsS3Url(input) ? std::string::npos : input.find_first_of("?#");
  const std::string url = input.substr(0, end);
  const size_t path = url.find('/', url.find("://") + 3);
  return path == std::string::npos ? fs::path() : fs::path(url.substr(path)).filename();
}

// `path` with the extension of `format`, unless it has one of that format.
fs::path Renamed(fs::path path, v1::ImageFormat format) {
  if (format == v1::IMAGE_FORMAT_UNSPECIFIED || FormatOfPath(path) == format) return path;
  return path.replace_extension(ExtensionOf(format));
}

// Whether images go into it; one that is yet to be made shows by its slash.
bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return absl::EndsWith(path, "/") || fs::is_directory(path, ignored);
}

ImageJob MakeJob(const std::string& input, const std::string& output, v1::ImageFormat format) {
  return {input, output, format == v1::IMAGE_FORMAT_UNSPECIFIED ? FormatOfPath(output) : format};
}

// Paths of images below `root`, relative to it.
absl::StatusOr<std::vector<fs::path>> FindImages(const fs::path& root, const fs::path& excluded) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(root, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const bool hidden = absl::StartsWith(entry->path().filename().native(), ".");
    if (entry->is_directory(ignored)) {
      if (hidden || Same(entry->path(), excluded)) entry.disable_recursion_pending();
    } else if (!hidden && entry->is_regular_file(ignored) &&
               FormatOfPath(entry->path()) != v1::IMAGE_FORMAT_UNSPECIFIED) {
      found.push_back(entry->path().lexically_relative(root));
    }
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list ", root.native()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::StatusOr<ImagePlan> PlanFolder(const fs::path& input, const fs::path& output,
                                     v1::ImageFormat format) {
  std::error_code ignored;
  if (output == kStandardStream || (fs::exists(output, ignored) && !fs::is_directory(output))) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input.native(), " is a folder, so the output must be one too"));
  }
  if (Same(input, output)) return SameError(input.native());
  ASSIGN_OR_RETURN(const std::vector<fs::path> images, FindImages(input, output));
  if (images.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no images (.png, .jpg, .jpeg, .webp) found in ", input.native()));
  }

  std::map<fs::path, int> uses;
  for (const fs::path& image : images) ++uses[Renamed(image, format)];
  ImagePlan plan{.is_folder = true};
  for (const fs::path& image : images) {
    fs::path name = Renamed(image, format);
    if (uses[name] > 1) name = image.native() + ExtensionOf(format);
    plan.jobs.push_back(MakeJob(input / image, output / name, format));
  }
  return plan;
}

absl::StatusOr<ImagePlan> PlanFile(const std::string& input, const std::string& output,
                                   v1::ImageFormat format) {
  fs::path target = output;
  if (output != kStandardStream && IsFolder(output)) {
    const fs::path name = FileNameOf(input);
    if (name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("output ", output, " is a folder, and ",
                       input == kStandardStream ? "standard input" : input, " has no name"));
    }
    target = Renamed(target / name, format);
  }
  if (Same(input, target)) return SameError(input);
  const ImageJob job = MakeJob(input, target, format);
  if (job.format == v1::IMAGE_FORMAT_UNSPECIFIED && target.has_extension()) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", target.native(),
                     " is not named .png, .jpg, .jpeg or .webp; say with -f what to write"));
  }
  return ImagePlan{{job}};
}

}  // namespace

absl::StatusOr<ImagePlan> PlanImages(const std::string& input, const std::string& output,
                                     v1::ImageFormat format) {
  if (input == kStandardStream || IsUrl(input)) return PlanFile(input, output, format);
  std::error_code error;
  const fs::file_status status = fs::status(input, error);
  if (!fs::exists(status)) {
    return absl::ErrnoToStatus(error ? error.value() : ENOENT, absl::StrCat("cannot read ", input));
  }
  return fs::is_directory(status) ? PlanFolder(input, output, format)
                                  : PlanFile(input, output, format);
}

}  // namespace upscaled::client
