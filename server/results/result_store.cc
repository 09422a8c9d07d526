#include "server/results/result_store.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

using std::filesystem::path;

constexpr char kIndex[] = "index.sqlite";
constexpr char kResults[] = "results";  // files by the names of results
constexpr char kPartial[] = "partial";  // files that are being written

absl::Status PathError(const char* what, const path& file, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", file.string(), ": ",
                                             std::generic_category().message(error.value())));
}

// Files of other programs must not be taken for leftovers of a killed process.
absl::Status CheckOwned(const path& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory / kIndex, error)) return absl::OkStatus();
  for (const char* folder : {kResults, kPartial}) {
    const bool empty = std::filesystem::is_empty(directory / folder, error);
    if (empty || error) continue;  // no folder
    return absl::FailedPreconditionError(
        absl::StrCat((directory / folder).string(), " has files, and there is no ", kIndex,
                     " next to it: it is no store of results, or must be emptied"));
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) {  // results are nobody else's business
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (error) return PathError("make the folder", folder, error);
  return absl::OkStatus();
}

void RemoveIndex(const path& directory) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::error_code error;
    std::filesystem::remove(directory / absl::StrCat(kIndex, suffix), error);
  }
}

absl::StatusOr<std::unique_ptr<ResultIndex>> OpenIndex(const path& directory) {
  auto index = ResultIndex::Open(directory / kIndex);
  if (!absl::IsDataLoss(index.status())) return index;
  RemoveIndex(directory);
  return ResultIndex::Open(directory / kIndex);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResultStore>> ResultStore::Open(ResultStoreOptions options) {
  RETURN_IF_ERROR(CheckOwned(options.directory));
  RETURN_IF_ERROR(MakeFolder(options.directory / kResults));
  RETURN_IF_ERROR(MakeFolder(options.directory / kPartial));
  ASSIGN_OR_RETURN(std::unique_ptr<ResultIndex> index, OpenIndex(options.directory));
  std::unique_ptr<ResultStore> store(new ResultStore(std::move(options), std::move(index)));
  RETURN_IF_ERROR(store->Reconcile());
  return store;
}

absl::Status ResultStore::Reconcile() {
  ASSIGN_OR_RETURN(const std::vector<ResultIndex::File> listed, index_->List());
  std::map<std::string, int64_t> missing;
  for (const ResultIndex::File& file : listed) missing.emplace(file.name, file.bytes);
  std::error_code error;
  for (const char* folder : {kPartial, kResults}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.directory / folder, error)) {
      const auto known = missing.find(entry.path().filename().string());
      std::error_code ignored;
      if (folder == kResults && known != missing.end() &&
          entry.file_size(ignored) == static_cast<uintmax_t>(known->second)) {
        missing.erase(known);
      } else {
        std::filesystem::remove(entry.path(), ignored);
      }
    }
    if (error) return PathError("read the folder", options_.directory / folder, error);
  }
  for (const auto& [name, bytes] : missing) RETURN_IF_ERROR(index_->Remove(name));
  MakeRoom();  // there may have been more of it at the last start
  return absl::OkStatus();
}

path ResultStore::PathOf(const std::string& name) const {
  return options_.directory / kResults / name;
}

void ResultStore::OnTrouble(const absl::Status& status) {
  ++errors_;
  if (options_.warn) options_.warn(std::string(status.message()));
}

std::optional<ResultStore::Found> ResultStore::Find(const std::string& name,
                                                    const std::string& tenant) {
  if (!IsHexDigest(name)) return std::nullopt;
  absl::StatusOr<std::optional<StoredResult>> result = std::nullopt;
  absl::StatusOr<ResultFile> file = absl::NotFoundError("");
  {
    absl::MutexLock lock(&mutex_);
    result = index_->Use(name, tenant);
    if (result.ok() && result->has_value()) file = ResultFile::Open(PathOf(name));
  }
  if (!result.ok()) OnTrouble(result.status());
  if (!result.ok() || !result->has_value()) return std::nullopt;
  const absl::Status sound = file.ok() ? Verify(**result, *file) : file.status();
  if (sound.ok()) return Found{**std::move(result), *std::move(file)};
  OnTrouble(sound);
  // Another error, of descriptors perhaps, passes.
  if (absl::IsDataLoss(sound) || absl::IsNotFound(sound)) Remove(name);
  return std::nullopt;
}

