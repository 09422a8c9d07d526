#include "server/handlers/usage_handler.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/telemetry/usage_ledger.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr size_t kMaxShownBytes = 64;

absl::StatusOr<absl::CivilDay> ParseDay(const char* field, const std::string& text,
                                        absl::CivilDay otherwise) {
  if (text.empty()) return otherwise;
  absl::CivilDay day;
  // Only its printed form: no spaces, no five-digit years.
  if (absl::ParseCivilTime(text, &day) && absl::FormatCivilTime(day) == text && day.year() > 0 &&
      day.year() < 10'000) {
    return day;
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
      absl::StrCat(field, " \"", text.substr(0, kMaxShownBytes), "\" is no day like 2026-11-23"),
      {{"field", field}});
}

void ToProto(const UsageRow& row, pb::TenantUsage& usage) {
  usage.set_day(absl::FormatCivilTime(row.key.day));
  usage.set_tenant(row.key.tenant);
  usage.set_calls(row.usage.calls);
  usage.set_refusals(row.usage.refusals);
  usage.set_cost(row.usage.cost);
  usage.set_received_bytes(row.usage.received_bytes);
  usage.set_sent_bytes(row.usage.sent_bytes);
  usage.set_source_pixels(row.usage.source_pixels);
  usage.set_result_pixels(row.usage.result_pixels);
}

}  // namespace

absl::Status GetUsage(const HandlerEnvironment& environment, absl::Time now,
                      const pb::GetUsageRequest& request, pb::GetUsageResponse& response) {
  if (environment.usage == nullptr) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kUnsupported,
                     "this server keeps no usage; it does with --usage-db");
  }
  const absl::CivilDay today = absl::ToCivilDay(now, absl::UTCTimeZone());
  UsageQuery query{.tenant = request.tenant()};
  ASSIGN_OR_RETURN(query.last, ParseDay("last_day", request.last_day(), today));
  ASSIGN_OR_RETURN(query.first, ParseDay("first_day", request.first_day(), query.last));
  absl::StatusOr<std::vector<UsageRow>> rows = environment.usage->Read(query);
  if (!rows.ok()) {
    const bool too_many = absl::IsOutOfRange(rows.status());
    return WithReason(rows.status(),
                      too_many ? ErrorReason::kLimitExceeded : ErrorReason::kInternal);
  }
  for (const UsageRow& row : *rows) ToProto(row, *response.add_usage());
  return absl::OkStatus();
}

}  // namespace upscaled::server
