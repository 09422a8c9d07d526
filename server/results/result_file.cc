#include "server/results/result_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

constexpr size_t kDigestBufferBytes = size_t{256} << 10;

absl::Status FileError(const char* what, const std::filesystem::path& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path.string(), ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<size_t> ReadFileAt(int file, int64_t offset, std::span<uint8_t> dst) {
  ssize_t count = 0;
  do {
    count = pread(file, dst.data(), dst.size(), offset);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return static_cast<size_t>(count);
  return absl::UnavailableError(absl::StrCat("cannot read a result: ", std::strerror(errno)));
}

absl::StatusOr<ResultFile> ResultFile::Open(const std::filesystem::path& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!file.valid() && (errno == ENOENT || errno == ELOOP)) {
    return absl::NotFoundError(FileError("open", path).message());
  }
  if (!file.valid() || fstat(file.get(), &info) != 0) return FileError("open", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(absl::StrCat(path.string(), " is not a regular file"));
  }
  return ResultFile(std::move(file), info.st_size);
}

absl::StatusOr<size_t> ResultFile::ReadAt(int64_t offset, std::span<uint8_t> dst) const {
  return ReadFileAt(file_.get(), offset, dst);
}

absl::StatusOr<Digest> ResultFile::ReadDigest() const {
  Sha256 hash;
  std::vector<uint8_t> buffer(kDigestBufferBytes);
  for (int64_t offset = 0;;) {
    ASSIGN_OR_RETURN(const size_t count, ReadAt(offset, buffer));
    if (count == 0) return hash.Finish();
    hash.Update(std::span(buffer).first(count));
    offset += static_cast<int64_t>(count);
  }
}

absl::StatusOr<std::unique_ptr<PartialFile>> PartialFile::Create(
    const std::filesystem::path& folder) {
  std::string path = (folder / "XXXXXX").string();
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return FileError("create a file in", folder);
  return std::unique_ptr<PartialFile>(
      new PartialFile(std::make_shared<const UniqueFd>(file), std::move(path)));
}

PartialFile::~PartialFile() {
  if (!renamed_) unlink(path_.c_str());
}

absl::Status PartialFile::Append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file_->get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return FileError("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
    bytes_ += count;
  }
  return absl::OkStatus();
}

absl::Status PartialFile::RenameTo(const std::filesystem::path& path) {
  if (rename(path_.c_str(), path.c_str()) != 0) return FileError("rename a file to", path);
  renamed_ = true;
  return absl::OkStatus();
}

}  // namespace upscaled::server
