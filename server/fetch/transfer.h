// Receives one source through libcurl.
#pragma once

#include <curl/curl.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "engine/image/byte_stream.h"
#include "server/base/stall_meter.h"
#include "server/fetch/authorities.h"
#include "server/fetch/fetch_options.h"
#include "server/fetch/host_lookups.h"
#include "server/fetch/source_url.h"

namespace upscaled::server {

// The environment of all transfers; outlives them.
struct FetchEnvironment {
  const FetchOptions& options;
  HostLookups& lookups;
  Authorities& authorities;
};

// GETs one URL after the other, each over a connection of its own. Everything runs on the thread of
// the start and the reads. While it does neither, only the kernel's buffers fill, and the source
// waits for its reader. Not thread safe.
//
// Start and Read fail with
//   PERMISSION_DENIED  (kSourceRefused) no address of the host is one to connect to
//   UNAVAILABLE        (kSourceFailed) there is no connection, or it breaks off, or TLS or HTTP
//                      are not as they should be
//   DEADLINE_EXCEEDED  (kDeadline) one of the two times has passed
//   RESOURCE_EXHAUSTED (kOverloaded) there is no memory for it
//   what the cancellation says
class Transfer final : public ByteSource {
 public:
  // `cancellation` outlives it.
  Transfer(const FetchEnvironment& environment, Cancellation& cancellation);
  ~Transfer() override;

  // Asks for `url` and waits for the first bytes of the answer's body, or its end; drops earlier
  // bytes. `may_be_private`: the host may have a private address.
  absl::Status Start(const SourceUrl& url, bool may_be_private);
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override;

  // The answer's fields, after Start.
  int status() const;
  int64_t total_bytes() const;                               // of the body; 0: not told
  const std::string& location() const { return location_; }  // the field, as sent; "": none

 private:
  struct EasyDeleter {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct MultiDeleter {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  struct ListDeleter {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  template <typename T>
  void Set(CURLoption option, T value);
  void SetProtocols();
  void SetSecurity();
  void SetCallbacks();
  // Has curl connect to the present addresses of the URL's host: it looks none up itself.
  absl::Status FindAddresses(const SourceUrl& url);
  absl::Status TakeAuthorities();

  // Until there are bytes, or the end.
  absl::Status Await();
  // Has curl do its work up to its next wait.
  void Perform();
  // OK, or why the transfer has ended.
  absl::Status End() const;
  absl::Status TimedOut() const;

  // Runs code that must not throw into curl, a C library. Gives `failure`, an error to curl, for
  // it.
  template <typename Result, typename Callback>
  Result Guard(Result failure, const Callback& callback);

  // curl's callbacks, with this as their last argument.
  static size_t OnBody(char* bytes, size_t size, size_t count, void* self);
  static size_t OnField(char* bytes, size_t size, size_t count, void* self);
  static CURLcode OnTlsContext(CURL* easy, void* context, void* self);
  static curl_socket_t OpenSocket(void* self, curlsocktype purpose, curl_sockaddr* address);
  size_t TakeBody(const char* bytes, size_t length);
  size_t TakeField(absl::string_view line);
  // Whether a connection to `address` may be made; notes the address otherwise.
  bool MayConnect(const sockaddr& address);

  const FetchEnvironment environment_;
  const FetchOptions& options_;
  Cancellation& cancellation_;
  StallMeter stall_, total_;
  std::unique_ptr<curl_slist, ListDeleter> addresses_;  // borrowed by easy_
  Authorities::Store authorities_;                      // likewise
  const std::unique_ptr<CURLM, MultiDeleter> multi_;
  const std::unique_ptr<CURL, EasyDeleter> easy_;
  std::array<char, CURL_ERROR_SIZE> error_ = {};  // curl's words

  // The state of the last started URL.
  std::string shown_url_, host_;
  bool may_be_private_ = false;
  std::string refused_address_;  // "": none
  std::string location_;
  size_t header_bytes_ = 0;
  std::vector<uint8_t> received_;
  size_t next_ = 0;  // of received_, to be read
  bool paused_ = false, ended_ = false, out_of_memory_ = false;
  CURLcode result_ = CURLE_OK;  // once ended_

  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

}  // namespace upscaled::server
