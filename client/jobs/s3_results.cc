#include "client/jobs/s3_results.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/jobs/url_file.h"
#include "client/random_uuid.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr int64_t kMaxResultBytes = int64_t{1} << 40;  // S3's own limit is less

// A file of Create's, whole, without its name.
absl::StatusOr<UniqueFd> Unnamed(FileSink& file) {
  const std::string path = file.path();
  RETURN_IF_ERROR(file.Commit());
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const int error = errno;
  unlink(path.c_str());
  if (!fd.valid()) return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
  return fd;
}

}  // namespace

absl::StatusOr<bool> S3Results::Has(const std::string& name, std::stop_token stop) const {
  const absl::Status found = Head(UrlOf(name), access_, std::move(stop));
  if (absl::IsNotFound(found)) return false;
  RETURN_IF_ERROR(found);
  return true;
}

absl::StatusOr<UniqueFd> S3Results::Open(const std::string& name, std::stop_token stop) const {
  return Download(UrlOf(name), kMaxResultBytes, access_, std::move(stop));
}

absl::StatusOr<FileSink> S3Results::Create() const {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return absl::ErrnoToStatus(error.value(), "there is no folder for temporary files");
  return FileSink::Create(folder / ("upscale-" + RandomUuid()));
}

absl::StatusOr<UniqueFd> S3Results::Commit(FileSink& file, const std::string& name,
                                           std::stop_token stop) const {
  ASSIGN_OR_RETURN(UniqueFd whole, Unnamed(file));
  RETURN_IF_ERROR(Upload(UrlOf(name), whole.get(), MediaTypeOf(name), access_, std::move(stop)));
  return whole;
}

absl::Status S3Results::WriteError(const std::string& job, const std::string& json,
                                   std::stop_token stop) const {
  ASSIGN_OR_RETURN(FileSink file, Create());
  RETURN_IF_ERROR(file.Write(json + "\n"));
  ASSIGN_OR_RETURN(const UniqueFd whole, Unnamed(file));
  return Upload(UrlOf(absl::StrCat("errors/", job, ".json")), whole.get(), "application/json",
                access_, std::move(stop));
}

}  // namespace upscaled::client
