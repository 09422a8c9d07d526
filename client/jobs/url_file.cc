#include "client/jobs/url_file.h"

#include <curl/curl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/http/http_target.h"
#include "client/jobs/spool_file.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr long kConnectTimeout_s = 30, kMaxRedirects = 5;
// Slower than this for so long is a connection that stalled.
constexpr long kStalledBytesPerSecond = 1000, kStalledTime_s = 60;

// The largest body of a refusal that is read.
constexpr size_t kMaxRefusalBytes = size_t{64} << 10;

// S3's names for keys that are wrong or too old, as different from those that may not do something.
constexpr absl::string_view kErrorsOfKeys[] = {"ExpiredToken",          "InvalidAccessKeyId",
                                               "InvalidToken",          "RequestTimeTooSkewed",
                                               "SignatureDoesNotMatch", "TokenRefreshRequired"};

// "AccessDenied" of <Error><Code>AccessDenied</Code>...; "" for another text.
std::string S3ErrorCode(absl::string_view answer) {
  constexpr absl::string_view kBegin = "<Code>", kEnd = "</Code>";
  const size_t begin = answer.find(kBegin), end = answer.find(kEnd);
  if (begin == absl::string_view::npos || end == absl::string_view::npos || end < begin) return "";
  const absl::string_view code = answer.substr(begin + kBegin.size(), end - begin - kBegin.size());
  return std::ranges::all_of(code, absl::ascii_isalnum) ? std::string(code) : "";
}

// One request; the caller sets what is special of it.
class Request {
 public:
  Request(const std::string& url, std::stop_token stop)
      : url_(url), stop_(std::move(stop)), easy_(curl_easy_init()) {
    Set(CURLOPT_URL, url_.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500  // 7.85
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    Set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_CONNECTTIMEOUT, kConnectTimeout_s);
    Set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
    Set(CURLOPT_LOW_SPEED_TIME, kStalledTime_s);
    Set(CURLOPT_ERRORBUFFER, error_.data());
    Set(CURLOPT_NOPROGRESS, 0L);
    Set(CURLOPT_XFERINFODATA, this);
    Set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
    Set(CURLOPT_WRITEDATA, this);
    Set(CURLOPT_WRITEFUNCTION, &OnBody);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // For an s3:// URL: its place, and the caller's signature. Redirections are not followed: they
  // would have to be signed anew.
  absl::Status Sign(const S3Access& access) {
    if (!IsS3Url(url_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string http_url, HttpUrlOf(url_, access));
    Set(CURLOPT_URL, http_url.c_str());
    Set(CURLOPT_PATH_AS_IS, 1L);
    Set(CURLOPT_FOLLOWLOCATION, 0L);
#if LIBCURL_VERSION_NUM >= 0x074b00  // 7.75; HttpUrlOf wants more
    Set(CURLOPT_AWS_SIGV4, absl::StrCat("aws:amz:", access.region, ":s3").c_str());
#endif
    Set(CURLOPT_USERNAME, access.key_id.c_str());
    Set(CURLOPT_PASSWORD, access.secret.c_str());
    AddField("x-amz-content-sha256: UNSIGNED-PAYLOAD");  // TLS keeps the payload as it is
    if (!access.session_token.empty()) {
      AddField(absl::StrCat("x-amz-security-token: ", access.session_token));
    }
    return absl::OkStatus();
  }

  void AddField(const std::string& field) {
    fields_.reset(curl_slist_append(fields_.release(), field.c_str()));
    Set(CURLOPT_HTTPHEADER, fields_.get());
  }

  template <typename Value>
  void Set(CURLoption option, Value value) {
    curl_easy_setopt(easy_.get(), option, value);
  }

  // Has `receive` get what a good answer has in it, which is ignored otherwise. false: no more.
  void OnReceive(std::function<bool(absl::string_view)> receive) { receive_ = std::move(receive); }

  absl::Status Perform(absl::string_view what) {
    const CURLcode code = curl_easy_perform(easy_.get());
    // A connection that broke behind a refusal has told what it was to tell.
    const bool answered = code == CURLE_OK || AnswerStatus() >= 400;
    if (answered && IsGood(AnswerStatus())) return absl::OkStatus();
    if (stop_.stop_requested()) return absl::CancelledError("cancelled");
    const std::string message = absl::StrCat("cannot ", what, " ", WithoutSecrets(url_), ": ");
    if (answered) return OfAnswer(message);
    const absl::string_view why = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
    const bool wrong = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
                       code == CURLE_TOO_MANY_REDIRECTS;
    return absl::Status(wrong ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
                        absl::StrCat(message, why));
  }

 private:
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Request*>(self)->stop_.stop_requested() ? 1 : 0;
  }

  static size_t OnBody(char* bytes, size_t size, size_t count, void* to) {
    auto& self = *static_cast<Request*>(to);
    const absl::string_view part(bytes, size * count);
    if (IsGood(self.AnswerStatus())) return self.receive_(part) ? part.size() : 0;
    absl::StrAppend(&self.refusal_, part);
    return self.refusal_.size() <= kMaxRefusalBytes ? part.size() : 0;
  }

  static bool IsGood(long status) { return status >= 200 && status <= 299; }

  long AnswerStatus() const {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  absl::Status OfAnswer(absl::string_view failed) const {
    const long status = AnswerStatus();
    const std::string s3_code = IsS3Url(url_) ? S3ErrorCode(refusal_) : "";
    const std::string message =
        absl::StrCat(failed, "the answer was ", status, s3_code.empty() ? "" : ", ", s3_code);
    if (std::ranges::count(kErrorsOfKeys, s3_code) > 0) return absl::UnauthenticatedError(message);
    if (s3_code == "RequestTimeout") return absl::UnavailableError(message);
    if (status >= 500 || status == 408 || status == 429) return absl::UnavailableError(message);
    if (status == 404 || status == 410) return absl::NotFoundError(message);
    if (status == 401 || status == 403) return absl::PermissionDeniedError(message);
    return absl::InvalidArgumentError(message);
  }

  const std::string& url_;
  const std::stop_token stop_;
  std::function<bool(absl::string_view)> receive_ = [](absl::string_view) { return true; };
  std::string refusal_;  // of an answer that is not good
  std::array<char, CURL_ERROR_SIZE> error_ = {};
  std::unique_ptr<curl_slist, CurlDeleter> fields_;
  const std::unique_ptr<CURL, CurlEasyDeleter> easy_;
};

// The file of an upload, and how much of it has been sent.
struct PartialFile {
  int fd;
  off_t position = 0;
};

size_t ReadFile(char* bytes, size_t size, size_t count, void* from) {
  auto& file = *static_cast<PartialFile*>(from);
  const ssize_t part = pread(file.fd, bytes, size * count, file.position);
  if (part < 0) return CURL_READFUNC_ABORT;
  file.position += part;
  return static_cast<size_t>(part);
}

}  // namespace

std::string WithoutSecrets(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos || IsS3Url(url)) return url;
  std::string bare = url.substr(0, url.find_first_of("?#"));
  const size_t authority = scheme + 3;
  const size_t at = bare.substr(0, bare.find('/', authority)).rfind('@');
  return at == std::string::npos ? bare : bare.erase(authority, at + 1 - authority);
}

