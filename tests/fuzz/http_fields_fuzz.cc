// Texts that clients of HTTP choose: queries, Accept, Content-Type, file names, and errors that
// repeat them. The first byte chooses which.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "server/options/request_options.h"
#include "server/rest/accept.h"
#include "server/rest/answer.h"
#include "server/rest/multipart.h"
#include "server/rest/problem.h"
#include "server/rest/upscale_parameters.h"

namespace upscaled::server {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void RequireProblem(const absl::Status& status) {
  const std::string json = ProblemJson(status, "id");
  Require(nlohmann::json::accept(json));
  Require(json.find_first_of("\r\n") == std::string::npos);
}

void RequireFieldValue(const std::string& value) {
  for (const char c : value) Require(absl::ascii_isprint(static_cast<unsigned char>(c)));
}

void ReadQuery(std::string_view query) {
  const auto fields = ParseQuery(query);
  if (!fields.ok()) return RequireProblem(fields.status());
  UpscaleParameters parameters;
  ParameterReader reader(parameters);
  for (const FormField& field : *fields) {
    if (const absl::Status status = reader.Read(field); !status.ok()) {
      Require(ReasonOf(status) == ErrorReason::kInvalidOption);
      return RequireProblem(status);
    }
  }
  if (const auto options = ReadOptions(parameters); !options.ok()) {
    RequireProblem(options.status());
  }
  RequireFieldValue(ContentDisposition("attachment", parameters.download));
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      ReadQuery(text);
      break;
    case 1:
      (void)PreferredFormat(text);
      break;
    case 2:
      if (IsMultipart(text)) (void)MultipartBoundary(text);
      break;
    case 3:
      RequireFieldValue(ContentDisposition("inline", text));
      break;
    default: {
      const absl::Status status = absl::InvalidArgumentError({text.data(), text.size()});
      RequireProblem(status);
      const HttpResponse response = OriginalResponse({}, status, "id");
      for (const HttpField& field : response.fields) RequireFieldValue(field.value);
    }
  }
  return 0;
}
