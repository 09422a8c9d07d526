#include "server/jobs/job_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

namespace fs = std::filesystem;

// Workers of another user in the server's group may read sources and leave results, if the umask
// lets them.
constexpr mode_t kFolderMode = S_IRWXU | S_IRWXG;
constexpr mode_t kSourceMode = S_IRUSR | S_IWUSR | S_IRGRP;
constexpr char kHidden[] = ".new-";
constexpr char kTenant[] = "tenant", kSource[] = "source";
constexpr size_t kMaxTenantBytes = 4096;

absl::Status Trouble(int error, std::string_view what, const fs::path& path) {
  return absl::UnavailableError(absl::StrCat(std::string(what), " ", path.native(), ": ",
                                             std::generic_category().message(error)));
}

// Makes the entries of a folder outlast a power failure.
absl::Status SyncFolder(const fs::path& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid() && fsync(fd.get()) == 0) return absl::OkStatus();
  return Trouble(errno, "cannot write to", folder);
}

// False: there is no such file.
bool ReadStat(const fs::path& path, struct stat& info) { return lstat(path.c_str(), &info) == 0; }

void Note(const struct stat& info, StoredJob& job) {
  if (S_ISREG(info.st_mode)) job.bytes += info.st_size;
  job.changed = std::max(job.changed, absl::TimeFromTimespec(info.st_mtim));
}

// Nullopt: another program wrote it, or it cannot be read now. An orphan is known by its name, the
// name of a job.
std::optional<StoredJob> ReadJob(const fs::path& folder) {
  const std::string name = folder.filename();
  const absl::StatusOr<std::string> tenant = ReadFile(folder / kTenant, kMaxTenantBytes);
  const bool whole = !name.starts_with(kHidden);
  const bool orphan = whole && absl::IsNotFound(tenant.status()) && IsUuid(name);
  if (whole && !tenant.ok() && !orphan) return std::nullopt;
  StoredJob job{.id = whole ? name : name.substr(sizeof kHidden - 1),
                .tenant = tenant.value_or(""),
                .changed = absl::InfinitePast(),
                .whole = whole,
                .orphan = orphan};
  struct stat info {};
  if (ReadStat(folder, info)) Note(info, job);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!ReadStat(*entry, info)) continue;
    Note(info, job);
    job.source = job.source || entry->path().filename() == kSource;
  }
  if (error) return std::nullopt;  // whether its source is there is not known
  return job;
}

}  // namespace

JobStore::Arrival::~Arrival() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(hidden_, ignored);
}

absl::Status JobStore::Arrival::Write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(source_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Trouble(errno, "cannot write to", hidden_);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status JobStore::Arrival::Keep() {
  if (fsync(source_.get()) != 0) return Trouble(errno, "cannot write to", hidden_);
  RETURN_IF_ERROR(SyncFolder(hidden_));
  if (rename(hidden_.c_str(), folder_.c_str()) != 0) {
    return Trouble(errno, "cannot make", folder_);
  }
  kept_ = true;
  return SyncFolder(folder_.parent_path());
}

absl::StatusOr<JobStore> JobStore::Open(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Trouble(error.value(), "cannot make", folder);
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return Trouble(errno, "cannot write to", folder);
  }
  return JobStore(folder);
}

absl::StatusOr<std::unique_ptr<JobStore::Arrival>> JobStore::Receive(
    const std::string& id, const std::string& tenant) const {
  const fs::path hidden = folder_ / absl::StrCat(kHidden, id);
  if (mkdir(hidden.c_str(), kFolderMode) != 0) return Trouble(errno, "cannot make", hidden);
  // From now on every failure removes it.
  std::unique_ptr<Arrival> arrival(new Arrival(hidden, folder_ / id, UniqueFd()));
  RETURN_IF_ERROR(ReplaceFile(hidden / kTenant, {tenant}, {.sync = true}));
  const fs::path source = hidden / kSource;
  arrival->source_ =
      UniqueFd(open(source.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kSourceMode));
  if (!arrival->source_.valid()) return Trouble(errno, "cannot make", source);
  return arrival;
}

bool JobStore::Has(const std::string& id, const std::string& tenant) const {
  const absl::StatusOr<std::string> owner = ReadFile(folder_ / id / kTenant, kMaxTenantBytes);
  return owner.ok() && *owner == tenant;
}

void JobStore::RemoveSource(const std::string& id) const {
  std::error_code ignored;
  fs::remove(Source(id), ignored);
}

void JobStore::RemoveResult(const std::string& id) const {
  std::error_code ignored;
  fs::remove(Result(id), ignored);
}

void JobStore::Remove(const StoredJob& job) const {
  std::error_code ignored;
  fs::remove_all(folder_ / absl::StrCat(job.whole ? "" : kHidden, job.id), ignored);
}

std::vector<StoredJob> JobStore::List() const {
  std::vector<StoredJob> jobs;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_directory(gone)) continue;
    if (std::optional<StoredJob> job = ReadJob(*entry)) jobs.push_back(*std::move(job));
  }
  return jobs;
}

}  // namespace upscaled::server
