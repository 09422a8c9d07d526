// Reads the protocols offered by a TLS client, before the server answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace upscaled::server {

inline constexpr size_t kTlsRecordHeaderBytes = 5;

// Bytes of the record behind `header`, its header included; 0 if it is not of a TLS handshake.
size_t HandshakeRecordBytes(std::span<const uint8_t, kTlsRecordHeaderBytes> header);

// True if the sender of this record offers HTTP/2 but not HTTP/1.1 (ALPN, RFC 7301). false, too,
// when it holds no whole ClientHello.
bool OffersHttp2Alone(std::span<const uint8_t> record);

}  // namespace upscaled::server
