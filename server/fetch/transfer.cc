#include "server/fetch/transfer.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/fetch/address_kind.h"

namespace upscaled::server {
namespace {

// Received and not read; curl gives 16 KiB at a time.
constexpr size_t kMaxReceivedBytes = size_t{64} << 10;
constexpr size_t kMaxHeaderBytes = size_t{64} << 10;
// In each --fetch-stall-timeout, as clients have to send.
constexpr int64_t kMinBytes = int64_t{16} << 10;
constexpr absl::Duration kMaxPoll = absl::Seconds(1);  // without descriptors nothing wakes it
constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

absl::Status CannotFetch(const std::string& url, absl::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kSourceFailed,
                   absl::StrCat("cannot fetch ", url, ": ", why));
}

absl::Status OutOfMemory() {
  return MakeOverloaded("the machine is out of memory", kMemoryRetryDelay);
}

bool IsAddress(const std::string& host) {
  in_addr ipv4;
  return host.find(':') != std::string::npos || inet_pton(AF_INET, host.c_str(), &ipv4) == 1;
}

long Milliseconds(absl::Duration duration) {
  return static_cast<long>(absl::ToInt64Milliseconds(
      std::clamp<absl::Duration>(duration, absl::Milliseconds(1), absl::Hours(24))));
}

}  // namespace

Transfer::Transfer(const FetchEnvironment& environment, Cancellation& cancellation)
    : environment_(environment),
      options_(environment.options),
      cancellation_(cancellation),
      stall_(options_.stall_timeout, kMinBytes),
      total_(options_.timeout, std::numeric_limits<int64_t>::max()),
      multi_(curl_multi_init()),
      easy_(curl_easy_init()) {
  if (multi_ == nullptr || easy_ == nullptr) throw std::bad_alloc();
  SetProtocols();
  SetSecurity();
  SetCallbacks();
  on_cancel_ = cancellation_.OnCancel([this] { curl_multi_wakeup(multi_.get()); });
}

Transfer::~Transfer() {
  on_cancel_.Reset();
  curl_multi_remove_handle(multi_.get(), easy_.get());
}

template <typename T>
void Transfer::Set(CURLoption option, T value) {
  UPSCALED_CHECK(curl_easy_setopt(easy_.get(), option, value) == CURLE_OK);
}

// Only HTTP/1.1, and only a GET: one connection, no cookies, no unchecked redirects, nothing from
// the environment or the user's files.
void Transfer::SetProtocols() {
#if CURL_AT_LEAST_VERSION(7, 85, 0)
  Set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  Set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(CURLOPT_HTTPGET, 1L);
  Set(CURLOPT_FOLLOWLOCATION, 0L);
  Set(CURLOPT_PATH_AS_IS, 1L);
  Set(CURLOPT_PROXY, "");
  Set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  Set(CURLOPT_USERAGENT, "upscaled");
  Set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options_.stall_timeout));
}

void Transfer::SetSecurity() {
  Set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  Set(CURLOPT_SSL_VERIFYPEER, 1L);
  Set(CURLOPT_SSL_VERIFYHOST, 2L);
  Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // Each URL has addresses of its own for its connection.
  Set(CURLOPT_FRESH_CONNECT, 1L);
  Set(CURLOPT_FORBID_REUSE, 1L);
}

void Transfer::SetCallbacks() {
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_ERRORBUFFER, error_.data());
  Set(CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  Set(CURLOPT_HEADERFUNCTION, &Transfer::OnField);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::OpenSocket);
  Set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
}

absl::Status Transfer::Start(const SourceUrl& url, bool may_be_private) {
  curl_multi_remove_handle(multi_.get(), easy_.get());  // nothing, where it was not added
  shown_url_ = url.Shown();
  host_ = url.host;
  may_be_private_ = may_be_private;
  refused_address_.clear();
  location_.clear();
  header_bytes_ = 0;
  stall_.Restart(Clock::Real().Now());
  received_.clear();
  next_ = 0;
  paused_ = ended_ = out_of_memory_ = false;
  error_[0] = '\0';
  Set(CURLOPT_URL, url.Text().c_str());
  RETURN_IF_ERROR(FindAddresses(url));
  if (url.tls) RETURN_IF_ERROR(TakeAuthorities());
  if (curl_multi_add_handle(multi_.get(), easy_.get()) != CURLM_OK) throw std::bad_alloc();
  RETURN_IF_ERROR(Await());
  return received_.empty() ? End() : absl::OkStatus();
}

