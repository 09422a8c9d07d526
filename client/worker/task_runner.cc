#include "client/worker/task_runner.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/worker/film_part_runner.h"
#include "client/worker/result_names.h"
#include "client/worker/url_file.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

// The server's name for the digest sent by the client.
constexpr char kDigestField[] = "source_sha256";

// Sources are read in parts of this size.
constexpr size_t kPartBytes = size_t{256} << 10;

TaskOutcome Failed(absl::Status status, Blame blame) {
  return {.status = std::move(status), .blame = blame};
}

// The blame for an error at a place named by the task.
Blame BlameAtPlace(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
    // A folder where a file should be, or the reverse.
    case absl::StatusCode::kFailedPrecondition:
      return Blame::kTask;
    case absl::StatusCode::kInternal:  // a download has no place here
      return Blame::kWorker;
    default:  // keys for S3 that are missing or refused: another worker may have better ones
      return Blame::kPassing;
  }
}

// The blame for an error of the results' store.
Blame BlameAtResults(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ? Blame::kPassing
                                                                  : Blame::kWorker;
}

// The blame for a failed call of the server.
Blame BlameOfCall(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  if (details.reason == "UNKNOWN_MODEL") return Blame::kPassing;  // another replica may have it
  // Others fill the server, or earlier jobs have put the worker's key into debt. Without the name
  // of a limit the job itself may be the cause, such as an image with all memory.
  const bool names_limit = details.metadata.contains("limit") && details.retry_delay.has_value();
  if (absl::IsResourceExhausted(status) && names_limit) return Blame::kLimit;
  const auto field = details.metadata.find("field");  // the source has changed since it was hashed
  if (field != details.metadata.end() && field->second == kDigestField) return Blame::kPassing;
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDataLoss:
      return Blame::kPassing;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Blame::kWorker;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:  // with a reason: a kind of image; without: no upscaled
      return details.reason.empty() ? Blame::kWorker : Blame::kTask;
    default:  // local: the result could not be written
      return details.origin == ErrorOrigin::kLocal ? Blame::kWorker : Blame::kPassing;
  }
}

// The blame for an error of a film's part: ffmpeg may be missing here only.
Blame BlameOfFilm(const absl::Status& status) {
  if (DetailsOf(status).origin != ErrorOrigin::kLocal) return BlameOfCall(status);
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ? Blame::kTask
                                                                          : Blame::kPassing;
}

// A source out of a file at its first byte.
absl::StatusOr<std::unique_ptr<ImageSource>> ToSource(const std::string& name, UniqueFd file) {
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return absl::InternalError(absl::StrCat("cannot read ", name));
  return std::make_unique<FileSource>(name, std::move(file), info.st_size);
}

// The file of a result with the content address `etag`; "": it has none, and gets the job's name.
std::string FileNameOf(const std::string& etag, v1::ImageFormat format, const std::string& job) {
  return (etag.empty() ? "job-" + job : etag) + ExtensionOf(format);
}

void RecordSize(const v1::UpscaleImageHeader& header, TaskOutcome& outcome) {
  outcome.width_px = header.result_width_px();
  outcome.height_px = header.result_height_px();
}

void AddWarnings(const google::protobuf::RepeatedPtrField<std::string>& more,
                 std::vector<std::string>& warnings) {
  warnings.insert(warnings.end(), more.begin(), more.end());
}

std::string WarningsText(const std::vector<std::string>& warnings) {
  return nlohmann::json(warnings).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The SHA-256 of all bytes, 32 of them. `source` is at its first byte before and after. CANCELLED
// when `stop` was requested. Other errors are the source's.
absl::StatusOr<std::string> SourceDigest(ImageSource& source, std::stop_token stop) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  bool ok = hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1;
  std::vector<char> part(kPartBytes);
  while (ok) {
    if (stop.stop_requested()) return absl::CancelledError("cancelled");
    ASSIGN_OR_RETURN(const size_t count, source.Read(part, stop));
    if (count == 0) break;
    ok = EVP_DigestUpdate(hash.get(), part.data(), count) == 1;
  }
  std::string digest(32, '\0');
  ok = ok && EVP_DigestFinal_ex(hash.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                nullptr) == 1;
  if (!ok) return absl::ResourceExhaustedError("no memory for a digest");
  RETURN_IF_ERROR(source.Rewind());
  return digest;
}

