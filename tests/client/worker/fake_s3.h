// A server of S3 in this process. It takes requests signed with its key and refuses all others.
#pragma once

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "tests/client/fake_http_server.h"

namespace upscaled::client {

class FakeS3 {
 public:
  static constexpr char kKeyId[] = "AKIDEXAMPLE", kSecret[] = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY",
                        kRegion[] = "eu-north-1";

  const std::string& endpoint() const { return server_.url(); }
  // By path, as it came: /BUCKET/KEY, escaped.
  std::map<std::string, std::string> objects() const {
    absl::MutexLock lock(&mutex_);
    return objects_;
  }
  void Put(const std::string& path, const std::string& bytes) {
    absl::MutexLock lock(&mutex_);
    objects_[path] = bytes;
  }
  void Remove(const std::string& path) {
    absl::MutexLock lock(&mutex_);
    objects_.erase(path);
  }
  // `handler` gives the answer to a signed request, or "" for the ordinary one.
  void AnswerOtherwise(FakeHttpServer::Handler handler) {
    absl::MutexLock lock(&mutex_);
    otherwise_ = std::move(handler);
  }
  static std::string Error(const std::string& status, const std::string& code) {
    return FakeAnswer(status, "",
                      absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code,
                                   "</Code><Message>so it is</Message></Error>"));
  }
  int Calls(const std::string& method) const {
    int count = 0;
    for (const FakeHttpRequest& request : server_.requests()) count += request.method == method;
    return count;
  }

 private:
  FakeHttpServer::Handler Otherwise() const {
    absl::MutexLock lock(&mutex_);
    return otherwise_;
  }
  std::string Answer(const FakeHttpRequest& request) {
    if (!IsSigned(request)) {
      if (request.method == "HEAD") return FakeAnswer("403 Forbidden", "", "");
      return Error("403 Forbidden", "SignatureDoesNotMatch");
    }
    if (const std::string other = Otherwise()(request); !other.empty()) return other;
    absl::MutexLock lock(&mutex_);
    if (request.method == "PUT") {
      objects_[request.target] = request.body;
      return FakeAnswer("200 OK", "", "");
    }
    const auto found = objects_.find(request.target);
    if (found == objects_.end()) return FakeAnswer("404 Not Found", "", "");
    return FakeAnswer("200 OK", "", request.method == "HEAD" ? "" : found->second);
  }

  static std::string Hmac(const std::string& key, const std::string& text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
    return {reinterpret_cast<const char*>(digest.data()), size};
  }
  static std::string Sha256Hex(const std::string& text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
    return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
  }

  // By name in lower case.
  static std::map<std::string, std::string> FieldsOf(const FakeHttpRequest& request) {
    std::map<std::string, std::string> fields;
    for (const absl::string_view line : absl::StrSplit(request.header, "\r\n")) {
      const std::pair<std::string, std::string> field =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      fields[absl::AsciiStrToLower(field.first)] =
          std::string(absl::StripAsciiWhitespace(field.second));
    }
    return fields;
  }

  // Whether the request has the signature of Signature Version 4, made of it and the secret.
  static bool IsSigned(const FakeHttpRequest& request) {
    std::map<std::string, std::string> fields = FieldsOf(request);
    const std::string content = fields["x-amz-content-sha256"];
    if (content != "UNSIGNED-PAYLOAD" && content != Sha256Hex(request.body)) return false;

    absl::string_view authorization = fields["authorization"];
    const std::string date = fields["x-amz-date"];
    const std::string scope =
        absl::StrCat(date.substr(0, 8), "/", std::string(kRegion), "/s3/aws4_request");
    if (!absl::ConsumePrefix(&authorization,
                             absl::StrCat("AWS4-HMAC-SHA256 Credential=", std::string(kKeyId), "/",
                                          scope, ", SignedHeaders="))) {
      return false;
    }
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(authorization, absl::MaxSplits(", Signature=", 1));
    const std::vector<std::string> names = absl::StrSplit(parts.first, ';');
    std::string canonical_fields;
    for (const std::string& name : names) {
      if (!fields.contains(name)) return false;
      absl::StrAppend(&canonical_fields, name, ":", fields[name], "\n");
    }
    for (const auto& [name, value] : fields) {  // these have to be signed
      const bool must = name == "host" || absl::StartsWith(name, "x-amz-");
      if (must && !absl::StrContains(absl::StrCat(";", parts.first, ";"), ";" + name + ";")) {
        return false;
      }
    }
    const std::string canonical = absl::StrCat(request.method, "\n", request.target, "\n\n",
                                               canonical_fields, "\n", parts.first, "\n", content);
    const std::string to_sign =
        absl::StrCat("AWS4-HMAC-SHA256\n", date, "\n", scope, "\n", Sha256Hex(canonical));
    std::string key = Hmac(absl::StrCat("AWS4", std::string(kSecret)), date.substr(0, 8));
    for (const char* part : {kRegion, "s3", "aws4_request"}) key = Hmac(key, part);
    return absl::BytesToHexString(Hmac(key, to_sign)) == parts.second;
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mutex_);
  FakeHttpServer::Handler otherwise_ ABSL_GUARDED_BY(mutex_) = [](const FakeHttpRequest&) {
    return "";
  };
  FakeHttpServer server_{[this](const FakeHttpRequest& request) { return Answer(request); }};
};

}  // namespace upscaled::client
