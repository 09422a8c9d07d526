#include "engine/model/pytorch/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

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
  const bool is_stored = entry.comp_method == ZIP_CM_STORE;
  const char* wrong = entry.encryption_method != ZIP_EM_NONE       ? "is encrypted"
                      : is_stored && entry.size != entry.comp_size ? "has two sizes"
                      : entry.comp_size > archive_bytes            ? "is larger than the file"
                                                                   : nullptr;
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("entry ", Quote(entry.name), " ", wrong));
}

// A program that torch.jit.save wrote: the sources of its modules.
bool IsOfTorchScript(std::string_view entry) {
  return entry.ends_with(".py") && entry.find("/code/") != entry.npos;
}

// UNIMPLEMENTED: other programs' archives. INVALID_ARGUMENT: a compressed entry.
absl::Status CheckWriter(std::span<const zip_stat_t> entries) {
  const auto any = [&](auto is) {
    return std::ranges::any_of(entries, [&](const zip_stat_t& entry) { return is(entry.name); });
  };
  if (any(IsOfTorchScript)) {
    return absl::UnimplementedError(
        "is a TorchScript program, which is not executed: load it with torch.jit.load, and save "
        "its state_dict with torch.save");
  }
  if (any([](std::string_view name) { return name.ends_with("data.pkl"); })) {
    const auto compressed = std::ranges::find_if(
        entries, [](const zip_stat_t& entry) { return entry.comp_method != ZIP_CM_STORE; });
    if (compressed == entries.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "entry ", Quote(compressed->name),
        " is compressed, which torch.save does not do: pack it again without compression"));
  }
  return absl::UnimplementedError(absl::StrCat(
      "is a zip file without 'data.pkl', so not of torch.save: it holds ",
      entries.empty()
          ? "nothing"
          : absl::StrCat(Quote(entries.front().name), "; unpack it if that is a model")));
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
  std::vector<zip_stat_t> entries(
      static_cast<size_t>(std::max<zip_int64_t>(zip_get_num_entries(archive_.get(), 0), 0)));
  for (size_t i = 0; i < entries.size(); ++i) {
    zip_stat_init(&entries[i]);
    if (zip_stat_index(archive_.get(), i, ZIP_FL_ENC_RAW, &entries[i]) != 0 ||
        (entries[i].valid & ZIP_STAT_NAME) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("entry ", i, " cannot be read"));
    }
  }
  uint64_t total = 0;
  for (const zip_stat_t& entry : entries) {
    RETURN_IF_ERROR(CheckEntry(entry, archive_bytes));
    entries_.emplace(entry.name, Entry{entry.index, entry.size});
    total += entry.comp_size;  // of at most kMaxZipEntries that are no larger than the file
  }
  if (total > archive_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("entries overlap: they have ", total, " bytes in a file of ", archive_bytes));
  }
  return CheckWriter(entries);
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
