#include "client/worker/s3_results.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/worker/result_names.h"
#include "client/worker/spool_file.h"
#include "client/worker/url_file.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr int64_t kMaxResultBytes = int64_t{1} << 40;  // S3's own limit is less
constexpr int64_t kMaxWarningBytes = int64_t{1} << 20;

}  // namespace

class S3Results::Draft final : public ResultDraft {
 public:
  Draft(const S3Results& results, SpoolFile file) : results_(results), file_(std::move(file)) {}

  absl::Status Write(absl::string_view bytes) override { return file_.Write(bytes); }
  absl::Status Restart() override { return file_.Restart(); }
  absl::StatusOr<UniqueFd> Commit(const std::string& name, std::stop_token stop) override {
    ASSIGN_OR_RETURN(UniqueFd whole, file_.Finish());
    RETURN_IF_ERROR(Upload(results_.UrlOf(name), whole.get(), MediaTypeOf(name), results_.access_,
                           /*allowed=*/nullptr, std::move(stop)));
    return whole;
  }

 private:
  const S3Results& results_;
  SpoolFile file_;
};

absl::StatusOr<bool> S3Results::Has(const std::string& name, std::stop_token stop) const {
  const absl::Status found = Head(UrlOf(name), access_, std::move(stop));
  if (absl::IsNotFound(found)) return false;
  RETURN_IF_ERROR(found);
  return true;
}

absl::StatusOr<UniqueFd> S3Results::Open(const std::string& name, std::stop_token stop) const {
  return Download(UrlOf(name), kMaxResultBytes, access_, /*allowed=*/nullptr, std::move(stop));
}

absl::StatusOr<std::unique_ptr<ResultDraft>> S3Results::Create() const {
  ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::Create());
  return std::make_unique<Draft>(*this, std::move(file));
}

absl::Status S3Results::WriteError(const std::string& job, const std::string& json,
                                   std::stop_token stop) const {
  return PutText(absl::StrCat("errors/", job, ".json"), json, std::move(stop));
}

absl::Status S3Results::WriteWarnings(const std::string& name, const std::string& json,
                                      std::stop_token stop) const {
  return PutText(absl::StrCat("warnings/", name, ".json"), json, std::move(stop));
}

absl::StatusOr<std::string> S3Results::ReadWarnings(const std::string& name,
                                                    std::stop_token stop) const {
  const absl::StatusOr<UniqueFd> file =
      Download(UrlOf(absl::StrCat("warnings/", name, ".json")), kMaxWarningBytes, access_,
               /*allowed=*/nullptr, std::move(stop));
  if (absl::IsNotFound(file.status())) return "";
  RETURN_IF_ERROR(file.status());
  std::string text(kMaxWarningBytes, '\0');
  const ssize_t count = pread(file->get(), text.data(), text.size(), 0);
  if (count < 0) return absl::InternalError("cannot read a download");
  text.resize(static_cast<size_t>(count));
  return text;
}

absl::Status S3Results::PutText(const std::string& name, const std::string& text,
                                std::stop_token stop) const {
  ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::Create());
  RETURN_IF_ERROR(file.Write(text + "\n"));
  ASSIGN_OR_RETURN(const UniqueFd whole, file.Finish());
  return Upload(UrlOf(name), whole.get(), "application/json", access_, /*allowed=*/nullptr,
                std::move(stop));
}

}  // namespace upscaled::client
