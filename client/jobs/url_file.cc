#include "client/jobs/url_file.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/http/http_target.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr long kConnectTimeout_s = 30, kMaxRedirects = 5;
// Slower than this for so long is a connection that stalled.
constexpr long kStalledBytesPerSecond = 1000, kStalledTime_s = 60;

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
    Set(CURLOPT_FAILONERROR, 1L);
    Set(CURLOPT_CONNECTTIMEOUT, kConnectTimeout_s);
    Set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
    Set(CURLOPT_LOW_SPEED_TIME, kStalledTime_s);
    Set(CURLOPT_ERRORBUFFER, error_.data());
    Set(CURLOPT_NOPROGRESS, 0L);
    Set(CURLOPT_XFERINFODATA, this);
    Set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
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
    Set(CURLOPT_AWS_SIGV4, absl::StrCat("aws:amz:", access.region, ":s3").c_str());
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

  absl::Status Perform(absl::string_view what) {
    const CURLcode code = curl_easy_perform(easy_.get());
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    // A redirection that is not followed is no error of libcurl's.
    const bool refused = code == CURLE_OK && (status < 200 || status > 299);
    if (code == CURLE_OK && !refused) return absl::OkStatus();
    if (stop_.stop_requested()) return absl::CancelledError("cancelled");
    const std::string message = absl::StrCat("cannot ", what, " ", WithoutSecrets(url_), ": ",
                                             refused ? absl::StrCat("the answer was ", status)
                                             : error_[0] != '\0' ? error_.data()
                                                                 : curl_easy_strerror(code));
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
        code == CURLE_TOO_MANY_REDIRECTS) {
      return absl::InvalidArgumentError(message);
    }
    return refused || code == CURLE_HTTP_RETURNED_ERROR ? OfAnswer(status, message)
                                                        : absl::UnavailableError(message);
  }

 private:
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Request*>(self)->stop_.stop_requested() ? 1 : 0;
  }

  static absl::Status OfAnswer(long status, const std::string& message) {
    if (status >= 500 || status == 408 || status == 429) return absl::UnavailableError(message);
    if (status == 404 || status == 410) return absl::NotFoundError(message);
    if (status == 401 || status == 403) return absl::PermissionDeniedError(message);
    return absl::InvalidArgumentError(message);
  }

  const std::string& url_;
  const std::stop_token stop_;
  std::array<char, CURL_ERROR_SIZE> error_ = {};
  std::unique_ptr<curl_slist, CurlDeleter> fields_;
  const std::unique_ptr<CURL, CurlEasyDeleter> easy_;
};

// Where a download goes.
struct Spool {
  int fd;
  int64_t room;
  bool full = false;
  int error = 0;
};

size_t WriteSpool(char* bytes, size_t size, size_t count, void* to) {
  auto& spool = *static_cast<Spool*>(to);
  const size_t total = size * count;
  spool.room -= static_cast<int64_t>(total);
  spool.full = spool.room < 0;
  if (spool.full) return 0;
  for (size_t written = 0; written < total;) {
    const ssize_t part = write(spool.fd, bytes + written, total - written);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) {
      spool.error = errno;
      return 0;
    }
    written += static_cast<size_t>(part);
  }
  return total;
}

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

// Drops an answer's body, which libcurl would print.
size_t Ignore(char*, size_t size, size_t count, void*) { return size * count; }

// An error of the file that a download goes to.
absl::Status SpoolError(int error, absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(what, ": ", std::error_code(error, std::generic_category()).message()));
}

}  // namespace

std::string WithoutSecrets(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  std::string bare = url.substr(0, url.find_first_of("?#"));
  const size_t authority = scheme + 3;
  const size_t at = bare.substr(0, bare.find('/', authority)).rfind('@');
  return at == std::string::npos ? bare : bare.erase(authority, at + 1 - authority);
}

bool IsUrl(absl::string_view place) { return IsHttpUrl(place) || IsS3Url(place); }

absl::StatusOr<UniqueFd> Download(const std::string& url, int64_t max_bytes, const S3Access& access,
                                  std::stop_token stop) {
  std::error_code error;
  const std::string folder = std::filesystem::temp_directory_path(error);
  if (error) return SpoolError(error.value(), "there is no folder for temporary files");
  UniqueFd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) return SpoolError(errno, absl::StrCat("cannot make a file in ", folder));
  Spool spool{.fd = file.get(), .room = max_bytes};
  Request request(url, std::move(stop));
  request.Set(CURLOPT_FOLLOWLOCATION, 1L);
  request.Set(CURLOPT_MAXREDIRS, kMaxRedirects);
  request.Set(CURLOPT_WRITEDATA, &spool);
  request.Set(CURLOPT_WRITEFUNCTION, &WriteSpool);
  RETURN_IF_ERROR(request.Sign(access));
  const absl::Status status = request.Perform("fetch");
  if (spool.full) {
    return absl::InvalidArgumentError(
        absl::StrCat(WithoutSecrets(url), " has more than ", max_bytes, " bytes"));
  }
  if (spool.error != 0) {
    return SpoolError(spool.error, absl::StrCat("cannot write to a file in ", folder));
  }
  RETURN_IF_ERROR(status);
  if (lseek(file.get(), 0, SEEK_SET) != 0) return SpoolError(errno, "cannot rewind a file");
  return file;
}

absl::Status Post(const std::string& url, const std::vector<std::string>& fields,
                  const std::string& body, std::stop_token stop) {
  Request request(url, std::move(stop));
  for (const std::string& field : fields) request.AddField(field);
  request.Set(CURLOPT_POSTFIELDS, body.data());
  request.Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  request.Set(CURLOPT_WRITEFUNCTION, &Ignore);
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
  if (fstat(fd, &info) != 0) return SpoolError(errno, "cannot read what is to be sent");
  PartialFile file{.fd = fd};
  Request request(url, std::move(stop));
  request.Set(CURLOPT_UPLOAD, 1L);
  request.Set(CURLOPT_READDATA, &file);
  request.Set(CURLOPT_READFUNCTION, &ReadFile);
  request.Set(CURLOPT_WRITEFUNCTION, &Ignore);
  request.Set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(info.st_size));
  request.AddField(absl::StrCat("Content-Type: ", media_type));
  // A field that says not to expect anything would be signed, too, though it is not sent.
  request.Set(CURLOPT_EXPECT_100_TIMEOUT_MS, 100L);
  RETURN_IF_ERROR(request.Sign(access));
  return request.Perform("put a result at");
}

}  // namespace upscaled::client
