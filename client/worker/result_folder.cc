#include "client/worker/result_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

constexpr char kErrors[] = "errors", kWarnings[] = "warnings";
constexpr std::chrono::hours kStaleAge{24};

// As FileSink names them.
bool IsUnfinished(const fs::path& path) {
  const std::string name = path.filename();
  return absl::StartsWith(name, ".upscale-") && absl::EndsWith(name, ".part");
}

void RemoveStale(const fs::path& folder) {
  const auto oldest = fs::file_time_type::clock::now() - kStaleAge;
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;  // another worker may be at it
    if (IsUnfinished(*entry) && entry->last_write_time(gone) < oldest && !gone) {
      stale.push_back(*entry);
    }
  }
  for (const fs::path& path : stale) fs::remove(path, error);
}

absl::Status WriteNote(const fs::path& path, const std::string& text) {
  ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(path));
  RETURN_IF_ERROR(sink.Write(text));
  RETURN_IF_ERROR(sink.Write("\n"));
  return sink.Commit();
}

class FolderDraft final : public ResultDraft {
 public:
  FolderDraft(const ResultFolder& folder, FileSink file)
      : folder_(folder), file_(std::move(file)) {}

  absl::Status Write(absl::string_view bytes) override { return file_.Write(bytes); }
  absl::Status Restart() override { return file_.Restart(); }
  absl::StatusOr<UniqueFd> Commit(const std::string& name, std::stop_token stop) override {
    file_.Rename(name);
    RETURN_IF_ERROR(file_.Commit());
    return folder_.Open(name, std::move(stop));
  }

 private:
  const ResultFolder& folder_;
  FileSink file_;
};

}  // namespace

absl::StatusOr<ResultFolder> ResultFolder::Open(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder.native()));
  }
  // An operator with another mode wants it so.
  const fs::path errors = folder / kErrors;
  const int why = mkdir(errors.c_str(), S_IRWXU) == 0 ? 0 : errno;
  if (why != 0 && !fs::is_directory(errors, error)) {
    return absl::ErrnoToStatus(why, absl::StrCat("cannot make ", errors.native()));
  }
  RemoveStale(folder);
  return ResultFolder(folder);
}

absl::StatusOr<bool> ResultFolder::Has(const std::string& name, std::stop_token) const {
  std::error_code ignored;
  return fs::is_regular_file(folder_ / name, ignored);
}

absl::StatusOr<UniqueFd> ResultFolder::Open(const std::string& name, std::stop_token) const {
  const fs::path path = folder_ / name;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path.native()));
  return fd;
}

absl::StatusOr<std::unique_ptr<ResultDraft>> ResultFolder::Create() const {
  ASSIGN_OR_RETURN(FileSink file, FileSink::Create(folder_ / "result"));
  return std::make_unique<FolderDraft>(*this, std::move(file));
}

absl::Status ResultFolder::WriteError(const std::string& job, const std::string& json,
                                      std::stop_token) const {
  return WriteNote(folder_ / kErrors / (job + ".json"), json);
}

absl::Status ResultFolder::WriteWarnings(const std::string& name, const std::string& json,
                                         std::stop_token) const {
  const fs::path folder = folder_ / kWarnings;
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder.native()));
  }
  return WriteNote(folder / (name + ".json"), json);
}

absl::StatusOr<std::string> ResultFolder::ReadWarnings(const std::string& name,
                                                       std::stop_token) const {
  std::ifstream file(folder_ / kWarnings / (name + ".json"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace upscaled::client
