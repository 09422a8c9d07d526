#include "client/cli/errors.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/exit_code.h"
#include "client/error_details.h"

namespace upscaled::client {
namespace {

constexpr char kKeyAdvice[] = "the server wants a key, see --api-key-file and UPSCALE_API_KEY";

// Advice on an error of the server, by its reason.
constexpr struct {
  const char* reason;
  const char* advice;
} kAdvice[] = {
    {"INVALID_IMAGE", "check that the file is a complete image of a format that the server reads"},
    {"LIMIT_EXCEEDED", "see 'upscale info' for the server's limits"},
    {"UNKNOWN_MODEL",
     "see 'upscale models'; a folder of models is the server's, upscaled --model-repository"},
    {"UNAUTHENTICATED", kKeyAdvice},
    {"PERMISSION_DENIED", "it takes another key, see --api-key-file"},
    {"DEADLINE_INFEASIBLE", "give it more time with --timeout, or try again later"},
    {"OVERLOADED", "try again later, or with more --retries"},
    {"DRAINING", "try again, or another --server"},
    {"STALLED", "the network or this machine is too slow"},
    {"DEVICE_FAILURE", "see the server's log"},
    {"INTERNAL", "see the server's log"},
    {"RELOAD_FAILED",
     "mend the model and reload again; the server goes on with the models that it has"},
};

constexpr char kWithoutTls[] = "is it a server, and without TLS? see --server and --tls";

// Advice on a failed connection, by the words of gRPC and OpenSSL.
constexpr struct {
  const char* text;
  const char* advice;
} kConnectionAdvice[] = {
    {"http1.x server", "this is its HTTP port: call it as --server http://HOST:PORT"},
    {"certificate verify failed", "the server's certificate is not trusted, see --tls-ca"},
    {"not in peer certificate",
     "the server's certificate is for another name, see --tls-server-name"},
    {"SSL certificate problem", "the server's certificate is not trusted, see --tls-ca"},
    {"no alternative certificate subject name",
     "the server's certificate is for another name, see --tls-server-name"},
    {"does not match target host name",
     "the server's certificate is for another name, see --tls-server-name"},
    {"Empty reply", "is it the server's HTTP port, and without TLS? see --server"},
    {"HTTP/0.9", "is it the server's HTTP port? see --server"},
    {"wrong version number", "does the server speak TLS? without TLS, its URL begins with http://"},
    {"Socket closed", kWithoutTls},
    {"Connection reset by peer", kWithoutTls},
    {"", "is the server running? see --server; 'upscale image --local' works without"},
};

const char* AdviceFor(const absl::Status& error, const ErrorDetails& details) {
  for (const auto& [reason, advice] : kAdvice) {
    if (details.reason == reason) return advice;
  }
  if (details.origin == ErrorOrigin::kConnection) {
    for (const auto& [text, advice] : kConnectionAdvice) {
      if (absl::StrContains(error.message(), text)) return advice;
    }
  }
  if (absl::IsUnauthenticated(error)) return kKeyAdvice;  // a proxy's, too
  if (absl::IsDeadlineExceeded(error)) return "see --timeout";
  if (absl::IsUnimplemented(error) && details.reason.empty() &&
      details.origin != ErrorOrigin::kLocal)
    return "is this the right port of an upscaled server?";
  return "";
}

const char* OriginName(ErrorOrigin origin) {
  switch (origin) {
    case ErrorOrigin::kLocal:
      return "local";
    case ErrorOrigin::kConnection:
      return "connection";
    case ErrorOrigin::kServer:
      return "server";
  }
  return "";
}

}  // namespace

std::string ErrorLine(const absl::Status& error) {
  const ErrorDetails details = DetailsOf(error);
  std::string line;
  if (details.origin == ErrorOrigin::kConnection) line = "cannot reach the server: ";
  absl::StrAppend(&line, error.message().empty() ? absl::StatusCodeToString(error.code())
                                                 : std::string(error.message()));
  if (!details.reason.empty()) absl::StrAppend(&line, " [", details.reason, "]");
  if (details.retry_delay.has_value()) {
    absl::StrAppendFormat(&line, "; the server asks to wait %.3g s",
                          absl::ToDoubleSeconds(*details.retry_delay));
  }
  if (const char* advice = AdviceFor(error, details); *advice != '\0') {
    absl::StrAppend(&line, "; ", advice);
  }
  return absl::StrReplaceAll(line, {{"\n", " "}});
}

nlohmann::json ErrorJson(const absl::Status& error) {
  const ErrorDetails details = DetailsOf(error);
  nlohmann::json json = {{"code", absl::StatusCodeToString(error.code())},
                         {"origin", OriginName(details.origin)},
                         {"reason", details.reason},
                         {"message", std::string(error.message())},
                         {"metadata", details.metadata}};
  if (details.retry_delay.has_value()) {
    json["retry_delay_s"] = absl::ToDoubleSeconds(*details.retry_delay);
  }
  return json;
}

int ExitCodeFor(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  switch (DetailsOf(status).origin) {
    case ErrorOrigin::kConnection:
      return kExitCannotConnect;
    case ErrorOrigin::kServer:
      return kExitRpcFailed;
    case ErrorOrigin::kLocal:
      break;
  }
  if (absl::IsCancelled(status)) return kExitInterrupted;
  return absl::IsInvalidArgument(status) ? kExitBadArguments : kExitLocalError;
}

int Fail(const absl::Status& error) {
  absl::FPrintF(stderr, "upscale: %s\n", ErrorLine(error));
  return ExitCodeFor(error);
}

}  // namespace upscaled::client
