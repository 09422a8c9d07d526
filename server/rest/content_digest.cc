#include "server/rest/content_digest.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr const char* kComparedFields[] = {"Content-Digest", "Repr-Digest"};
constexpr const char* kOlderFields[] = {"Digest", "Content-MD5"};
constexpr char kSha256[] = "sha-256";

absl::Status NotCompared(const char* field, absl::string_view why) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
      absl::StrCat(field, " ", why, "; the server compares Content-Digest: sha-256=:BASE64: of an ",
                   "image that is the whole body"),
      {{"field", field}});
}

// A dictionary of RFC 8941 with byte sequences as its values, from left to right.
class DigestReader {
 public:
  explicit DigestReader(absl::string_view text) : rest_(absl::StripAsciiWhitespace(text)) {}

  bool AtEnd() const { return rest_.empty(); }

  // Reads a member and the comma behind it. false: it is malformed.
  bool Read(std::string& key, std::string& bytes) {
    key = std::string(Take(IsKeyCharacter));
    if (key.empty() || absl::ascii_isdigit(static_cast<unsigned char>(key[0]))) return false;
    if (!Skip('=') || !Skip(':')) return false;
    const absl::string_view base64 = Take(IsBase64Character);
    if (!Skip(':') || !absl::Base64Unescape(base64, &bytes)) return false;
    while (Skip(';')) {  // parameters, for which nothing is defined
      rest_ = absl::StripLeadingAsciiWhitespace(rest_);
      if (Take(IsKeyCharacter).empty()) return false;
      if (Skip('=') && Take(IsValueCharacter).empty()) return false;
    }
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    if (AtEnd()) return true;
    if (!Skip(',')) return false;
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return !AtEnd();
  }

 private:
  static bool IsKeyCharacter(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_islower(byte) || absl::ascii_isdigit(byte) ||
           absl::StrContains("_-.*", absl::string_view(&c, 1));
  }
  static bool IsBase64Character(char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/' || c == '=';
  }
  static bool IsValueCharacter(char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != ',' && c != ';';
  }

  absl::string_view Take(bool (*belongs)(char)) {
    size_t count = 0;
    while (count < rest_.size() && belongs(rest_[count])) ++count;
    const absl::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  bool Skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  absl::string_view rest_;
};

absl::StatusOr<std::optional<Digest>> ReadField(const HttpRequest& request, const char* field) {
  const std::string text = request.AllFields(field);
  DigestReader reader(text);
  if (reader.AtEnd()) return std::nullopt;
  std::optional<Digest> digest;
  while (!reader.AtEnd()) {
    std::string key, bytes;
    if (!reader.Read(key, bytes)) {
      return NotCompared(field, absl::StrCat("\"", text.substr(0, 64), "\" is malformed"));
    }
    if (key != kSha256) continue;  // a further digest of the same bytes
    digest = DigestFromBytes(bytes);
    if (!digest.has_value()) {
      return NotCompared(
          field, absl::StrCat("has a sha-256 of ", bytes.size(), " bytes, which must be 32"));
    }
  }
  if (digest.has_value()) return digest;
  return NotCompared(field, "has no sha-256, and no other digest is compared");
}

}  // namespace

absl::StatusOr<std::optional<Digest>> ReadContentDigest(const HttpRequest& request) {
  for (const char* field : kOlderFields) {
    if (request.FindField(field).has_value()) return NotCompared(field, "is not compared");
  }
  if (absl::StrContains(absl::AsciiStrToLower(request.AllFields("Trailer")), "digest")) {
    return NotCompared("Trailer", "names a digest behind the body, which is not compared");
  }
  std::optional<Digest> named;
  for (const char* field : kComparedFields) {
    ASSIGN_OR_RETURN(const std::optional<Digest> digest, ReadField(request, field));
    if (!digest.has_value()) continue;
    if (named.has_value() && *named != *digest) {
      return NotCompared(field, "has another sha-256 than Content-Digest");
    }
    named = digest;
  }
  return named;
}

absl::Status CheckNoContentDigest(const HttpRequest& request, std::string_view body) {
  ASSIGN_OR_RETURN(const std::optional<Digest> digest, ReadContentDigest(request));
  if (!digest.has_value()) return absl::OkStatus();
  return NotCompared(kComparedFields[0],
                     absl::StrCat("is not compared with the bytes of ", ToAbsl(body)));
}

}  // namespace upscaled::server
