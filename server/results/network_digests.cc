#include "server/results/network_digests.h"

#include <filesystem>

#include "engine/base/files.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 30;

absl::StatusOr<Digest> Read(const ModelCard& card, const ModelVariant& variant) {
  Sha256 hash;
  for (const std::filesystem::path& file : FilesOf(variant)) {
    ASSIGN_OR_RETURN(const std::string content, ReadFile(file, kMaxFileBytes));
    hash.Field(file.filename().string()).Field(content);
  }
  // The architecture made of the files, where they do not say so themselves.
  if (!variant.architecture.empty()) hash.Field(variant.architecture);
  if (variant.cell_px != kDefaultCellPx) hash.Field(int64_t{variant.cell_px});
  RETURN_IF_ERROR(CheckUnchanged(card, variant));
  return hash.Finish();
}

}  // namespace

std::optional<Digest> NetworkDigests::Known(const std::string* files) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(digests_, [](const auto& entry) { return entry.second.first.expired(); });
  const auto known = digests_.find(files);
  return known == digests_.end() ? std::nullopt : std::optional(known->second.second);
}

absl::StatusOr<Digest> NetworkDigests::Of(const ModelCard& card, const ModelVariant& variant) {
  const std::shared_ptr<const std::string>& files = variant.files_state;
  if (files == nullptr) return Read(card, variant);
  if (const std::optional<Digest> known = Known(files.get())) return *known;
  absl::MutexLock reading(&reading_);
  if (const std::optional<Digest> known = Known(files.get())) return *known;  // meanwhile
  ASSIGN_OR_RETURN(const Digest digest, Read(card, variant));
  absl::MutexLock lock(&mutex_);
  digests_.insert_or_assign(files.get(), Entry(files, digest));
  return digest;
}

}  // namespace upscaled::server
