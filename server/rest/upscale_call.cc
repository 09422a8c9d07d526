#include "server/rest/upscale_call.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/base/with_prefix.h"
#include "engine/image/byte_stream.h"
#include "engine/image/memory_io.h"
#include "nlohmann/json.hpp"
#include "proto/json/message_json.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/handlers/compute_image.h"
#include "server/handlers/image_request.h"
#include "server/handlers/upscale_image.h"
#include "server/jobs/async_jobs.h"
#include "server/options/contract_values.h"
#include "server/rest/accept.h"
#include "server/rest/answer.h"
#include "server/rest/entity_tags.h"
#include "server/rest/job_json.h"
#include "server/rest/job_request.h"
#include "server/rest/json.h"
#include "server/rest/prefer.h"
#include "server/results/digest.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// The bytes of a call in addition to the transport's: a piece of the answer, and the form's
// buffer.
constexpr int64_t kCallBytes = AnswerSink::kPieceBytes + MultipartReader::kBufferBytes;
constexpr size_t kCopyBytes = size_t{64} << 10;

absl::Status Late(absl::Duration timeout) {
  return MakeError(absl::StatusCode::kAborted, ErrorReason::kStalled,
                   absl::StrCat("the client has not begun to send its image within ",
                                absl::FormatDuration(timeout), " (start-timeout)"),
                   {{"limit", "start-timeout"}});
}

// Images from curl's -d come with other bytes, or as the file's name.
absl::Status WithCurlAdvice(const absl::Status& error, const HttpRequest& request) {
  const bool is_changed = absl::StartsWith(error.message(), "this is text") ||
                          absl::StrContains(error.message(), "send its bytes unchanged");
  const bool may_be = is_changed && ReasonOf(error) == ErrorReason::kInvalidImage &&
                      request.Field("User-Agent").starts_with("curl/") &&
                      request.Field("Content-Type") == "application/x-www-form-urlencoded";
  return may_be ? WithSuffix(error, "; with curl, send a file as --data-binary @FILE") : error;
}

// Whether `error` is the same for any image.
bool IsOfOptions(const absl::Status& error) {
  const ErrorReason reason = ReasonOf(error);
  return reason == ErrorReason::kInvalidOption || reason == ErrorReason::kUnknownModel;
}

// 0: not known.
int64_t BodyBytes(const HttpRequest& request) {
  return static_cast<int64_t>(request.content_length.value_or(0));
}

nlohmann::ordered_json SizeJson(int width_px, int height_px, std::optional<ImageFormat> format) {
  return {{"width_px", width_px},
          {"height_px", height_px},
          {"format", format.has_value() ? FormatName(*format) : "bin"}};
}

std::string VerdictJson(const ImageVerdict& verdict) {
  const pb::UpscaleImageHeader& header = verdict.header;
  nlohmann::ordered_json json = {
      {"accepted", true},
      {"request_id", header.request_id()},
      {"source",
       SizeJson(header.source_width_px(), header.source_height_px(), verdict.source_format)},
      {"result",
       SizeJson(header.result_width_px(), header.result_height_px(), FromProto(header.format()))},
      {"model", header.model()},
      {"tiles", header.tiles()},
      {"cost_multiply_adds", verdict.cost},
      {"memory_bytes", verdict.memory_bytes},
      {"estimated_seconds", nullptr}};
  if (verdict.time_to_end > absl::ZeroDuration()) {
    json["estimated_seconds"] = absl::ToDoubleSeconds(verdict.time_to_end);
  }
  if (!header.warnings().empty()) {
    json["warnings"] = std::vector<std::string>(header.warnings().begin(), header.warnings().end());
  }
  return json.dump();
}

// Gives the bytes of `source`. Its end is an INVALID_ARGUMENT (kInvalidOption) if they have another
// digest than `claimed`.
class DigestedSource final : public ByteSource {
 public:
  DigestedSource(ByteSource& source, const std::optional<Digest>& claimed)
      : source_(source), claimed_(claimed) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    if (!claimed_.has_value() || dst.empty()) return count;
    if (count > 0) {
      hash_.Update(dst.first(count));
      return count;
    }
    RETURN_IF_ERROR(CheckClaimedDigest(claimed_, hash_.Finish()));
    claimed_.reset();
    return 0;
  }

 private:
  ByteSource& source_;
  std::optional<Digest> claimed_;  // none: nothing is left to be compared
  Sha256 hash_;
};

}  // namespace

void UpscaleCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  const auto call = std::make_shared<UpscaleCall>(host, std::move(exchange));
  call->WatchStart();
  call->StartWithBody(kCallBytes);
}

void UpscaleCall::WatchStart() {
  const absl::Duration timeout = host().calls.start_timeout;
  watch_ = host().calls.watchdog.Watch(timeout, [weak = weak_from_this(), timeout] {
    const auto call = weak.lock();
    if (call == nullptr) return;
    if (!static_cast<UpscaleCall&>(*call).exchange().BodyBegun()) call->GiveUp(Late(timeout));
  });
}

absl::Status UpscaleCall::CheckHeader() {
  RETURN_IF_ERROR(upload_.CheckHeader());
  if (!request().signed_until.has_value() || !parameters_.url.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   "a signed URL must name its image: url is missing", {{"field", "url"}});
}

void UpscaleCall::Run() {
  const absl::Status status = GuardHandler(record(), [this] { return Answer(); });
  reservation_.Release();
  const bool original = !status.ok() && !has_fault() && AnswerOriginal(status);
  if (progress_) progress_->End(status, summary_json_);
  Conclude(status);
  if (!status.ok() && !original) return Fail(WithCurlAdvice(status, request()));
  sink().Finish(std::move(last_fields_));
}

absl::Status UpscaleCall::Answer() {
  RETURN_IF_ERROR(upload_.Open());
  ASSIGN_OR_RETURN(record().request_id, ChooseRequestId(parameters_.request_id));
  if (std::isfinite(parameters_.timeout_s)) SetTimeout(absl::Seconds(parameters_.timeout_s));
  const bool wants_job = WantsJob();
  if (!wants_job) {
    RETURN_IF_ERROR(CheckNoJobParameters(parameters_));
    progress_ = host().board.Enter({payer().tenant, record().request_id}, BodyBytes(request()));
    upload_.OnReceived([this](int64_t bytes) { progress_->Receive(bytes); });
  }
  ASSIGN_OR_RETURN(RequestOptions options, ReadOptions(parameters_));
  if (!options.format.has_value()) options.format = PreferredFormat(request().AllFields("Accept"));
  if (!parameters_.url.empty()) {
    RETURN_IF_ERROR(upload_.Fetch(parameters_.url, host().fetcher, cancellation()));
  }
  if (IsVerdict()) return Judge(options);
  return wants_job ? SubmitJob() : Upscale(std::move(options));
}

bool UpscaleCall::WantsJob() const {
  // These are about the answer to this request only.
  const bool now = IsVerdict() || parameters_.original_on_error || !parameters_.download.empty() ||
                   request().signed_until.has_value();
  return host().jobs != nullptr && !now && PrefersAsync(request().fields);
}

absl::Status UpscaleCall::SubmitJob() {
  record().method = "SubmitJob";
  if (std::isfinite(parameters_.timeout_s)) return NotForJobs("timeout");
  ASSIGN_OR_RETURN(const JobRequest asked,
                   ToJobRequest(host(), parameters_, request(), upload_.file_name()));
  record().model = asked.options.model();
  DigestedSource image(upload_.image(), upload_.digest());
  ASSIGN_OR_RETURN(const AsyncJob job, host().jobs->Submit(payer().tenant, asked, image));
  HttpResponse response = JsonResponse(JobJson(job));
  response.status = 202;
  for (HttpField& field : std::vector<HttpField>{{"Location", JobPath(job.id)},
                                                 {"Preference-Applied", kRespondAsync},
                                                 {"X-Request-Id", record().request_id}}) {
    response.fields.push_back(std::move(field));
  }
  const std::string body = std::exchange(response.body, "");
  sink().Open(WithCors(std::move(response)), {});
  return sink().Write(AsBytes(body));
}

absl::Status UpscaleCall::Judge(const RequestOptions& options) {
  ASSIGN_OR_RETURN(const ImageVerdict verdict,
                   JudgeImage(host().handlers, MakeContext(), options, upload_.image()));
  RETURN_IF_ERROR(CheckAccept(verdict.header));
  HttpResponse response = JsonResponse(VerdictJson(verdict));
  response.fields.push_back({"X-Request-Id", record().request_id});
  const std::string body = std::exchange(response.body, "");
  sink().Open(WithCors(std::move(response)), {});
  return sink().Write(AsBytes(body));
}

