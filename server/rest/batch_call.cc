#include "server/rest/batch_call.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/with_prefix.h"
#include "engine/image/memory_io.h"
#include "nlohmann/json.hpp"
#include "server/admission/limits.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/rest/batch_body.h"
#include "server/rest/body_source.h"
#include "server/rest/content_digest.h"
#include "server/rest/job_calls.h"
#include "server/rest/job_json.h"
#include "server/rest/job_request.h"
#include "server/rest/json.h"
#include "server/rest/json_body.h"
#include "server/rest/multipart.h"

namespace upscaled::server {
namespace {

// The JSON, doubling as it grows, and its fields; or a form's buffer.
constexpr int64_t kBatchBytes = int64_t{8} << 20;
constexpr size_t kMaxFieldBytes = 4096;  // of a form's field

// The rest of a form's part, within the limit of an image.
class PartSource final : public ByteSource {
 public:
  PartSource(MultipartReader& form, const Limits& limits, int64_t& received)
      : form_(form), limits_(limits), received_(received) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count, form_.Read(dst));
    bytes_ += static_cast<int64_t>(count);
    received_ += static_cast<int64_t>(count);
    RETURN_IF_ERROR(CheckSourceBytes(limits_, bytes_));
    return count;
  }

 private:
  MultipartReader& form_;
  const Limits& limits_;
  int64_t& received_;
  int64_t bytes_ = 0;
};

absl::StatusOr<std::string> ReadAll(ByteSource& source, size_t max_bytes, std::string_view name) {
  std::string text;
  std::vector<uint8_t> piece(max_bytes < 65536 ? max_bytes + 1 : 65536);
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, source.Read(piece));
    if (count == 0) return text;
    text.append(reinterpret_cast<const char*>(piece.data()), count);
    if (text.size() > max_bytes) {
      return InvalidForm(absl::StrCat(std::string(name), " has more than ", max_bytes, " bytes"));
    }
  }
}

absl::StatusOr<UpscaleParameters> ReadFields(const std::vector<FormField>& own,
                                             std::span<const FormField> shared) {
  UpscaleParameters parameters;
  ParameterReader reader(parameters);
  for (const FormField& field : own) RETURN_IF_ERROR(reader.Read(field));
  for (const FormField& field : shared) {
    const bool replaced = std::ranges::any_of(
        own, [&field](const FormField& mine) { return mine.name == field.name; });
    if (!replaced) RETURN_IF_ERROR(reader.Read(field));
  }
  for (const char* name : {"dry_run", "on_error", "download", "timeout", "request_id"}) {
    const bool given =
        std::ranges::any_of(own, [&](const FormField& f) { return f.name == name; }) ||
        std::ranges::any_of(shared, [&](const FormField& f) { return f.name == name; });
    if (given) return NotForJobs(name);
  }
  return parameters;
}

}  // namespace

void BatchCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  std::make_shared<BatchCall>(host, std::move(exchange))->StartWithBody(kBatchBytes);
}

absl::Status BatchCall::CheckHeader() {
  if (host().jobs == nullptr) return NoJobs();
  ASSIGN_OR_RETURN(query_, ParseQuery(request().query));
  RETURN_IF_ERROR(CheckNoContentDigest(request(), "a batch"));
  const std::string_view type = request().Field("Content-Type");
  if (IsJson(type)) return absl::OkStatus();
  if (!IsMultipart(type)) {
    return InvalidForm("a batch is application/json with URLs, or multipart/form-data with images");
  }
  ASSIGN_OR_RETURN(boundary_, MultipartBoundary(type));
  return absl::OkStatus();
}

void BatchCall::Run() {
  const absl::Status status = GuardHandler(record(), [this] { return Answer(); });
  Conclude(status);
  if (!status.ok()) return Fail(status);
  sink().Finish({});
}

absl::Status BatchCall::Answer() {
  const std::string id = AsyncJobs::Batch::NewName();
  AsyncJobs::Batch batch(*host().jobs, payer().tenant, id);
  ASSIGN_OR_RETURN(const std::vector<JobRequest> requests,
                   boundary_.empty() ? ReadUrls(batch) : ReadForm(batch));
  ASSIGN_OR_RETURN(const std::vector<AsyncJob> jobs, batch.Queue(requests));
  HttpResponse response = JsonResponse(BatchJson(id, jobs));
  response.status = 202;
  response.fields.push_back({"Location", absl::StrCat("/v1/jobs?batch=", id)});
  const std::string body = std::exchange(response.body, "");
  sink().Open(WithCors(std::move(response)), {});
  return sink().Write(AsBytes(body));
}

absl::StatusOr<std::vector<JobRequest>> BatchCall::ReadUrls(AsyncJobs::Batch& batch) {
  BodySource body(exchange(), slot(), host().calls.admission, payer());
  ASSIGN_OR_RETURN(const std::string text, ReadAll(body, kMaxJsonBytes, "the JSON"));
  ASSIGN_OR_RETURN(BatchBody json, ParseBatchBody(text));
  json.shared.insert(json.shared.end(), query_.begin(), query_.end());
  std::vector<JobRequest> requests;
  std::vector<std::string> urls;
  const auto read = [&](const std::vector<FormField>& fields) -> absl::Status {
    ASSIGN_OR_RETURN(const UpscaleParameters parameters, ReadFields(fields, json.shared));
    if (parameters.url.empty()) return InvalidForm("the job has no url");
    RETURN_IF_ERROR(host().fetcher.Check(parameters.url).status());
    ASSIGN_OR_RETURN(JobRequest request, ToJobRequest(host(), parameters, request(),
                                                      /*source_name=*/""));
    urls.push_back(parameters.url);
    requests.push_back(std::move(request));
    return absl::OkStatus();
  };
  for (size_t i = 0; i < json.jobs.size(); ++i) {
    if (const absl::Status status = read(json.jobs[i]); !status.ok())
      return WithPrefix(absl::StrCat("jobs[", i, "]: "), status);
  }
  for (const std::string& url : urls) RETURN_IF_ERROR(batch.AddUrl(url));
  return requests;
}

absl::StatusOr<std::vector<JobRequest>> BatchCall::ReadForm(AsyncJobs::Batch& batch) {
  BodySource body(exchange(), slot(), host().calls.admission, payer());
  MultipartReader form(body, boundary_);
  std::vector<FormField> fields = query_;
  std::vector<std::string> names;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<MultipartPart> part, form.Next());
    if (!part.has_value()) break;
    PartSource source(form, host().calls.admission.limits(), record().received_bytes);
    if (IsImage(*part)) {
      names.push_back(part->file_name.value_or(""));
      RETURN_IF_ERROR(CheckBatchSize(names.size()));
      RETURN_IF_ERROR(batch.Add(source));
      continue;
    }
    if (fields.size() >= kMaxFormFields) {
      return InvalidForm(absl::StrCat("the form has more than ", kMaxFormFields, " fields"));
    }
    ASSIGN_OR_RETURN(std::string value, ReadAll(source, kMaxFieldBytes, part->name.substr(0, 64)));
    fields.push_back({part->name, std::move(value)});
  }
  RETURN_IF_ERROR(CheckBatchSize(names.size()));
  ASSIGN_OR_RETURN(const UpscaleParameters parameters, ReadFields(fields, {}));
  if (!parameters.url.empty())
    return InvalidForm("url is for batches in JSON; the form has images");
  std::vector<JobRequest> requests;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(JobRequest request, ToJobRequest(host(), parameters, request(), name));
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace upscaled::server
