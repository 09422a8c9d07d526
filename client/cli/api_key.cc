#include "client/cli/api_key.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/channel.h"
#include "client/http/http_target.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr size_t kMaxKeyBytes = 8192;  // of tokens; keys have 47

absl::StatusOr<std::string> ReadKeyFile(const char* flag, const std::string& path) {
  std::ifstream file(path);
  std::string line(kMaxKeyBytes + 1, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || (line.empty() && !file.eof())) {
    return absl::NotFoundError(absl::StrCat(flag, ": cannot read ", path));
  }
  return line.substr(0, line.find('\n'));
}

// As a field of HTTP and metadata of gRPC it must be one word.
absl::StatusOr<std::string> Checked(absl::string_view text, absl::string_view source) {
  const absl::string_view key = absl::StripAsciiWhitespace(text);
  if (!key.empty() && key.size() <= kMaxKeyBytes &&
      std::all_of(key.begin(), key.end(), absl::ascii_isgraph)) {
    return std::string(key);
  }
  return absl::InvalidArgumentError(absl::StrCat(source, " holds no key"));
}

}  // namespace

absl::StatusOr<std::string> FindSecret(const SecretPlaces& places, const std::string& file) {
  if (!file.empty()) {
    ASSIGN_OR_RETURN(const std::string line, ReadKeyFile(places.flag, file));
    return Checked(line, absl::StrCat(places.flag, " ", file));
  }
  const char* const variable = std::getenv(places.variable);
  if (variable == nullptr || *variable == '\0') return "";
  return Checked(variable, places.variable);
}

absl::StatusOr<std::string> FindApiKey(const std::string& file) {
  return FindSecret({"--api-key-file", kApiKeyVariable}, file);
}

std::string OpenKeyWarning(const std::string& server, bool tls) {
  if (tls || absl::StartsWithIgnoreCase(server, "https://")) return "";
  absl::string_view hosts = server;
  if (IsHttpUrl(server)) {
    hosts.remove_prefix(hosts.find("://") + 3);
    hosts = hosts.substr(0, hosts.find('/'));
  }
  for (const absl::string_view endpoint : absl::StrSplit(hosts, ',')) {
    if (IsLocalEndpoint(absl::StripAsciiWhitespace(endpoint))) continue;
    return absl::StrCat("the API key goes to ", endpoint, " unencrypted; see --tls and https://");
  }
  return "";
}

}  // namespace upscaled::client
