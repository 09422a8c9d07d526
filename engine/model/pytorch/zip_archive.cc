#include "engine/model/pytorch/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

constexpr std::string_view kEntryMagic("PK\1\2");
constexpr std::string_view kEndMagic("PK\5\6");
constexpr size_t kEndBytes = 22;
constexpr size_t kMaxCommentBytes = 65535;  // behind the end; no file of weights has one
constexpr size_t kMaxEnds = 4;              // several happen by chance, in the weights

size_t CountUpTo(std::string_view bytes, std::string_view word, size_t most) {
  size_t count = 0, at = 0;
  while (count < most && (at = bytes.find(word, at)) != bytes.npos) {
    ++count;
    at += word.size();
  }
  return count;
}

// libzip tries each end of a directory it finds, and takes memory for every entry in it.
absl::Status CheckDirectory(std::string_view bytes) {
  const size_t tail = std::min(bytes.size(), kEndBytes + kMaxCommentBytes);
  const size_t ends = CountUpTo(bytes.substr(bytes.size() - tail), kEndMagic, kMaxEnds + 1);
  if (ends < 1 || ends > kMaxEnds) {
    return absl::InvalidArgumentError(absl::StrCat("is no zip file, or cut short: it has ",
                                                   ends == 0 ? "no end" : "too many ends",
                                                   " of a directory"));
  }
  if (CountUpTo(bytes, kEntryMagic, kMaxZipEntries + 1) <= kMaxZipEntries) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("has more than ", kMaxZipEntries, " entries, the limit"));
}

absl::Status CheckEntry(const zip_stat_t& entry, uint64_t archive_bytes) {
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((entry.valid & kNeeded) != kNeeded) {
    return absl::InvalidArgumentError("has an entry without name or size");
  }
  const char* wrong = entry.encryption_method != ZIP_EM_NONE ? "is encrypted"
                      : entry.comp_method != ZIP_CM_STORE
                          ? "is compressed, which torch.save does not do"
                      : entry.size != entry.comp_size ? "has two sizes"
                      : entry.size > archive_bytes    ? "is larger than the file"
                                                      : nullptr;
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("entry ", Quote(entry.name), " ", wrong));
}

}  // namespace

void ZipArchive::Close::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<ZipArchive> ZipArchive::Open(std::string_view bytes) {
  RETURN_IF_ERROR(CheckDirectory(bytes));
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* const opened = source == nullptr
                            ? nullptr
                            : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (opened == nullptr) {
    const std::string message = zip_error_strerror(&error);
    if (source != nullptr) zip_source_free(source);
    zip_error_fini(&error);
    return absl::InvalidArgumentError(absl::StrCat("is no sound zip file: ", message));
  }
  zip_error_fini(&error);
  ZipArchive archive(opened);
  RETURN_IF_ERROR(archive.List(bytes.size()));
  return archive;
}

absl::Status ZipArchive::List(uint64_t archive_bytes) {
  uint64_t total = 0;
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t entry;
    zip_stat_init(&entry);
    if (zip_stat_index(archive_.get(), i, ZIP_FL_ENC_RAW, &entry) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("entry ", i, " cannot be read"));
    }
    RETURN_IF_ERROR(CheckEntry(entry, archive_bytes));
    entries_.emplace(entry.name, Entry{static_cast<uint64_t>(i), entry.size});
    total += entry.size;  // of at most kMaxZipEntries that are no larger than the file
  }
  if (total <= archive_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("entries overlap: they have ", total, " bytes in a file of ", archive_bytes));
}

absl::StatusOr<std::string> ZipArchive::Read(const Entry& entry) const {
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(archive_.get(), entry.index, 0), zip_fclose);
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("an entry cannot be opened: ", zip_strerror(archive_.get())));
  }
  std::string bytes(entry.bytes, '\0');
  char behind = 0;  // the checksum is compared where the entry ends
  const bool whole =
      zip_fread(file.get(), bytes.data(), bytes.size()) == static_cast<zip_int64_t>(bytes.size()) &&
      zip_fread(file.get(), &behind, 1) == 0;
  if (whole) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("an entry cannot be read: ", zip_file_strerror(file.get())));
}

}  // namespace upscaled::pytorch
