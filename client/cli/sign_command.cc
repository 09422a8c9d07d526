#include "client/cli/sign_command.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/api_key.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/http/http_image_call.h"
#include "client/http/http_target.h"
#include "engine/base/status_macros.h"
#include "server/base/url_signature.h"

namespace upscaled::client {
namespace {

constexpr char kSignFooter[] = R"(
Example:
  upscale sign https://images.example.com/cat.jpg -s 2 -f webp --server https://cdn.example.com

Needs no server: it prints the URL for <img src>. 'upscaled keys url' makes keys, which the server reads
from the file of its --url-keys. Whoever has the URL may call it until it ends, or its key does.)";

struct SignFlags {
  std::string source;
  std::string server = "http://127.0.0.1:8000";
  std::string key_file;
  double expires_in_s = 0;  // 0: with its key
  UpscaleFlags upscale;
  FormatFlags format;

  void AddTo(CLI::App& command);
};

void SignFlags::AddTo(CLI::App& command) {
  command
      .add_option("source", source, "The image's URL, which the server may fetch (--fetch-allow)")
      ->type_name("URL")
      ->required();
  command
      .add_option("--server", server, "Where browsers ask: the server, or the cache in front of it")
      ->type_name("URL")
      ->capture_default_str();
  command
      .add_option("--url-key-file", key_file,
                  "Holds the key ID:SECRET that signs; default: the value of UPSCALE_URL_KEY")
      ->type_name("FILE");
  command
      .add_option("--expires-in", expires_in_s,
                  "Time until the URL ends; 0: as long as its key is valid")
      ->type_name("SECONDS")
      ->check(Between(0.0, 1e10))
      ->capture_default_str();
  upscale.AddTo(command);
  format.AddTo(command);
  command.footer(kSignFooter);
}

// A key that signs, as "upscaled keys url" writes it: "ID:SECRET".
struct UrlSigningKey {
  std::string id, secret;
};

constexpr char kTargetPath[] = "/v1/upscale";

std::string Encoded(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> encoded(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return encoded.get();
}

// INVALID_ARGUMENT, without the text: it may hold a secret.
absl::StatusOr<UrlSigningKey> ParseUrlSigningKey(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 ||
      text.size() - colon - 1 < server::kMinUrlSecretBytes ||
      !std::ranges::all_of(text, absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no key for signed URLs, which is ID:SECRET with ", server::kMinUrlSecretBytes,
                     " characters or more behind the colon"));
  }
  return UrlSigningKey{.id = text.substr(0, colon), .secret = text.substr(colon + 1)};
}

// The URL on `server` ("https://cdn.example.com", perhaps with a proxy's prefix) of the image at
// `source`, upscaled with `options` (see ToParameters). Without `expires` it lasts as long as its
// key.
std::string SignedUrl(const std::string& server, const std::string& source,
                      const HttpParameters& options, const UrlSigningKey& key,
                      std::optional<absl::Time> expires) {
  std::string target = absl::StrCat(kTargetPath, "?url=", Encoded(source));
  for (const auto& [name, value] : options)
    absl::StrAppend(&target, "&", name, "=", Encoded(value));
  absl::StrAppend(&target, "&key=", key.id);
  if (expires.has_value()) absl::StrAppend(&target, "&expires=", absl::ToUnixSeconds(*expires));
  return absl::StrCat(absl::StripSuffix(server, "/"), target,
                      "&sig=", server::UrlSignature(key.secret, target));
}

absl::Status PrintSignedUrl(const SignFlags& flags) {
  for (const std::string& url : {flags.source, flags.server}) {
    if (!IsHttpUrl(url)) {
      return absl::InvalidArgumentError(absl::StrCat("'", url, "' is no http:// or https:// URL"));
    }
  }
  if (!std::ranges::all_of(flags.source, absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the URL '", flags.source, "' must have spaces and letters outside ASCII percent-encoded"));
  }
  RETURN_IF_ERROR(HttpTarget::Create(flags.server, std::nullopt).status());
  ASSIGN_OR_RETURN(const std::string text,
                   FindSecret({"--url-key-file", kUrlKeyVariable}, flags.key_file));
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing to sign with: see --url-key-file and ", kUrlKeyVariable));
  }
  ASSIGN_OR_RETURN(const UrlSigningKey key, ParseUrlSigningKey(text));
  v1::UpscaleOptions options = flags.upscale.ToProto();
  flags.format.ApplyTo(options);
  options.set_format(ParseFormat(flags.format.format));
  std::optional<absl::Time> expires;
  if (flags.expires_in_s > 0) expires = absl::Now() + absl::Seconds(flags.expires_in_s);
  const std::string url =
      SignedUrl(flags.server, flags.source, ToParameters(options), key, expires);
  std::printf("%s\n", url.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddSignCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<SignFlags>();
  CLI::App* const command =
      app.add_subcommand("sign", "Sign the URL of an upscaled image, for <img src> and caches");
  flags->AddTo(*command);
  command->callback([flags, &exit_code] {
    const absl::Status status = PrintSignedUrl(*flags);
    exit_code = status.ok() ? kExitOk : Fail(status);
  });
}

}  // namespace upscaled::client
