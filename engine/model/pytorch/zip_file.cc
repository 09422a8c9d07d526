#include "engine/model/pytorch/zip_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"
#include "engine/model/pytorch/unpickler.h"
#include "engine/model/pytorch/view_file.h"
#include "engine/model/pytorch/zip_archive.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

class ZipFile final : public ViewFile {
 public:
  explicit ZipFile(std::string bytes) : bytes_(std::move(bytes)) {}

  absl::Status Load() {
    ASSIGN_OR_RETURN(ZipArchive archive, ZipArchive::Open(bytes_));
    archive_ = std::make_unique<ZipArchive>(std::move(archive));
    ASSIGN_OR_RETURN(const ZipArchive::Entry pickle, FindPickle());
    RETURN_IF_ERROR(CheckByteOrder());
    if (pickle.bytes > kMaxPickleBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the pickle has ", pickle.bytes, " bytes, the limit is ", kMaxPickleBytes));
    }
    ASSIGN_OR_RETURN(pickle_, archive_->Read(pickle));
    ASSIGN_OR_RETURN(Objects objects, Unpickle(pickle_));
    return AddStateDict(std::move(objects), bytes_.size());
  }

 private:
  // The only one in a folder; its name is the written file's.
  absl::StatusOr<ZipArchive::Entry> FindPickle() {
    const ZipArchive::Entry* found = nullptr;
    for (const auto& [name, entry] : archive_->entries()) {
      if (!name.ends_with(kPickleName) || name.find('/') != name.size() - kPickleName.size()) {
        continue;
      }
      if (found != nullptr) return absl::InvalidArgumentError("has several entries 'data.pkl'");
      found = &entry;
      folder_ = name.substr(0, name.find('/') + 1);
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          "is a zip file without 'data.pkl' in a folder of its own, unlike torch.save's");
    }
    return *found;
  }

  absl::Status CheckByteOrder() const {
    const auto entry = archive_->entries().find(folder_ + "byteorder");
    if (entry == archive_->entries().end()) return absl::OkStatus();
    constexpr std::string_view kOurs = "little";
    if (entry->second.bytes == kOurs.size()) {
      ASSIGN_OR_RETURN(const std::string order, archive_->Read(entry->second));
      if (order == kOurs) return absl::OkStatus();
    }
    return absl::UnimplementedError("was written on a big-endian machine");
  }

  absl::StatusOr<ZipArchive::Entry> Find(const Storage& storage) const {
    const auto entry =
        archive_->entries().find(absl::StrCat(folder_, "data/", ToAbsl(storage.key)));
    if (entry != archive_->entries().end()) return entry->second;
    return absl::InvalidArgumentError(
        absl::StrCat("storage ", Quote(storage.key), " is not in the file"));
  }

  absl::StatusOr<uint64_t> StorageBytes(const Storage& storage) const override {
    ASSIGN_OR_RETURN(const ZipArchive::Entry entry, Find(storage));
    return entry.bytes;
  }

  absl::StatusOr<std::string> ReadStorage(const Storage& storage) const override {
    ASSIGN_OR_RETURN(const ZipArchive::Entry entry, Find(storage));
    return archive_->Read(entry);
  }

  const std::string bytes_;
  std::unique_ptr<ZipArchive> archive_;
  std::string folder_;  // with its slash
  std::string pickle_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFile>> ParseZipFile(std::string bytes) {
  auto file = std::make_unique<ZipFile>(std::move(bytes));
  RETURN_IF_ERROR(file->Load());
  return file;
}

}  // namespace upscaled::pytorch
