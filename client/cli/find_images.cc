#include "client/cli/find_images.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "engine/base/file_kind.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

absl::string_view NameIn(std::string_view text) { return {text.data(), text.size()}; }

class Search {
 public:
  Search(const fs::path& root, const fs::path& excluded) : root_(root), excluded_(excluded) {}

  absl::Status List(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      entries.push_back(*entry);
    }
    if (error) {
      return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list ", folder.native()));
    }
    for (const fs::directory_entry& found : entries) LookAt(found);
    return absl::OkStatus();
  }

  void LookAtFile(const fs::path& path) {
    const bool named = FormatOfPath(path) != v1::IMAGE_FORMAT_UNSPECIFIED;
    std::array<uint8_t, kFileKindBytes> bytes;
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const ssize_t count = file.valid() ? read(file.get(), bytes.data(), bytes.size()) : -1;
    const int error = errno;
    const std::optional<FileKind> kind =
        count < 0 ? std::nullopt
                  : RecognizeFileKind(std::span(bytes).first(static_cast<size_t>(count)));
    if (kind.has_value() && kind->type == FileKind::Type::kReadImage) {
      const v1::ImageFormat format = ParseFormat(NameIn(kind->name));
      return Add(path, format == v1::IMAGE_FORMAT_UNSPECIFIED ? v1::IMAGE_FORMAT_PNG : format);
    }
    if (named) return Add(path, v1::IMAGE_FORMAT_UNSPECIFIED);  // the call says what is wrong
    if (count < 0) return Fail(path, absl::ErrnoToStatus(error, "cannot be read"));
    if (count == 0) return LeaveOut(path, "empty");
    if (!kind.has_value()) return LeaveOut(path, "no image");
    LeaveOut(path, absl::StrCat(NameIn(kind->name), ", which is not read"));
  }

  FoundImages Take() {
    std::ranges::sort(found_.images, {}, &FoundImage::path);
    std::ranges::sort(found_.left_out, {}, &LeftOut::path);
    return std::move(found_);
  }

 private:
  void LookAt(const fs::directory_entry& entry) {
    const fs::path& path = entry.path();
    std::error_code ignored;
    const bool folder = entry.is_directory(ignored);
    if (folder && IsSamePlace(path, excluded_)) return;
    if (absl::StartsWith(path.filename().native(), ".")) return LeaveOut(path, "hidden");
    if (folder) return LookInto(entry);
    if (entry.is_symlink(ignored) && !entry.exists(ignored)) {
      return LeaveOut(path, "a link to a file that is not there");
    }
    if (!entry.is_regular_file(ignored)) return LeaveOut(path, "not a file");
    LookAtFile(path);
  }

  void LookInto(const fs::directory_entry& folder) {
    std::error_code ignored;
    if (folder.is_symlink(ignored)) return LeaveOut(folder.path(), "a link to a folder");
    const absl::Status listed = List(folder.path());
    if (!listed.ok()) Fail(folder.path(), listed);
  }

  void Add(const fs::path& path, v1::ImageFormat format) {
    found_.images.push_back({path.lexically_relative(root_), format});
  }
  void LeaveOut(const fs::path& path, std::string reason) {
    found_.left_out.push_back({path, std::move(reason)});
  }
  void Fail(const fs::path& path, const absl::Status& error) {
    found_.left_out.push_back({path, std::string(error.message()), error});
  }

  const fs::path& root_;
  const fs::path& excluded_;
  FoundImages found_;
};

}  // namespace

absl::StatusOr<FoundImages> FindImages(const fs::path& root, const fs::path& excluded) {
  Search search(root, excluded);
  RETURN_IF_ERROR(search.List(root));
  return search.Take();
}

FoundImages FindImage(const fs::path& file) {
  const fs::path folder = file.parent_path();
  Search search(folder, folder);
  search.LookAtFile(file);
  return search.Take();
}

v1::ImageFormat FormatOfPath(const fs::path& path) {
  const std::string extension = path.extension();
  return extension.empty() ? v1::IMAGE_FORMAT_UNSPECIFIED : ParseFormat(extension.substr(1));
}

bool IsSamePlace(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

}  // namespace upscaled::client
