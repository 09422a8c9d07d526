#include "server/handlers/model_intake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/model/known_layouts.h"
#include "engine/model/limits.h"
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

absl::Status CheckStart(const upscale::v1::AddModelStart& start) {
  const path name(start.file_name());
  if (name.empty() || name != name.filename() || start.file_name().starts_with('.') ||
      !IsText(start.file_name()) || !IsBareModel(name)) {
    return InvalidModel(
        absl::StrCat("file_name is ", Quote(start.file_name()),
                     ", must be the plain name of a .pth, .pt, .ckpt, .safetensors or "
                     ".onnx file"));
  }
  if (!start.sha256().empty() && !IsHexDigest(absl::AsciiStrToLower(start.sha256()))) {
    return InvalidModel(
        absl::StrCat("sha256 is ", Quote(start.sha256()), ", must be 64 hexadecimal digits"));
  }
  if (start.size_bytes() < 1 || start.size_bytes() > int64_t{kMaxTensorFileBytes}) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                     absl::StrCat("size_bytes is ", start.size_bytes(), ", must be in 1..",
                                  kMaxTensorFileBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelIntake> ModelIntake::Open(const path& folder,
                                              const upscale::v1::AddModelStart& start) {
  if (absl::Status status = CheckStart(start); !status.ok()) return status;
  std::string hidden = (folder / ".adding-XXXXXX").string();
  UniqueFd fd(mkostemp(hidden.data(), O_CLOEXEC));
  if (!fd.valid()) return DiskError("create a file");
  return ModelIntake(start, folder / start.file_name(), hidden, std::move(fd));
}

ModelIntake::ModelIntake(const upscale::v1::AddModelStart& start, path placed, path hidden,
                         UniqueFd fd)
    : size_bytes_(start.size_bytes()),
      pinned_(absl::AsciiStrToLower(start.sha256())),
      placed_(std::move(placed)),
      hidden_(std::move(hidden)),
      fd_(std::move(fd)) {}

ModelIntake::ModelIntake(ModelIntake&& other) noexcept
    : size_bytes_(other.size_bytes_),
      pinned_(std::move(other.pinned_)),
      placed_(std::exchange(other.placed_, {})),
      hidden_(std::exchange(other.hidden_, {})),
      fd_(std::move(other.fd_)),
      written_(other.written_),
      hash_(std::move(other.hash_)),
      sha256_(std::move(other.sha256_)) {}

ModelIntake::~ModelIntake() {
  if (!hidden_.empty()) unlink(hidden_.c_str());
}

absl::Status ModelIntake::Write(std::string_view bytes) {
  written_ += static_cast<int64_t>(bytes.size());
  if (written_ > size_bytes_) {
    return InvalidModel(
        absl::StrCat("more than the ", size_bytes_, " bytes came that were announced"));
  }
  hash_.Update({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskError("write a file");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status ModelIntake::Finish() {
  if (written_ != size_bytes_) {
    return InvalidModel(absl::StrCat(written_, " bytes came, ", size_bytes_, " were announced"));
  }
  sha256_ = ToHex(hash_.Finish());
  if (!pinned_.empty() && sha256_ != pinned_) {
    return InvalidModel(absl::StrCat("the file's SHA-256 is ", sha256_, ", must be ", pinned_));
  }
  if (fchmod(fd_.get(), kMode) != 0 || fsync(fd_.get()) != 0) return DiskError("write a file");
  return absl::OkStatus();
}

absl::Status ModelIntake::Place() {
  // Unlike rename it replaces nothing.
  if (link(hidden_.c_str(), placed_.c_str()) == 0) {
    // At once: it changes the file's state, which listings note.
    unlink(std::exchange(hidden_, {}).c_str());
    return absl::OkStatus();
  }
  if (errno != EEXIST) return DiskError("place a file");
  return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kInvalidOption,
                   absl::StrCat("there is a file ", Quote(placed_.filename().string()),
                                " in the model repository"));
}

void ModelIntake::Withdraw() { unlink(placed_.c_str()); }

}  // namespace upscaled::server
