// The shared environment of one HTTP server's connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/http_fault.h"
#include "server/http/http_limits.h"
#include "server/http/http_router.h"
#include "server/http/http_session_list.h"
#include "server/net/connection_table.h"
#include "server/net/io_thread_link.h"
#include "server/net/trusted_proxies.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

class HandshakeCrew;

// Must outlive the thread, and with it all sessions.
struct HttpHost {
  HttpHost(const HttpLimits& limits, std::string title, std::vector<HttpRoute> routes,
           HttpGuard guard, HttpFaultAnswer fault_answer, ConnectionTable& table)
      : limits(limits),
        router(std::move(title), std::move(routes)),
        guard(std::move(guard)),
        fault_answer(std::move(fault_answer)),
        table(table),
        buffer(kBufferBytes) {}

  const HttpLimits limits;
  const HttpRouter router;
  const HttpGuard guard;  // null: anybody may call
  const HttpFaultAnswer fault_answer;
  ConnectionTable& table;
  // Set before the first session.
  const TrustedProxies* proxies = nullptr;  // null: none is trusted
  HandshakeCrew* handshakes = nullptr;      // null: the thread itself
  std::shared_ptr<IoThreadLink> link;
  std::shared_ptr<BodyBudget> bodies;
  std::atomic<bool> draining = false;  // no connection is kept
  // Only on the thread.
  HttpSessionList sessions;
  std::vector<uint8_t> buffer;  // for reading, one connection at a time

 private:
  static constexpr size_t kBufferBytes = size_t{64} << 10;
};

}  // namespace upscaled::server