absl::Status Copy(ImageSource& source, const std::string& to, std::stop_token stop) {
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make the folder of ", to));
  }
  ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(to));
  std::array<char, kPartBytes> part;
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("cancelled");
    ASSIGN_OR_RETURN(const size_t count, source.Read(part, stop));
    if (count == 0) return sink.Commit();
    RETURN_IF_ERROR(sink.Write({part.data(), count}));
  }
}

}  // namespace

TaskOutcome TaskRunner::Run(const std::string& job, const server::Task& task,
                            ImageObserver& observer, std::stop_token stop) const {
  if (absl::Status status = CheckPlaces(task); !status.ok()) {
    return Failed(std::move(status), Blame::kTask);
  }
  if (task.film.has_value()) return RunFilm(task, observer, std::move(stop));
  const auto source = Open(task.source, stop);
  if (!source.ok()) return Failed(source.status(), BlameAtPlace(source.status()));
  return RunOn(**source, job, task, observer, std::move(stop));
}

absl::Status TaskRunner::CheckPlaces(const server::Task& task) const {
  RETURN_IF_ERROR(CheckPlace(task.source));
  if (!task.output.empty()) RETURN_IF_ERROR(CheckPlace(task.output));
  return task.webhook.empty() ? absl::OkStatus() : CheckPlace(task.webhook);
}

absl::Status TaskRunner::CheckPlace(const std::string& place) const {
  if (server::IsS3Url(place)) return allowed_.CheckBucket(place);
  return server::IsUrl(place) ? allowed_.MayBePrivate(place).status()
                              : allowed_.Resolve(place).status();
}

// No pipe: it would wait for a writer.
absl::StatusOr<UniqueFd> TaskRunner::OpenFile(const std::string& path) const {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no file"));
  }
  // Again, now: no other process can put a link in its place.
  RETURN_IF_ERROR(allowed_.Resolve(absl::StrCat("/proc/self/fd/", file.get())).status());
  return file;
}

absl::StatusOr<std::unique_ptr<ImageSource>> TaskRunner::Open(const std::string& place,
                                                              std::stop_token stop) const {
  ASSIGN_OR_RETURN(UniqueFd file, server::IsUrl(place) ? Download(place, kMaxSourceBytes, access_,
                                                                  &allowed_, std::move(stop))
                                                       : OpenFile(place));
  return ToSource(server::WithoutSecrets(place), std::move(file));
}

TaskOutcome TaskRunner::RunFilm(const server::Task& task, ImageObserver& observer,
                                std::stop_token stop) const {
  const server::FilmPart& part = *task.film;
  const absl::StatusOr<UniqueFd> source = OpenFile(task.source);
  if (!source.ok()) return Failed(source.status(), BlameAtPlace(source.status()));
  const absl::StatusOr<fs::path> output = allowed_.Resolve(task.output);
  if (!output.ok()) return Failed(output.status(), Blame::kTask);
  // A link at the folder's place could lead out of the allowed folders.
  const fs::path folder = server::FilmFolder(output->native(), part);
  if (const absl::StatusOr<fs::path> real = allowed_.Resolve(folder.native());
      !real.ok() || *real != folder) {
    return Failed(real.ok() ? absl::PermissionDeniedError(
                                  absl::StrCat(folder.native(), " is a link; it must be a folder"))
                            : real.status(),
                  Blame::kTask);
  }
  v1::UpscaleProgress progress;
  progress.set_tiles(static_cast<int32_t>(part.count(part.number)));
  const auto on_frame = [&](int64_t done) {
    progress.set_tiles_done(static_cast<int32_t>(done));
    observer.OnProgress(progress);
  };
  absl::Status status = RunFilmPart(service_, task.options, part, source->get(), output->native(),
                                    on_frame, std::move(stop));
  if (!status.ok()) {
    const Blame blame = BlameOfFilm(status);
    return Failed(std::move(status), blame);
  }
  return {
      .result = absl::StrCat("part ", part.number + 1, " of ", part.parts(), " of ", task.output),
      .computed = true};
}