absl::Status Transfer::FindAddresses(const SourceUrl& url) {
  if (IsAddress(url.host)) return absl::OkStatus();
  const Clock& clock = Clock::Real();
  const absl::Time begin = clock.Now();
  stall_.BeginWait(begin);
  total_.BeginWait(begin);
  const absl::StatusOr<HostAddresses> addresses = environment_.lookups.Find(
      url.host, std::min(stall_.Patience(begin), total_.Patience(begin)), cancellation_);
  const absl::Time end = clock.Now();
  stall_.EndWait(end);
  total_.EndWait(end);
  RETURN_IF_ERROR(cancellation_.status());
  if (absl::IsDeadlineExceeded(addresses.status())) return TimedOut();
  if (absl::IsResourceExhausted(addresses.status())) return OutOfMemory();
  if (!addresses.ok()) {
    return CannotFetch(shown_url_,
                       absl::StrCat("could not look up its host: ", addresses.status().message()));
  }
  const std::string entry =
      absl::StrCat(url.host, ":", url.port, ":", absl::StrJoin(*addresses, ","));
  curl_slist* const list = curl_slist_append(nullptr, entry.c_str());
  if (list == nullptr) throw std::bad_alloc();
  Set(CURLOPT_RESOLVE, list);
  addresses_.reset(list);
  return absl::OkStatus();
}

absl::Status Transfer::TakeAuthorities() {
  const absl::StatusOr<Authorities::Store> store = environment_.authorities.Get();
  if (!store.ok()) return CannotFetch(shown_url_, store.status().message());
  authorities_ = *store;
  Set(CURLOPT_CAINFO, static_cast<const char*>(nullptr));
  Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  Set(CURLOPT_SSL_CTX_FUNCTION, &Transfer::OnTlsContext);
  Set(CURLOPT_SSL_CTX_DATA, static_cast<void*>(this));
  return absl::OkStatus();
}

absl::StatusOr<size_t> Transfer::Read(std::span<uint8_t> dst) {
  RETURN_IF_ERROR(cancellation_.status());
  if (next_ == received_.size()) {
    received_.clear();
    next_ = 0;
    RETURN_IF_ERROR(Await());
    if (received_.empty()) {
      RETURN_IF_ERROR(End());
      return 0;
    }
  }
  const size_t count = std::min(dst.size(), received_.size() - next_);
  std::memcpy(dst.data(), received_.data() + next_, count);
  next_ += count;
  return count;
}

int Transfer::status() const {
  long status = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

int64_t Transfer::total_bytes() const {
  curl_off_t bytes = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
  return std::max<int64_t>(bytes, 0);
}

absl::Status Transfer::Await() {
  const Clock& clock = Clock::Real();
  while (true) {
    RETURN_IF_ERROR(cancellation_.status());
    Perform();
    if (!received_.empty() || ended_) break;
    const absl::Time now = clock.Now();
    stall_.BeginWait(now);
    total_.BeginWait(now);
    const absl::Duration patience = std::min(stall_.Patience(now), total_.Patience(now));
    if (patience == absl::ZeroDuration()) return TimedOut();
    curl_multi_poll(multi_.get(), nullptr, 0,
                    static_cast<int>(Milliseconds(std::min(patience, kMaxPoll))), nullptr);
  }
  const absl::Time now = clock.Now();
  stall_.EndWait(now);
  total_.EndWait(now);
  stall_.Move(static_cast<int64_t>(received_.size()), now);
  return absl::OkStatus();
}

void Transfer::Perform() {
  if (paused_) {
    paused_ = false;
    curl_easy_pause(easy_.get(), CURLPAUSE_CONT);  // may call OnBody; what fails ends the transfer
  }
  int running = 0;
  curl_multi_perform(multi_.get(), &running);
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    ended_ = true;
    result_ = message->data.result;
  }
}

