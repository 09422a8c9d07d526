// A connected, non-blocking socket to read from and write to, plain or in TLS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"

struct ssl_ctx_st;

namespace upscaled::server {

enum class IoStatus : uint8_t {
  kDone,       // `bytes` were moved, at least one
  kWantRead,   // nothing was moved: again when the socket is readable
  kWantWrite,  // nothing was moved: again when the socket is writable
  kEnd,        // the other side has ended its half
  kError,      // the connection is broken
};

struct IoResult {
  IoStatus status = IoStatus::kError;
  size_t bytes = 0;
};

// Not thread safe. After kError only destruction is left.
class SocketStream {
 public:
  virtual ~SocketStream() = default;
  // kDone (with no bytes) when both sides may speak.
  virtual IoResult Handshake() = 0;
  virtual IoResult Read(std::span<uint8_t> bytes) = 0;
  // Bytes left by a write must come first in the next one.
  virtual IoResult Write(std::span<const uint8_t> bytes) = 0;
  // Ends this side's half of the connection.
  virtual void EndWrites() = 0;
  // Whether Read may have bytes though the socket is not readable.
  virtual bool HasBuffered() const = 0;
  virtual int fd() const = 0;
  // After a handshake in which the client's certificate was verified: its alternative names for
  // hosts ("DNS:client.example.org", in lower case) and URIs ("URI:spiffe://example.org/shop"), in
  // its order. Null: the client has shown none, or it has no such names. Leaves out names with
  // other characters than visible ASCII.
  virtual std::shared_ptr<const std::vector<std::string>> CertificateNames() const = 0;
};

std::unique_ptr<SocketStream> MakePlainStream(UniqueFd socket);
// The server's side, of a connection of `context` (see TlsContext). null when there is no memory.
std::unique_ptr<SocketStream> MakeTlsStream(UniqueFd socket, ssl_ctx_st* context);

}  // namespace upscaled::server
