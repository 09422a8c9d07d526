#include "server/identity/keys_command.h"

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/identity/api_key.h"
#include "server/identity/key_file.h"
#include "server/identity/url_keys.h"

namespace upscaled::server {
namespace {

constexpr int kExitWrong = 2;

absl::Status WriteNewKey(const Principal& principal, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::string key, NewApiKey());
  const std::string entry = FormatKeyEntry(principal, *HashApiKey(key));
  // As the server will read it, so a bad name shows now.
  RETURN_IF_ERROR(ParseKeyFile(absl::StrCat("{\"keys\": [", entry, "]}"), "new key").status());
  out << key << "\n" << entry << "\n";
  return absl::OkStatus();
}

absl::Status WriteHash(std::istream& in, std::ostream& out) {
  std::string line;
  std::getline(in, line);
  const std::optional<KeyHash> hash = HashApiKey(std::string(absl::StripAsciiWhitespace(line)));
  if (!hash) {
    return absl::InvalidArgumentError(
        "the input is no key; a key of \"upscaled keys new\" is upk_ and 43 characters");
  }
  out << FormatKeyHash(*hash) << "\n";
  return absl::OkStatus();
}

absl::Status WriteUrlKey(const std::string& id, const std::string& tenant, std::ostream& out) {
  ASSIGN_OR_RETURN(const NewUrlKey key, MakeUrlKey(id, tenant));
  out << key.line << "\n" << key.entry << "\n";
  return absl::OkStatus();
}

}  // namespace

int RunKeysCommand(int argc, const char* const* argv, std::istream& in, std::ostream& out,
                   std::ostream& err) {
  CLI::App app{"Keys of callers, for --auth-keys.", "upscaled keys"};
  app.require_subcommand(1);
  std::string name = "new-key", tenant;
  std::vector<std::string> roles;
  CLI::App* const new_key = app.add_subcommand(
      "new", "writes a fresh key in the first line, then its entry for the file of --auth-keys");
  new_key->add_option("--name", name, "the key's name in the file and the log [new-key]");
  new_key->add_option("--tenant", tenant, "the key's tenant [as the name]");
  new_key
      ->add_option("--role", roles, "read, upscale or admin; may be given several times [upscale]")
      ->check(CLI::IsMember({"read", "upscale", "admin"}));
  CLI::App* const url_key = app.add_subcommand(
      "url",
      "writes a fresh key for signed URLs in the first line, then its entry for the file of "
      "--url-keys");
  std::string id = "new-key";
  url_key->add_option("--id", id, "the key's id in URLs, the file and the log [new-key]");
  url_key->add_option("--tenant", tenant, "the tenant of its URLs [as the id]");
  app.add_subcommand("hash", "reads a key from standard input and writes its hash");
  try {  // CLI11 reports by exceptions
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out << app.help("", CLI::AppFormatMode::All);
    return 0;
  } catch (const CLI::ExtrasError&) {  // which may be a key
    err << "upscaled keys: too many arguments; hash reads the key from standard input\n";
    return kExitWrong;
  } catch (const CLI::ParseError& error) {
    err << "upscaled keys: " << error.what() << "\n";
    return kExitWrong;
  }
  Principal principal{.name = name, .tenant = tenant.empty() ? name : tenant};
  for (const std::string& role : roles) principal.roles.Add(*ParseRole(role));
  if (roles.empty()) principal.roles.Add(Role::kUpscale);
  const absl::Status status = new_key->parsed() ? WriteNewKey(principal, out)
                              : url_key->parsed()
                                  ? WriteUrlKey(id, tenant.empty() ? id : tenant, out)
                                  : WriteHash(in, out);
  if (status.ok()) return 0;
  err << "upscaled keys: " << status.message() << "\n";
  return kExitWrong;
}

}  // namespace upscaled::server
