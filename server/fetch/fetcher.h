// Sources out of URLs, within the operator's list.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/cancellation.h"
#include "engine/image/byte_stream.h"
#include "server/fetch/authorities.h"
#include "server/fetch/fetch_options.h"
#include "server/fetch/host_lookups.h"
#include "server/fetch/source_url.h"

namespace upscaled::server {

struct FetchedSource {
  std::unique_ptr<ByteSource> bytes;
  int64_t total_bytes = 0;  // that it gives, where its host tells; 0: unknown
};

// Thread safe.
class Fetcher {
 public:
  static constexpr int kMaxRedirects = 3;
  // The most time of one source. Measured at its peak, with libcurl 7.88 and OpenSSL 3.0: 117 KiB
  // of curl's and 92 of TLS in the handshake with a chain of one certificate; 96 are our buffer's.
  // The rest is for longer chains and headers. Authorities are not in it: they are shared.
  static constexpr int64_t kMemoryBytes = int64_t{512} << 10;

  // To be made before other threads use libcurl.
  explicit Fetcher(FetchOptions options);
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  // INVALID_ARGUMENT (kInvalidOption): not a URL. PERMISSION_DENIED (kSourceRefused): no prefix
  // allows it.
  absl::StatusOr<SourceUrl> Check(const std::string& url) const;

  // Waits for the first bytes at `url`, a URL from Check; follows at most a few redirects, each an
  // allowed one. The fetcher and `cancellation` outlive the source. Errors of Transfer, of Check
  // for redirects, and UNAVAILABLE (kSourceFailed) for too many redirects or any status except 200.
  absl::StatusOr<FetchedSource> Fetch(const SourceUrl& url, Cancellation& cancellation) const;

 private:
  bool MayFetch() const;  // anything at all
  bool Allows(const SourceUrl& url) const;

  const FetchOptions options_;
  mutable HostLookups lookups_;
  mutable Authorities authorities_;
};

}  // namespace upscaled::server