absl::Status Transfer::End() const {
  if (out_of_memory_) return OutOfMemory();
  if (result_ == CURLE_OK) return absl::OkStatus();
  if (result_ == CURLE_OPERATION_TIMEDOUT) return TimedOut();
  if (result_ == CURLE_COULDNT_CONNECT && !refused_address_.empty()) {
    return MakeError(absl::StatusCode::kPermissionDenied, ErrorReason::kSourceRefused,
                     absl::StrCat("the host \"", host_, "\" has the address ", refused_address_,
                                  ", which may not be connected to (fetch-allow-private)"),
                     {{"field", "url"}, {"limit", "fetch-allow-private"}});
  }
  if (header_bytes_ > kMaxHeaderBytes) {
    return CannotFetch(shown_url_, absl::StrCat("its answer has a header of more than ",
                                                kMaxHeaderBytes, " bytes"));
  }
  return CannotFetch(shown_url_, error_[0] != '\0' ? error_.data() : curl_easy_strerror(result_));
}

absl::Status Transfer::TimedOut() const {
  const bool in_all = total_.Patience(Clock::Real().Now()) == absl::ZeroDuration();
  const std::string limit = in_all ? "fetch-timeout" : "fetch-stall-timeout";
  const std::string time = absl::FormatDuration(in_all ? options_.timeout : options_.stall_timeout);
  const std::string what =
      in_all ? "not sent all" : absl::StrCat("sent less than ", kMinBytes, " bytes");
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
      absl::StrCat("the host \"", host_, "\" has ", what, " within ", time, " (", limit, ")"),
      {{"limit", limit}, {"maximum", time}});
}

template <typename Result, typename Callback>
Result Transfer::Guard(Result failure, const Callback& callback) {
  try {
    return callback();
  } catch (const std::exception&) {  // no memory
    out_of_memory_ = true;
    return failure;
  }
}

size_t Transfer::OnBody(char* bytes, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  return transfer.Guard(size_t{0}, [&] { return transfer.TakeBody(bytes, size * count); });
}

size_t Transfer::TakeBody(const char* bytes, size_t length) {
  if (!received_.empty() && received_.size() + length > kMaxReceivedBytes) {
    paused_ = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  received_.insert(received_.end(), bytes, bytes + length);
  return length;
}

size_t Transfer::OnField(char* bytes, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  return transfer.Guard(size_t{0}, [&] { return transfer.TakeField({bytes, size * count}); });
}

size_t Transfer::TakeField(absl::string_view line) {
  constexpr absl::string_view kLocation = "location:";
  header_bytes_ += line.size();
  if (header_bytes_ > kMaxHeaderBytes) return 0;           // an error to curl
  if (absl::StartsWith(line, "HTTP/")) location_.clear();  // behind one of 1xx
  if (absl::StartsWithIgnoreCase(line, kLocation)) {
    location_ = std::string(absl::StripAsciiWhitespace(line.substr(kLocation.size())));
  }
  return line.size();
}

CURLcode Transfer::OnTlsContext(CURL*, void* context, void* self) {
  SSL_CTX_set1_cert_store(static_cast<SSL_CTX*>(context),
                          static_cast<Transfer*>(self)->authorities_.get());
  return CURLE_OK;
}

// Sees the very address of curl's connection: nothing is looked up behind it.
curl_socket_t Transfer::OpenSocket(void* self, curlsocktype purpose, curl_sockaddr* address) {
  if (purpose != CURLSOCKTYPE_IPCXN) return CURL_SOCKET_BAD;
  auto& transfer = *static_cast<Transfer*>(self);
  if (!transfer.Guard(false, [&] { return transfer.MayConnect(address->addr); })) {
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool Transfer::MayConnect(const sockaddr& address) {
  if (MayConnectTo(address, may_be_private_)) return true;
  if (const auto bytes = IpBytes(address)) {
    refused_address_ = absl::StrCat(AddressText(address), " (",
                                    std::string(AddressKindName(KindOfAddress(*bytes))), ")");
  }
  return false;
}

}  // namespace upscaled::server
