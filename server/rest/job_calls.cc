#include "server/rest/job_calls.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/jobs/async_jobs.h"
#include "server/rest/form.h"
#include "server/rest/job_json.h"
#include "server/rest/json.h"

namespace upscaled::server {
namespace {

constexpr size_t kSignatureBytes = 16;  // enough for RecognizeFormat

constexpr int kMaxListed = 1000;

absl::StatusOr<JobQuery> ReadQuery(std::string_view text) {
  JobQuery query;
  ASSIGN_OR_RETURN(const std::vector<FormField> fields, ParseQuery(text));
  std::set<std::string> names;
  for (const FormField& field : fields) {
    if (!names.insert(field.name).second) {
      return InvalidForm(absl::StrCat(field.name.substr(0, 64), " is given more than once"));
    }
    const std::string value = field.value.value_or("");
    if (field.name == "state") {
      query.state = value;
    } else if (field.name == "batch") {
      query.batch = value;
    } else if (field.name == "reference") {
      query.reference = value;
    } else if (field.name == "before") {
      query.before = value;
    } else if (field.name != "limit") {
      return InvalidForm(absl::StrCat("there is no filter \"", field.name.substr(0, 64),
                                      "\"; there are state, batch, reference, before and limit"));
    } else if (!absl::SimpleAtoi(value, &query.limit) || query.limit < 1 ||
               query.limit > kMaxListed) {
      return InvalidForm(
          absl::StrCat("limit is \"", value.substr(0, 64), "\"; it must be 1 to ", kMaxListed));
    }
  }
  return query;
}

// The list's path with the same filters from `before` on.
std::string NextPage(const JobQuery& query, const std::string& before) {
  std::string path = absl::StrCat("/v1/jobs?before=", before, "&limit=", query.limit);
  const std::pair<const char*, const std::string*> filters[] = {
      {"state", &query.state}, {"batch", &query.batch}, {"reference", &query.reference}};
  for (const auto& [name, value] : filters) {
    if (!value->empty()) absl::StrAppend(&path, "&", name, "=", PercentEncode(*value));
  }
  return path;
}

absl::Status NoJobResult(const AsyncJob& job) {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnspecified,
                   absl::StrCat("the job has no result here; it is ", job.state));
}

absl::StatusOr<std::string> TypeOf(const ResultFile& file) {
  std::array<uint8_t, kSignatureBytes> bytes;
  ASSIGN_OR_RETURN(const size_t count, file.ReadAt(0, bytes));
  const std::optional<ImageFormat> format = RecognizeFormat(std::span(bytes).first(count));
  return std::string(format.has_value() ? FormatMediaType(*format) : "application/octet-stream");
}

}  // namespace

absl::Status NoJobs() {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnspecified,
                   "this server keeps no jobs (job-queue)");
}

void JobListCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  std::make_shared<JobListCall>(host, std::move(exchange))->StartWithoutSlot();
}

void JobListCall::Run() {
  const absl::Status status = GuardHandler(record(), [this] { return Answer(); });
  Conclude(status);
  if (!status.ok()) return Fail(status);
  sink().Finish({});
}

absl::Status JobListCall::Answer() {
  AsyncJobs* const jobs = host().jobs;
  if (jobs == nullptr) return NoJobs();
  ASSIGN_OR_RETURN(const JobQuery query, ReadQuery(request().query));
  std::string last;
  ASSIGN_OR_RETURN(const std::vector<AsyncJob> listed, jobs->List(payer().tenant, query, last));
  HttpResponse response =
      JsonResponse(JobListJson(listed, last.empty() ? "" : NextPage(query, last)));
  const std::string body = std::exchange(response.body, "");
  sink().Open(WithCors(std::move(response)), {});
  return sink().Write(AsBytes(body));
}

void JobCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  std::make_shared<JobCall>(host, std::move(exchange))->StartWithoutSlot();
}

void JobCall::Run() {
  const absl::Status status = GuardHandler(record(), [this] { return Answer(); });
  Conclude(status);
  if (!status.ok()) return Fail(status);
  sink().Finish({});
}

absl::Status JobCall::Answer() {
  AsyncJobs* const jobs = host().jobs;
  if (jobs == nullptr) return NoJobs();
  if (request().method == "DELETE") {
    RETURN_IF_ERROR(jobs->Cancel(payer().tenant, request().parameter));
    sink().Open(WithCors({.status = 204}), {});
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const AsyncJob job, jobs->Find(payer().tenant, request().parameter));
  HttpResponse response = JsonResponse(JobJson(job));
  const std::string body = std::exchange(response.body, "");
  sink().Open(WithCors(std::move(response)), {});
  return sink().Write(AsBytes(body));
}

void JobResultCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  std::make_shared<JobResultCall>(host, std::move(exchange))->Start(kMemoryBytes);
}

absl::Status JobResultCall::Answer() {
  AsyncJobs* const jobs = host().jobs;
  if (jobs == nullptr) return NoJobs();
  ASSIGN_OR_RETURN(const AsyncJob job, jobs->Find(payer().tenant, request().parameter));
  if (job.result_name.empty()) return NoJobResult(job);
  const absl::StatusOr<ResultFile> file = ResultFile::Open(jobs->Result(job));
  if (!file.ok()) return NoJobResult(job);  // it went meanwhile
  ASSIGN_OR_RETURN(std::string type, TypeOf(*file));
  return Send({.name = job.result_name,
               .media_type = std::move(type),
               .cache_control = "private, no-cache",
               .warnings = job.warnings},
              *file);
}

}  // namespace upscaled::server
