#include "client/cli/image_plan.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/find_images.h"
#include "client/cli/flags.h"
#include "client/worker/result_names.h"
#include "engine/base/status_macros.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

absl::Status SameError(absl::string_view path) {
  return absl::InvalidArgumentError(absl::StrCat("input and output are the same: ", path));
}

// "cat.jpg" of "pets/cat.jpg" and of "https://host/pets/cat.jpg?size=9"; empty without a name. Keys
// of S3 have no query.
fs::path FileNameOf(const std::string& input) {
  if (input == kStandardStream) return {};
  if (!server::IsUrl(input)) return fs::path(input).filename();
  const size_t end = server::IsS3Url(input) ? std::string::npos : input.find_first_of("?#");
  const std::string url = input.substr(0, end);
  const size_t path = url.find('/', url.find("://") + 3);
  return path == std::string::npos ? fs::path() : fs::path(url.substr(path)).filename();
}

// `path` with the extension of `format`, unless it has one of the format.
fs::path Renamed(fs::path path, v1::ImageFormat format) {
  if (format == v1::IMAGE_FORMAT_UNSPECIFIED || FormatOfPath(path) == format) return path;
  return path.replace_extension(ExtensionOf(format));
}

// Whether images go into it; a slash marks one yet to be made.
bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return absl::EndsWith(path, "/") || fs::is_directory(path, ignored);
}

ImageJob MakeJob(const std::string& input, const std::string& output, v1::ImageFormat format) {
  return {input, output, format == v1::IMAGE_FORMAT_UNSPECIFIED ? FormatOfPath(output) : format};
}

// "12 files of it are left out, the first of them in/a.gif: GIF, which is not read".
absl::Status NoImages(const fs::path& folder, const std::vector<LeftOut>& left_out) {
  std::string message =
      absl::StrCat("no images (.png, .jpg, .jpeg, .webp, ...) found in ", folder.native());
  if (!left_out.empty()) {
    absl::StrAppend(&message, "; left out: ", left_out.size(), ", the first of them ",
                    left_out.front().path, ": ", left_out.front().reason);
  }
  return absl::NotFoundError(message);
}

// The format for an image's name; UNSPECIFIED: the name stays as it is.
v1::ImageFormat FormatToName(const FoundImage& image, v1::ImageFormat format) {
  if (format != v1::IMAGE_FORMAT_UNSPECIFIED) return format;
  const bool tells = FormatOfPath(image.path) != v1::IMAGE_FORMAT_UNSPECIFIED;
  return tells ? v1::IMAGE_FORMAT_UNSPECIFIED : image.format;
}

absl::StatusOr<ImagePlan> PlanFolder(const fs::path& input, const fs::path& output,
                                     v1::ImageFormat format) {
  std::error_code ignored;
  if (output == kStandardStream || (fs::exists(output, ignored) && !fs::is_directory(output))) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input.native(), " is a folder, so the output must be one too"));
  }
  if (IsSamePlace(input, output)) return SameError(input.native());
  ASSIGN_OR_RETURN(FoundImages found, FindImages(input, output));
  if (found.images.empty()) return NoImages(input, found.left_out);

  std::map<fs::path, int> uses;
  for (const FoundImage& image : found.images) {
    ++uses[Renamed(image.path, FormatToName(image, format))];
  }
  ImagePlan plan{.left_out = std::move(found.left_out), .is_folder = true};
  for (const FoundImage& image : found.images) {
    const v1::ImageFormat named = FormatToName(image, format);
    fs::path name = Renamed(image.path, named);
    if (uses[name] > 1 && named != v1::IMAGE_FORMAT_UNSPECIFIED) {
      name = image.path.native() + ExtensionOf(named);
    }
    plan.jobs.push_back(MakeJob(input / image.path, output / name, format));
  }
  return plan;
}

// Whether only its matches can be meant.
bool IsPattern(const std::string& input) {
  std::error_code ignored;
  return input.find_first_of("*?[") != std::string::npos && !server::IsUrl(input) &&
         !fs::exists(fs::symlink_status(input, ignored));
}

absl::Status AppendMatches(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t found{};
  const absl::Cleanup free = [&found] { globfree(&found); };
  const auto stop_at_error = [](const char*, int) { return 1; };
  const int result = glob(pattern.c_str(), 0, stop_at_error, &found);
  if (result == GLOB_NOMATCH) {
    return absl::NotFoundError(absl::StrCat("no file matches ", pattern));
  }
  if (result != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot list ", pattern));
  paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  return absl::OkStatus();
}

// Returns a warning if a file's name tells another format than it gets, otherwise "".
std::string WarnOfName(const ImageJob& job) {
  const v1::ImageFormat named = FormatOfPath(job.output);
  if (named == v1::IMAGE_FORMAT_UNSPECIFIED || named == job.format) return "";
  return absl::StrCat(job.output, " is written as ", FormatName(job.format),
                      ", as -f says, although it is named ",
                      fs::path(job.output).extension().native());
}

// Names the image of a pipe or a URL, which cannot be looked at beforehand.
absl::StatusOr<fs::path> NameInFolder(const std::string& input, const std::string& output,
                                      v1::ImageFormat format) {
  const fs::path name = FileNameOf(input);
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", output, " is a folder, and ",
                     input == kStandardStream ? "standard input" : input, " has no name"));
  }
  return Renamed(fs::path(output) / name, format);
}

