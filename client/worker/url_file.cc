#include "client/worker/url_file.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/http/http_target.h"
#include "client/worker/spool_file.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/fetch/address_kind.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

constexpr long kConnectTimeout_s = 30;
constexpr int kMaxRedirects = 5;
// A connection slower than this for this long has stalled.
constexpr long kStalledBytesPerSecond = 1000, kStalledTime_s = 60;

// For a short question and its answer.
constexpr absl::Duration kMaxAnswerTime = absl::Minutes(2);

// Read of an answer at most, for each: its header, and a body other than a source.
constexpr size_t kMaxAnswerBytes = size_t{64} << 10;

// S3's names for wrong or expired keys, as different from keys without a permission.
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

// The addresses for a request's connection: of the internet at large, of this site too, or all.
enum class Reach { kPublic, kPrivate, kAll };

// One request; the caller sets its special options.
class Request {
 public:
  Request(const std::string& url, Reach reach, absl::Duration max_time, std::stop_token stop)
      : url_(url), reach_(reach), stop_(std::move(stop)), easy_(curl_easy_init()) {
    Set(CURLOPT_URL, url_.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500  // 7.85
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    Set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    if (reach != Reach::kAll) Set(CURLOPT_PROXY, "");
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
    Set(CURLOPT_OPENSOCKETDATA, this);
    Set(CURLOPT_CONNECTTIMEOUT, kConnectTimeout_s);
    // libcurl takes 0 for no limit.
    Set(CURLOPT_TIMEOUT_MS,
        static_cast<long>(std::max<int64_t>(absl::ToInt64Milliseconds(max_time), 1)));
    Set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
    Set(CURLOPT_LOW_SPEED_TIME, kStalledTime_s);
    Set(CURLOPT_ERRORBUFFER, error_.data());
    Set(CURLOPT_NOPROGRESS, 0L);
    Set(CURLOPT_XFERINFODATA, this);
    Set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
    Set(CURLOPT_WRITEDATA, this);
    Set(CURLOPT_WRITEFUNCTION, &OnBody);
    Set(CURLOPT_HEADERDATA, this);
    Set(CURLOPT_HEADERFUNCTION, &OnField);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // For an s3:// URL: its place, and the caller's signature.
  absl::Status Sign(const S3Access& access) {
    if (!server::IsS3Url(url_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string http_url, HttpUrlOf(url_, access));
    Set(CURLOPT_URL, http_url.c_str());
    Set(CURLOPT_PATH_AS_IS, 1L);
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

  // Has Perform fail unless this much of the request's body has been sent: an answer may come
  // earlier, and stands for no more than the server has got.
  void MustSend(int64_t bytes) { must_send_ = bytes; }

  // Gives `receive` the body of a good answer. Without it the body is ignored. false: no more.
  void OnReceive(std::function<bool(absl::string_view)> receive) { receive_ = std::move(receive); }

  absl::Status Perform(absl::string_view what) {
    const CURLcode code = curl_easy_perform(easy_.get());
    // A connection broken behind a refusal has delivered the refusal.
    const bool answered = code == CURLE_OK || cut_ || AnswerStatus() >= 400;
    const bool good = answered && IsGood(AnswerStatus());
    if (good && SentBytes() >= must_send_) return absl::OkStatus();
    if (stop_.stop_requested()) return absl::CancelledError("cancelled");
    const std::string message =
        absl::StrCat("cannot ", what, " ", server::WithoutSecrets(url_), ": ");
    if (!answered && !refused_address_.empty()) {
      return absl::PermissionDeniedError(
          absl::StrCat(message, "its address ", refused_address_,
                       "; this worker's --allow-private-urls names hosts with private ones"));
    }
    if (good) {
      return absl::UnavailableError(absl::StrCat(message, "the answer came after ", SentBytes(),
                                                 " of ", must_send_, " bytes were sent"));
    }
    if (answered) return OfAnswer(message);
    const absl::string_view why = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
    const bool wrong = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
    return absl::Status(wrong ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
                        absl::StrCat(message, why));
  }

  // 0: there was no answer.
  long AnswerStatus() const {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  // The place that the answer names instead; "": none. A request to S3 follows no redirection,
  // since each one needs a signature of its own.
  std::string Redirection() const {
    char* location = nullptr;
    if (!server::IsS3Url(url_)) curl_easy_getinfo(easy_.get(), CURLINFO_REDIRECT_URL, &location);
    return location == nullptr ? "" : location;
  }

 private:
  static curl_socket_t OpenSocket(void* self, curlsocktype, curl_sockaddr* address) {
    Request& request = *static_cast<Request*>(self);
    if (!request.MayConnect(address->addr)) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  bool MayConnect(const sockaddr& address) {
    if (reach_ == Reach::kAll || server::MayConnectTo(address, reach_ == Reach::kPrivate)) {
      return true;
    }
    if (const auto bytes = server::IpBytes(address)) {
      refused_address_ = absl::StrCat(server::AddressText(address), " is ",
                                      ToAbsl(AddressKindName(server::KindOfAddress(*bytes))));
    }
    return false;
  }

  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Request*>(self)->stop_.stop_requested() ? 1 : 0;
  }

  static size_t OnBody(char* bytes, size_t size, size_t count, void* to) {
    auto& self = *static_cast<Request*>(to);
    const absl::string_view part(bytes, size * count);
    const bool is_good = IsGood(self.AnswerStatus());
    if (is_good && self.receive_ != nullptr) return self.receive_(part) ? part.size() : 0;
    if (!is_good) absl::StrAppend(&self.refusal_, part);
    self.body_bytes_ += part.size();
    self.cut_ = is_good && self.body_bytes_ > kMaxAnswerBytes;
    return self.body_bytes_ <= kMaxAnswerBytes ? part.size() : 0;
  }

  // A line of the header, and of all earlier headers with a request to wait.
  static size_t OnField(char*, size_t size, size_t count, void* to) {
    auto& self = *static_cast<Request*>(to);
    self.header_bytes_ += size * count;
    return self.header_bytes_ <= kMaxAnswerBytes ? size * count : 0;
  }

  static bool IsGood(long status) { return status >= 200 && status <= 299; }

  int64_t SentBytes() const {
    curl_off_t bytes = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_SIZE_UPLOAD_T, &bytes);
    return bytes;
  }

  absl::Status OfAnswer(absl::string_view failed) const {
    const long status = AnswerStatus();
    const std::string s3_code = server::IsS3Url(url_) ? S3ErrorCode(refusal_) : "";
    const bool redirects = status >= 300 && status <= 399;
    const std::string message =
        absl::StrCat(failed, "the answer was ", status, s3_code.empty() ? "" : ", ", s3_code,
                     redirects ? ", a redirection, which is not followed" : "");
    if (std::ranges::count(kErrorsOfKeys, s3_code) > 0) return absl::UnauthenticatedError(message);
    if (s3_code == "RequestTimeout") return absl::UnavailableError(message);
    if (status >= 500 || status == 408 || status == 429) return absl::UnavailableError(message);
    if (status == 404 || status == 410) return absl::NotFoundError(message);
    if (status == 401 || status == 403) return absl::PermissionDeniedError(message);
    return absl::InvalidArgumentError(message);
  }

  const std::string& url_;
  const Reach reach_;
  const std::stop_token stop_;
  std::string refused_address_;                     // and of which kind; "": none was
  std::function<bool(absl::string_view)> receive_;  // null: a good answer's body is ignored
  std::string refusal_;                             // of an answer that is not good
  size_t header_bytes_ = 0, body_bytes_ = 0;
  bool cut_ = false;  // an ignored body went on and on
  int64_t must_send_ = 0;
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

absl::StatusOr<Reach> ReachOf(const std::string& url, const AllowedPlaces* allowed) {
  if (allowed == nullptr || server::IsS3Url(url)) return Reach::kAll;
  ASSIGN_OR_RETURN(const bool may_be_private, allowed->MayBePrivate(url));
  return may_be_private ? Reach::kPrivate : Reach::kPublic;
}

}  // namespace

absl::StatusOr<UniqueFd> Download(const std::string& url, int64_t max_bytes, const S3Access& access,
                                  const AllowedPlaces* allowed, std::stop_token stop,
                                  absl::Duration max_time) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(max_time);
  ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::Create());
  std::string place = url;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    ASSIGN_OR_RETURN(const Reach reach, ReachOf(place, allowed));
    absl::Status kept;
    int64_t room = max_bytes;
    Request request(place, reach, absl::FromChrono(end - std::chrono::steady_clock::now()), stop);
    request.OnReceive([&](absl::string_view bytes) {
      room -= static_cast<int64_t>(bytes.size());
      if (room >= 0) kept = file.Write(bytes);
      return room >= 0 && kept.ok();
    });
    RETURN_IF_ERROR(request.Sign(access));
    const absl::Status status = request.Perform("fetch");
    if (room < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(server::WithoutSecrets(url), " has more than ", max_bytes, " bytes"));
    }
    RETURN_IF_ERROR(kept);
    if (status.ok()) return file.Finish();
    place = request.Redirection();
    if (place.empty()) return status;
    if (!IsHttpUrl(place)) {  // in S3 it would be read with this machine's keys
      return absl::InvalidArgumentError(absl::StrCat(server::WithoutSecrets(url), " redirects to ",
                                                     server::WithoutSecrets(place),
                                                     ", which is no http(s) URL"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(server::WithoutSecrets(url), " redirects more than ", kMaxRedirects, " times"));
}

absl::Status Post(const std::string& url, const std::vector<std::string>& fields,
                  const std::string& body, const AllowedPlaces* allowed, std::stop_token stop,
                  int& answer) {
  answer = 0;
  ASSIGN_OR_RETURN(const Reach reach, ReachOf(url, allowed));
  Request request(url, reach, kMaxAnswerTime, std::move(stop));
  for (const std::string& field : fields) request.AddField(field);
  request.Set(CURLOPT_POSTFIELDS, body.data());
  request.Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  request.MustSend(static_cast<int64_t>(body.size()));
  absl::Status status = request.Perform("post to");
  answer = static_cast<int>(request.AnswerStatus());
  return status;
}

absl::Status Head(const std::string& url, const S3Access& access, std::stop_token stop) {
  Request request(url, Reach::kAll, kMaxAnswerTime, std::move(stop));
  request.Set(CURLOPT_NOBODY, 1L);
  RETURN_IF_ERROR(request.Sign(access));
  return request.Perform("look for");
}

absl::Status Upload(const std::string& url, int fd, const std::string& media_type,
                    const S3Access& access, const AllowedPlaces* allowed, std::stop_token stop,
                    absl::Duration max_time) {
  ASSIGN_OR_RETURN(const Reach reach, ReachOf(url, allowed));
  struct stat info {};
  if (fstat(fd, &info) != 0) return absl::InternalError("cannot read what is to be sent");
  PartialFile file{.fd = fd};
  Request request(url, reach, max_time, std::move(stop));
  request.Set(CURLOPT_UPLOAD, 1L);
  request.Set(CURLOPT_READDATA, &file);
  request.Set(CURLOPT_READFUNCTION, &ReadFile);
  request.Set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(info.st_size));
  request.MustSend(info.st_size);
  request.AddField(absl::StrCat("Content-Type: ", media_type));
  // An Expect field without a value would be signed, too, though it is not sent.
  request.Set(CURLOPT_EXPECT_100_TIMEOUT_MS, 100L);
  RETURN_IF_ERROR(request.Sign(access));
  return request.Perform("put a result at");
}

}  // namespace upscaled::client