absl::Status UpscaleCall::Upscale(RequestOptions options) {
  ByteSource* source = &upload_.image();
  if (parameters_.original_on_error) {
    constexpr auto kKeptBytes = static_cast<int64_t>(2 * Upload::kMaxHeldBytes);  // it doubles
    ASSIGN_OR_RETURN(kept_memory_, host().calls.admission.Reserve(
                                       {.memory_bytes = kKeptBytes, .payer = payer()}));
    source = &kept_.emplace(*source, Upload::kMaxHeldBytes);
  }
  ASSIGN_OR_RETURN(ImageRequest image, StartRequest(host().handlers, std::move(options)));
  image.input_bytes = upload_.image_bytes();
  image.claimed_digest = upload_.digest();
  image.known_results = ParseTags(request().AllFields("If-None-Match"));
  const ImageStreams streams{
      .input = *source,
      .output = sink(),
      .on_header =
          [this](const pb::UpscaleImageHeader& header) {
            if (absl::Status status = CheckIfMatch(request(), header.etag()); !status.ok()) {
              return KeepFault({412, status});
            }
            RETURN_IF_ERROR(CheckAccept(header));
            Announce(header);
            return absl::OkStatus();
          },
      .on_progress = [this](int64_t done, int64_t) { progress_->Report(done); }};
  ASSIGN_OR_RETURN(const pb::UpscaleSummary summary,
                   UpscaleImage(host().handlers, MakeContext(), std::move(image), streams));
  summary_json_ = MessageToJson(summary);
  if (sink().begun()) header_warnings_.clear();
  last_fields_ = SummaryFields(summary, summary_json_, std::move(header_warnings_));
  return sink().Settle();
}

absl::Status UpscaleCall::CheckAccept(const pb::UpscaleImageHeader& header) {
  const std::string accept = request().AllFields("Accept");
  const std::optional<ImageFormat> format = FromProto(header.format());
  const bool is_asked = parameters_.options.format() != pb::IMAGE_FORMAT_UNSPECIFIED;
  if (is_asked || !format.has_value() || AcceptsFormat(accept, *format)) return absl::OkStatus();
  const absl::Status refusal = MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
      absl::StrCat("Accept is ", Quoted(accept), ", and the result would be ",
                   ToAbsl(FormatName(*format)), "; accept it, or name a format (format=png)"),
      {{"field", "Accept"}});
  return KeepFault({406, refusal});
}

void UpscaleCall::Announce(const pb::UpscaleImageHeader& header) {
  progress_->Start(header.tiles());
  header_warnings_.assign(header.warnings().begin(), header.warnings().end());
  sink().Open(
      WithCors(ImageResponse(header, parameters_, upload_.file_name(), Elapsed(), PublicFor())),
      SummaryFieldNames(header));
}

std::optional<absl::Duration> UpscaleCall::PublicFor() const {
  if (!request().signed_until.has_value()) return std::nullopt;
  return std::clamp(*request().signed_until - absl::Now(), absl::ZeroDuration(),
                    host().signed_max_age);
}

bool UpscaleCall::AnswerOriginal(const absl::Status& error) {
  if (!kept_.has_value() || !kept_->whole() || sink().begun() || IsOfOptions(error)) return false;
  // Only images leave this server out of its fetches.
  if (!parameters_.url.empty() && !RecognizeFormat(kept_->kept()).has_value()) return false;
  const absl::Status sent = GuardHandler(record(), [&]() -> absl::Status {
    sink().Reset();
    sink().Open(
        WithCors(OriginalResponse(RecognizeFormat(kept_->kept()), error, record().request_id)), {});
    RETURN_IF_ERROR(sink().Write(kept_->kept()));
    std::vector<uint8_t> bytes(kCopyBytes);
    while (true) {
      ASSIGN_OR_RETURN(const size_t count, kept_->rest().Read(bytes));
      if (count == 0) return sink().Settle();
      RETURN_IF_ERROR(sink().Write(std::span(bytes).first(count)));
    }
  });
  return sent.ok();
}

void UpscaleCall::Conclude(const absl::Status& status) {
  host().calls.watchdog.Drop(watch_);
  kept_memory_.Release();
  RestCall::Conclude(status);
}

}  // namespace upscaled::server