absl::Status ResultStore::Verify(const StoredResult& result, const ResultFile& file) {
  if (file.bytes() != result.bytes) {
    return absl::DataLossError(absl::StrCat("the stored result ", result.name, " has ",
                                            file.bytes(), " bytes, not ", result.bytes));
  }
  {
    absl::MutexLock lock(&mutex_);
    if (verified_.contains(result.name)) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Digest digest, file.ReadDigest());
  if (digest != result.digest) {
    return absl::DataLossError(
        absl::StrCat("the stored result ", result.name, " is damaged on disk"));
  }
  absl::MutexLock lock(&mutex_);
  verified_.insert(result.name);
  return absl::OkStatus();
}

std::optional<std::string> ResultStore::FindSource(const Digest& source,
                                                   const std::string& tenant) {
  absl::StatusOr<std::optional<std::string>> header = index_->FindSource(source, tenant);
  if (header.ok()) return *std::move(header);
  OnTrouble(header.status());
  return std::nullopt;
}

void ResultStore::Remove(const std::string& name) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = index_->Remove(name);  // first: a file that it lacks is removed at the next start
    verified_.erase(name);
    std::error_code ignored;
    std::filesystem::remove(PathOf(name), ignored);
  }
  if (!status.ok()) OnTrouble(status);
}

absl::Status ResultStore::Insert(PartialFile& file, const StoredResult& result) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(file.RenameTo(PathOf(result.name)));
  RETURN_IF_ERROR(index_->Insert(result));
  verified_.insert(result.name);
  return absl::OkStatus();
}

void ResultStore::MakeRoom() {
  const int64_t max_bytes = options_.max_bytes - max_writing_bytes();
  while (index_->totals().bytes > max_bytes) {
    const absl::StatusOr<std::optional<ResultIndex::File>> next = index_->NextToGo();
    if (!next.ok()) OnTrouble(next.status());
    if (!next.ok() || !next->has_value()) return;
    const int64_t before = index_->totals().bytes;
    Remove((*next)->name);
    ++evictions_;
    if (index_->totals().bytes >= before) return;  // the index is in trouble, which it has told
  }
}

std::unique_ptr<ResultStore::Writer> ResultStore::Create() {
  absl::StatusOr<std::unique_ptr<PartialFile>> file =
      PartialFile::Create(options_.directory / kPartial);
  if (file.ok()) return std::unique_ptr<Writer>(new Writer(*this, *std::move(file)));
  OnTrouble(file.status());
  return nullptr;
}

ResultStoreCounts ResultStore::counts() const {
  const ResultIndex::Totals totals = index_->totals();
  return {
      .results = totals.results, .bytes = totals.bytes, .evictions = evictions_, .errors = errors_};
}

ResultStore::Writer::~Writer() { GiveUp(); }

void ResultStore::Writer::GiveUp() {
  if (file_ == nullptr) return;
  store_.writing_bytes_ -= file_->bytes();
  file_.reset();
}

bool ResultStore::Writer::Append(std::span<const uint8_t> bytes) {
  if (file_ == nullptr) return false;
  const int64_t before = file_->bytes();
  const absl::Status status = file_->Append(bytes);
  store_.writing_bytes_ += file_->bytes() - before;
  if (!status.ok()) store_.OnTrouble(status);
  if (status.ok() && store_.writing_bytes_ <= store_.max_writing_bytes()) {
    hash_.Update(bytes);
    return true;
  }
  GiveUp();
  return false;
}

void ResultStore::Writer::Commit(StoredResult result) {
  const std::unique_ptr<PartialFile> file = std::move(file_);
  if (file == nullptr) return;
  result.bytes = file->bytes();
  result.digest = hash_.Finish();
  store_.writing_bytes_ -= result.bytes;  // the index counts it from now on
  const absl::Status status = store_.Insert(*file, result);
  if (status.ok()) return store_.MakeRoom();
  store_.OnTrouble(status);
  store_.Remove(result.name);
}

Flight::ReadBack ResultStore::Writer::read_back() const {
  if (file_ == nullptr) return nullptr;
  return [file = file_->descriptor()](int64_t offset, size_t bytes) -> absl::StatusOr<std::string> {
    std::string read(bytes, '\0');
    for (size_t done = 0; done < bytes;) {
      const std::span<uint8_t> rest(reinterpret_cast<uint8_t*>(read.data()) + done, bytes - done);
      ASSIGN_OR_RETURN(const size_t count,
                       ReadFileAt(file->get(), offset + static_cast<int64_t>(done), rest));
      if (count == 0) return absl::DataLossError("the file of the result ends early");
      done += count;
    }
    return read;
  };
}

}  // namespace upscaled::server
