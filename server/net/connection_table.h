// The connections of one port: caps in all and per address, and counts for the metrics.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/token_bucket.h"

namespace upscaled::server {

// Ends of a call with more cost to the server than to its client.
enum class CallFault : uint8_t {
  kReset,        // the client aborted it
  kServerReset,  // the server aborted it, most likely for what the client sent
  kRefused,      // it got an error and nothing else
};
inline constexpr int kCallFaults = 3;

struct ConnectionLimits {
  int max_connections = 4096;
  int max_connections_per_address = 1024;
  std::string exempt_host;  // whose connections always have a place: the server's own
  // Calls of the clients of one address, over all their connections: calls they may abort, as many
  // they may have the server abort, and calls to refuse.
  Rate resets_per_address = {.per_second = 2000, .burst = 4000};
  Rate refused_calls_per_address = {.per_second = 2000, .burst = 5000};
};

// Why a connection is closed as soon as it is accepted.
enum class Refusal : uint8_t { kConnections, kConnectionsOfAddress, kDescriptors };
inline constexpr int kRefusals = 3;
std::string_view RefusalName(Refusal refusal);  // "connections", "address", "descriptors"

// Why the server ends an accepted connection.
enum class Offence : uint8_t {
  kHandshakeTimeout,  // no TLS handshake or HTTP/2 preface in time
  kHandshake,         // a failed TLS handshake, or another protocol
  kEvicted,           // gave its place before its handshake was over
  kHeaderBytes,       // a header block beyond its limit
  kFrame,             // a frame that HTTP/2 does not allow there
  kResets,            // too many aborted calls
  kServerResets,      // too many calls that the server had to abort
  kRefusedCalls,      // too many calls that were refused
  kControlFrames,     // too many frames that carry nothing
  kStalled,           // takes nothing of what it was sent
};
inline constexpr int kOffences = 10;
std::string_view OffenceName(Offence offence);  // "handshake_timeout", ...

struct ConnectionCounts {
  int64_t open = 0;
  int64_t accepted = 0;
  std::array<int64_t, kRefusals> refused = {};   // by Refusal
  std::array<int64_t, kOffences> ended = {};     // by Offence
  std::array<int64_t, kCallFaults> faults = {};  // by CallFault
};

// Thread safe. Must outlive its places.
class ConnectionTable {
 public:
  // The place of one open connection; gives it back when it goes.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { Release(); }

    explicit operator bool() const { return table_ != nullptr; }
    // Counts a call; false if too many calls of its host ended so in the recent window.
    bool Take(CallFault fault);

   private:
    friend class ConnectionTable;
    Place(ConnectionTable& table, const std::string& host) : table_(&table), host_(host) {}
    void Release();

    ConnectionTable* table_ = nullptr;
    std::string host_;
  };

  explicit ConnectionTable(const ConnectionLimits& limits, const Clock& clock = Clock::Real());

  // A place for a connection from `host` (see PeerAddress), or the refusal; only OnRefused counts
  // refusals.
  std::variant<Place, Refusal> Admit(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRefused(Refusal refusal) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server ends a connection with a place.
  void OnEnded(Offence offence) ABSL_LOCKS_EXCLUDED(mutex_);

  ConnectionCounts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Host {
    int open = 0;
    std::array<TokenBucket, kCallFaults> faults;  // by CallFault
    absl::Time last_fault = absl::InfinitePast();
  };

  bool Take(const std::string& host, CallFault fault) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets hosts without connections and with full buckets.
  void Sweep(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ConnectionLimits limits_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  ConnectionCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Host> hosts_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_);  // hosts at which Sweep is due
};

}  // namespace upscaled::server