absl::StatusOr<ImagePlan> PlanFile(const std::string& input, const std::string& output,
                                   v1::ImageFormat format) {
  fs::path target = output;
  if (output != kStandardStream && IsFolder(output)) {
    ASSIGN_OR_RETURN(target, NameInFolder(input, output, format));
  }
  if (IsSamePlace(input, target)) return SameError(input);
  const ImageJob job = MakeJob(input, target, format);
  if (job.format == v1::IMAGE_FORMAT_UNSPECIFIED && target.has_extension()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output ", target.native(),
        " is not named .png, .jpg, .webp, .avif, .jxl or .tif; say with -f what to write"));
  }
  return ImagePlan{.jobs = {job}, .warning = WarnOfName(job)};
}

// As a folder's files go into it: the content tells what an image is.
absl::StatusOr<ImagePlan> PlanIntoFolder(const std::string& input, const std::string& output,
                                         v1::ImageFormat format) {
  FoundImages found = FindImage(input);
  ImagePlan plan{.left_out = std::move(found.left_out)};
  if (found.images.empty()) return plan;
  const v1::ImageFormat named = FormatToName(found.images[0], format);
  const fs::path target = Renamed(fs::path(output) / FileNameOf(input), named);
  if (IsSamePlace(input, target)) return SameError(input);
  plan.jobs.push_back(MakeJob(input, target, format));
  return plan;
}

bool GoesIntoFolder(const std::string& output) {
  return output != kStandardStream && !server::IsUrl(output) && IsFolder(output);
}

absl::Status NotReadable(const std::string& input, const std::error_code& error) {
  return absl::ErrnoToStatus(error ? error.value() : ENOENT, absl::StrCat("cannot read ", input));
}

// Plans an input among several: a missing one becomes a failed file.
absl::StatusOr<ImagePlan> PlanOneOfSeveral(const std::string& input, const std::string& output,
                                           v1::ImageFormat format) {
  if (input == kStandardStream || server::IsUrl(input)) return PlanFile(input, output, format);
  std::error_code error;
  const fs::file_status status = fs::status(input, error);
  if (!fs::exists(status)) {
    const absl::Status missing = NotReadable(input, error);
    return ImagePlan{.left_out = {{input, std::string(missing.message()), missing}}};
  }
  if (fs::is_directory(status)) return PlanFolder(input, output, format);
  return fs::is_regular_file(status) ? PlanIntoFolder(input, output, format)
                                     : PlanFile(input, output, format);
}

// NOT_FOUND with the reason of the first file that is left out, if no image is left.
absl::Status CheckSome(const ImagePlan& plan) {
  if (!plan.jobs.empty() || plan.left_out.empty()) return absl::OkStatus();
  const LeftOut& first = plan.left_out.front();
  if (!first.error.ok()) return first.error;
  return absl::NotFoundError(
      absl::StrCat("no image to upscale: ", first.path, " is left out: ", first.reason));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandPatterns(const std::vector<std::string>& inputs) {
  std::vector<std::string> paths;
  for (const std::string& input : inputs) {
    if (IsPattern(input)) {
      RETURN_IF_ERROR(AppendMatches(input, paths));
    } else {
      paths.push_back(input);
    }
  }
  return paths;
}

absl::StatusOr<ImagePlan> PlanImages(const std::string& input, const std::string& output,
                                     v1::ImageFormat format) {
  if (input == kStandardStream || server::IsUrl(input)) return PlanFile(input, output, format);
  std::error_code error;
  const fs::file_status status = fs::status(input, error);
  if (!fs::exists(status)) return NotReadable(input, error);
  if (fs::is_directory(status)) return PlanFolder(input, output, format);
  if (!fs::is_regular_file(status) || !GoesIntoFolder(output))
    return PlanFile(input, output, format);
  ASSIGN_OR_RETURN(ImagePlan plan, PlanIntoFolder(input, output, format));
  RETURN_IF_ERROR(CheckSome(plan));
  return plan;
}

absl::Status CheckDistinct(const std::vector<ImageJob>& jobs) {
  std::map<std::string, std::string> input_of;  // by the result
  for (const ImageJob& job : jobs) {
    const auto [other, is_new] = input_of.emplace(job.output, job.input);
    if (is_new) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(other->second, " and ", job.input, " would both become ", job.output));
  }
  return absl::OkStatus();
}

absl::StatusOr<ImagePlan> PlanInputs(const std::vector<std::string>& given,
                                     const std::string& output, v1::ImageFormat format) {
  ASSIGN_OR_RETURN(const std::vector<std::string> inputs, ExpandPatterns(given));
  if (inputs.size() == 1) {
    ASSIGN_OR_RETURN(ImagePlan plan, PlanImages(inputs[0], output, format));
    RETURN_IF_ERROR(CheckDistinct(plan.jobs));
    return plan;
  }
  if (output == kStandardStream || !IsFolder(output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", inputs.size(), " inputs, so the output must be a folder, and ",
                     output, " is none; end its name with a slash to make one"));
  }
  ImagePlan plan{.is_folder = true};
  for (const std::string& input : inputs) {
    ASSIGN_OR_RETURN(ImagePlan part, PlanOneOfSeveral(input, output, format));
    std::ranges::move(part.jobs, std::back_inserter(plan.jobs));
    std::ranges::move(part.left_out, std::back_inserter(plan.left_out));
    if (plan.warning.empty()) plan.warning = std::move(part.warning);
  }
  RETURN_IF_ERROR(CheckSome(plan));
  RETURN_IF_ERROR(CheckDistinct(plan.jobs));
  return plan;
}

}  // namespace upscaled::client