TaskOutcome TaskRunner::RunOn(ImageSource& source, const std::string& job, const server::Task& task,
                              ImageObserver& observer, std::stop_token stop) const {
  const absl::StatusOr<std::string> digest = SourceDigest(source, stop);
  if (!digest.ok()) return Failed(digest.status(), Blame::kPassing);
  ImageRequest request{.options = task.options, .source_sha256 = *digest, .name_only = true};
  MemorySink nothing;
  ImageObserver nobody;
  const auto named = service_.UpscaleImage(request, source, nothing, nobody, stop);
  if (!named.ok()) return Failed(named.status(), BlameOfCall(named.status()));

  TaskOutcome outcome;
  outcome.result = FileNameOf(named->header.etag(), named->header.format(), job);
  RecordSize(named->header, outcome);
  absl::StatusOr<bool> is_there = results_.Has(outcome.result, stop);
  if (!is_there.ok()) return Failed(is_there.status(), BlameAtResults(is_there.status()));
  if (*is_there) {
    const absl::StatusOr<std::string> text = results_.ReadWarnings(outcome.result, stop);
    if (!text.ok()) return Failed(text.status(), BlameAtResults(text.status()));
    outcome.warnings = TextsIn(ParseShallow(*text));  // empty for other text than WarningsText's
    // Earlier releases kept none. The header has those that do not need the pixels.
    if (outcome.warnings.empty()) AddWarnings(named->header.warnings(), outcome.warnings);
  }
  UniqueFd result;
  if (*is_there && !task.output.empty()) {
    absl::StatusOr<UniqueFd> stored = results_.Open(outcome.result, stop);
    is_there = !absl::IsNotFound(stored.status());  // a lifecycle rule may have removed it since
    if (!stored.ok() && *is_there) return Failed(stored.status(), BlameAtResults(stored.status()));
    if (stored.ok()) {
      result = *std::move(stored);
      struct stat info {};
      if (fstat(result.get(), &info) == 0) outcome.result_bytes = info.st_size;
    }
  }
  if (!*is_there) {
    if (absl::Status status = source.Rewind(); !status.ok()) {
      return Failed(std::move(status), Blame::kPassing);
    }
    request.name_only = false;
    outcome = Compute(source, request, job, observer, result, stop);
  }
  if (!outcome.status.ok() || task.output.empty()) return outcome;
  if (absl::Status status = Deliver(task.output, outcome.result, std::move(result), stop);
      !status.ok()) {
    const Blame blame = BlameAtPlace(status);
    return Failed(std::move(status), blame);
  }
  return outcome;
}

TaskOutcome TaskRunner::Compute(ImageSource& source, const ImageRequest& request,
                                const std::string& job, ImageObserver& observer, UniqueFd& result,
                                std::stop_token stop) const {
  const absl::StatusOr<std::unique_ptr<ResultDraft>> draft = results_.Create();
  if (!draft.ok()) return Failed(draft.status(), Blame::kWorker);
  const auto computed = service_.UpscaleImage(request, source, **draft, observer, stop);
  if (!computed.ok()) return Failed(computed.status(), BlameOfCall(computed.status()));
  // Another name than before, when models or devices have changed meanwhile.
  TaskOutcome outcome{.computed = true, .result_bytes = computed->summary.result_bytes()};
  outcome.result = FileNameOf(computed->summary.etag(), computed->header.format(), job);
  RecordSize(computed->header, outcome);
  AddWarnings(computed->header.warnings(), outcome.warnings);
  AddWarnings(computed->summary.warnings(), outcome.warnings);
  if (!outcome.warnings.empty()) {
    const absl::Status kept =
        results_.WriteWarnings(outcome.result, WarningsText(outcome.warnings), stop);
    if (!kept.ok()) return Failed(kept, BlameAtResults(kept));
  }
  absl::StatusOr<UniqueFd> committed = (*draft)->Commit(outcome.result, std::move(stop));
  if (!committed.ok()) return Failed(committed.status(), BlameAtResults(committed.status()));
  result = *std::move(committed);
  return outcome;
}

absl::Status TaskRunner::Deliver(const std::string& output, const std::string& name,
                                 UniqueFd result, std::stop_token stop) const {
  if (server::IsUrl(output)) {
    return Upload(output, result.get(), MediaTypeOf(name), access_, &allowed_, std::move(stop));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source, ToSource(name, std::move(result)));
  ASSIGN_OR_RETURN(const fs::path path, allowed_.Resolve(output));
  return Copy(*source, path, std::move(stop));
}

}  // namespace upscaled::client