bool IsUrl(absl::string_view place) { return IsHttpUrl(place) || IsS3Url(place); }

absl::StatusOr<UniqueFd> Download(const std::string& url, int64_t max_bytes, const S3Access& access,
                                  std::stop_token stop) {
  ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::Create());
  absl::Status kept;
  int64_t room = max_bytes;
  Request request(url, std::move(stop));
  request.Set(CURLOPT_FOLLOWLOCATION, 1L);
  request.Set(CURLOPT_MAXREDIRS, kMaxRedirects);
  request.OnReceive([&](absl::string_view bytes) {
    room -= static_cast<int64_t>(bytes.size());
    if (room >= 0) kept = file.Write(bytes);
    return room >= 0 && kept.ok();
  });
  RETURN_IF_ERROR(request.Sign(access));
  const absl::Status status = request.Perform("fetch");
  if (room < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(WithoutSecrets(url), " has more than ", max_bytes, " bytes"));
  }
  RETURN_IF_ERROR(kept);
  RETURN_IF_ERROR(status);
  return file.Finish();
}

absl::Status Post(const std::string& url, const std::vector<std::string>& fields,
                  const std::string& body, std::stop_token stop) {
  Request request(url, std::move(stop));
  for (const std::string& field : fields) request.AddField(field);
  request.Set(CURLOPT_POSTFIELDS, body.data());
  request.Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  return request.Perform("post to");
}

absl::Status Head(const std::string& url, const S3Access& access, std::stop_token stop) {
  Request request(url, std::move(stop));
  request.Set(CURLOPT_NOBODY, 1L);
  RETURN_IF_ERROR(request.Sign(access));
  return request.Perform("look for");
}

absl::Status Upload(const std::string& url, int fd, const std::string& media_type,
                    const S3Access& access, std::stop_token stop) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return absl::InternalError("cannot read what is to be sent");
  PartialFile file{.fd = fd};
  Request request(url, std::move(stop));
  request.Set(CURLOPT_UPLOAD, 1L);
  request.Set(CURLOPT_READDATA, &file);
  request.Set(CURLOPT_READFUNCTION, &ReadFile);
  request.Set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(info.st_size));
  request.AddField(absl::StrCat("Content-Type: ", media_type));
  // A field that says not to expect anything would be signed, too, though it is not sent.
  request.Set(CURLOPT_EXPECT_100_TIMEOUT_MS, 100L);
  RETURN_IF_ERROR(request.Sign(access));
  return request.Perform("put a result at");
}

}  // namespace upscaled::client
