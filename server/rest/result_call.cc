#include "server/rest/result_call.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/handlers/result_sharing.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {
namespace {

absl::Status NoResult() {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnspecified,
                   "no result of this name is stored here");
}

}  // namespace

void ResultCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  std::make_shared<ResultCall>(host, std::move(exchange))->Start(kMemoryBytes);
}

absl::Status ResultCall::Answer() {
  ResultStore* const store = host().handlers.sharing->store();
  if (store == nullptr) return NoResult();
  const std::optional<ResultStore::Found> found = store->Find(request().parameter, payer().tenant);
  if (!found.has_value()) return NoResult();
  upscale::v1::UpscaleImageHeader header;
  if (!header.ParseFromString(found->result.header)) return NoResult();  // of another release
  // Every caller may have it if the server asks for no keys.
  const bool for_all = request().caller == nullptr;
  return Send({.name = found->result.name,
               .media_type = found->result.media_type,
               .cache_control =
                   absl::StrCat(for_all ? "public" : "private", ", max-age=31536000, immutable"),
               .warnings = {header.warnings().begin(), header.warnings().end()}},
              found->file);
}

}  // namespace upscaled::server
