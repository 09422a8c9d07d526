#include "server/handlers/model_intake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/as_bytes.h"
#include "engine/base/status_macros.h"
#include "engine/model/bare_models.h"
#include "engine/model/limits.h"
#include "engine/model/loader.h"
#include "engine/model/quote.h"
#include "engine/model/text.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

using std::filesystem::path;

constexpr mode_t kMode = 0644;  // as other models' files

absl::Status InvalidModel(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption, message);
}

absl::Status DiskError(const char* what) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT;
  return MakeError(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition,
      ErrorReason::kInvalidOption,
      absl::StrCat("cannot ", what,
                   " in the model repository: ", std::generic_category().message(error)));
}

absl::Status CheckFile(const char* prefix, int64_t size_bytes, const std::string& sha256) {
  if (!sha256.empty() && !IsHexDigest(absl::AsciiStrToLower(sha256))) {
    return InvalidModel(
        absl::StrCat(prefix, "sha256 is ", Quote(sha256), ", must be 64 hexadecimal digits"));
  }
  if (size_bytes < 1 || size_bytes > int64_t{kMaxTensorFileBytes}) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                     absl::StrCat(prefix, "size_bytes is ", size_bytes, ", must be in 1..",
                                  kMaxTensorFileBytes));
  }
  return absl::OkStatus();
}

bool HasBin(const upscale::v1::AddModelStart& start) {
  return start.bin_size_bytes() != 0 || !start.bin_sha256().empty();
}

absl::Status CheckStart(const upscale::v1::AddModelStart& start) {
  const path name(start.file_name());
  if (name.empty() || name != name.filename() || start.file_name().starts_with('.') ||
      !IsText(start.file_name()) || !IsBareModel(name)) {
    return InvalidModel(
        absl::StrCat("file_name is ", Quote(start.file_name()),
                     ", must be the plain name of a .pth, .pt, .ckpt, .safetensors, .onnx or "
                     ".param file"));
  }
  RETURN_IF_ERROR(CheckFile("", start.size_bytes(), start.sha256()));
  const bool pair = ExtensionOf(name) == ".param";
  if (pair != HasBin(start)) {
    return InvalidModel(pair ? "a .param needs its .bin: bin_size_bytes is 0"
                             : absl::StrCat("only a .param has a .bin, and file_name is ",
                                            Quote(start.file_name())));
  }
  return pair ? CheckFile("bin_", start.bin_size_bytes(), start.bin_sha256()) : absl::OkStatus();
}

}  // namespace

IncomingFile::IncomingFile(Announced announced, path placed, path hidden, UniqueFd fd)
    : announced_(std::move(announced)),
      placed_(std::move(placed)),
      hidden_(std::move(hidden)),
      fd_(std::move(fd)) {}

IncomingFile::IncomingFile(IncomingFile&& other) noexcept
    : announced_(std::move(other.announced_)),
      placed_(std::move(other.placed_)),
      hidden_(std::exchange(other.hidden_, {})),
      fd_(std::move(other.fd_)),
      written_(other.written_),
      hash_(std::move(other.hash_)),
      sha256_(std::move(other.sha256_)) {}

IncomingFile::~IncomingFile() {
  if (!hidden_.empty()) unlink(hidden_.c_str());
}

absl::Status IncomingFile::Write(std::string_view bytes) {
  written_ += static_cast<int64_t>(bytes.size());
  hash_.Update(AsBytes(bytes));
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskError("write a file");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status IncomingFile::Finish() {
  if (missing_bytes() != 0) {
    return InvalidModel(
        absl::StrCat(written_, " bytes came, ", announced_.size_bytes, " were announced"));
  }
  sha256_ = ToHex(hash_.Finish());
  if (!announced_.sha256.empty() && sha256_ != announced_.sha256) {
    return InvalidModel(
        absl::StrCat("the file's SHA-256 is ", sha256_, ", must be ", announced_.sha256));
  }
  if (fchmod(fd_.get(), kMode) != 0 || fsync(fd_.get()) != 0) return DiskError("write a file");
  return absl::OkStatus();
}

absl::Status IncomingFile::Place() {
  // Unlike rename it replaces nothing.
  if (link(hidden_.c_str(), placed_.c_str()) == 0) {
    // At once: it changes the file's state, and listings note it.
    unlink(std::exchange(hidden_, {}).c_str());
    return absl::OkStatus();
  }
  if (errno != EEXIST) return DiskError("place a file");
  return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kInvalidOption,
                   absl::StrCat("there is a file ", Quote(placed_.filename().string()),
                                " in the model repository"));
}

void IncomingFile::Withdraw() { unlink(placed_.c_str()); }

absl::StatusOr<ModelIntake> ModelIntake::Open(const path& folder,
                                              const upscale::v1::AddModelStart& start) {
  RETURN_IF_ERROR(CheckStart(start));
  std::string hidden = (folder / ".adding-XXXXXX").string();
  UniqueFd fd(mkostemp(hidden.data(), O_CLOEXEC));
  if (!fd.valid()) return DiskError("create a file");
  const path placed = folder / start.file_name();
  std::vector<IncomingFile> files;
  files.emplace_back(
      IncomingFile::Announced{start.size_bytes(), absl::AsciiStrToLower(start.sha256())}, placed,
      hidden, std::move(fd));
  if (!HasBin(start)) return ModelIntake(std::move(files));
  const path bin = BinOf(hidden);
  UniqueFd bin_fd(open(bin.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!bin_fd.valid()) return DiskError("create a file");
  files.emplace_back(
      IncomingFile::Announced{start.bin_size_bytes(), absl::AsciiStrToLower(start.bin_sha256())},
      BinOf(placed), bin, std::move(bin_fd));
  return ModelIntake(std::move(files));
}

absl::Status ModelIntake::Write(std::string_view bytes) {
  int64_t announced_bytes = 0;
  for (IncomingFile& file : files_) {
    announced_bytes += file.size_bytes();
    const auto count =
        std::min(bytes.size(), static_cast<size_t>(std::max<int64_t>(file.missing_bytes(), 0)));
    RETURN_IF_ERROR(file.Write(bytes.substr(0, count)));
    bytes.remove_prefix(count);
  }
  if (bytes.empty()) return absl::OkStatus();
  return InvalidModel(
      absl::StrCat("more than the ", announced_bytes, " bytes came that were announced"));
}

absl::Status ModelIntake::Finish() {
  for (IncomingFile& file : files_) RETURN_IF_ERROR(file.Finish());
  return absl::OkStatus();
}

void ModelIntake::Describe(upscale::v1::AddModelResponse& response) const {
  response.set_sha256(files_.front().sha256());
  if (files_.size() > 1) response.set_bin_sha256(files_.back().sha256());
}

absl::Status ModelIntake::Place() {
  // The last one first: a .param without its .bin would be no model.
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    const absl::Status placed = file->Place();
    if (placed.ok()) continue;
    while (file != files_.rbegin()) (--file)->Withdraw();
    return placed;
  }
  return absl::OkStatus();
}

void ModelIntake::Withdraw() {
  for (IncomingFile& file : files_) file.Withdraw();
}

}  // namespace upscaled::server
