#include "engine/model/pytorch/stacked_file.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/pytorch/unpickler.h"
#include "engine/model/pytorch/view_file.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

// The pickle of the number 0x1950a86a20f9469cfc6c.
constexpr std::string_view kMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
constexpr int64_t kVersion = 1001;

class StackedFile final : public ViewFile {
 public:
  explicit StackedFile(std::string bytes) : bytes_(std::move(bytes)), rest_(bytes_) {}

  absl::Status Load() {
    if (!rest_.starts_with(kMagic)) {
      return absl::InvalidArgumentError("is a pickle, but not as torch.save writes it");
    }
    rest_.remove_prefix(kMagic.size());
    RETURN_IF_ERROR(CheckMachine());
    ASSIGN_OR_RETURN(Objects objects, NextPickle());
    RETURN_IF_ERROR(FindStorages(objects));
    return AddStateDict(std::move(objects), bytes_.size());
  }

 private:
  absl::StatusOr<Objects> NextPickle() {
    ASSIGN_OR_RETURN(Objects objects, Unpickle(rest_));
    rest_.remove_prefix(objects.read_bytes);
    return objects;
  }

  absl::Status CheckMachine() {
    ASSIGN_OR_RETURN(const Objects version, NextPickle());
    if (version.Root().kind != Kind::kNumber || version.Root().number != kVersion) {
      return absl::UnimplementedError(
          absl::StrCat("has the version ", version.Root().number, ", must have ", kVersion));
    }
    ASSIGN_OR_RETURN(const Objects machine, NextPickle());
    ASSIGN_OR_RETURN(const Value* little, machine.Find(machine.Root(), "little_endian"));
    if (little != nullptr && little->kind == Kind::kNumber && little->number == 1) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError("was written on a big-endian machine");
  }

  // Walks over the storages. Their types, and so their sizes, stand in the value's pickle.
  absl::Status FindStorages(const Objects& objects) {
    std::map<std::string_view, const Storage*> known;
    for (const Storage& storage : objects.storages) known.emplace(storage.key, &storage);
    ASSIGN_OR_RETURN(const Objects keys, NextPickle());
    if (keys.Root().kind != Kind::kList) return absl::InvalidArgumentError("lacks a list of keys");
    for (const int element : keys.Root().elements) {
      const std::string_view key = keys.values[element].text;
      const auto storage = known.find(key);
      if (storage == known.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("has a storage ", Quote(key), " that no tensor is in"));
      }
      RETURN_IF_ERROR(FindStorage(*storage->second));
    }
    return absl::OkStatus();
  }

  absl::Status FindStorage(const Storage& storage) {
    int64_t count = 0;
    if (rest_.size() < sizeof count) return CutShort(storage);
    std::memcpy(&count, rest_.data(), sizeof count);
    rest_.remove_prefix(sizeof count);
    if (count != storage.count) {
      return absl::InvalidArgumentError(absl::StrCat("storage ", Quote(storage.key), " has ", count,
                                                     " values, must have ", storage.count));
    }
    if (static_cast<uint64_t>(count) > rest_.size() / storage.value_bytes) return CutShort(storage);
    const uint64_t bytes = count * storage.value_bytes;
    if (!storages_.emplace(storage.key, rest_.substr(0, bytes)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("storage ", Quote(storage.key), " is there twice"));
    }
    rest_.remove_prefix(bytes);
    return absl::OkStatus();
  }

  static absl::Status CutShort(const Storage& storage) {
    return absl::InvalidArgumentError(absl::StrCat("is cut short in storage ", Quote(storage.key),
                                                   " of ", storage.count, " values"));
  }

  absl::StatusOr<std::string_view> Find(const Storage& storage) const {
    const auto found = storages_.find(storage.key);
    if (found != storages_.end()) return found->second;
    return absl::InvalidArgumentError(
        absl::StrCat("storage ", Quote(storage.key), " is not in the file"));
  }

  absl::StatusOr<uint64_t> StorageBytes(const Storage& storage) const override {
    ASSIGN_OR_RETURN(const std::string_view bytes, Find(storage));
    return bytes.size();
  }

  absl::StatusOr<std::string> ReadStorage(const Storage& storage) const override {
    ASSIGN_OR_RETURN(const std::string_view bytes, Find(storage));
    return std::string(bytes);
  }

  const std::string bytes_;
  std::string_view rest_;                                  // that has not been read
  std::map<std::string_view, std::string_view> storages_;  // by key
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFile>> ParseStackedFile(std::string bytes) {
  auto file = std::make_unique<StackedFile>(std::move(bytes));
  RETURN_IF_ERROR(file->Load());
  return file;
}

}  // namespace upscaled::pytorch
