#include "client/jobs/result_folder.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr char kErrors[] = "errors";

}  // namespace

absl::StatusOr<ResultFolder> ResultFolder::Open(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder / kErrors, error);
  if (!error) return ResultFolder(folder);
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder.native()));
}

bool ResultFolder::Has(const std::string& name) const {
  std::error_code ignored;
  return std::filesystem::is_regular_file(PathOf(name), ignored);
}

absl::StatusOr<FileSink> ResultFolder::Create(const std::string& name) const {
  return FileSink::Create(PathOf(name));
}

absl::Status ResultFolder::WriteError(const std::string& job, const std::string& json) const {
  ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(folder_ / kErrors / (job + ".json")));
  RETURN_IF_ERROR(sink.Write(json));
  RETURN_IF_ERROR(sink.Write("\n"));
  return sink.Commit();
}

}  // namespace upscaled::client
