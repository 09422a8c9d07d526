// The credentials of a caller of gRPC.
#pragma once

#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include <grpcpp/support/string_ref.h>

#include "server/base/peer_address.h"
#include "server/identity/api_key.h"

namespace upscaled::server {

using CallerMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Views into both.
inline Credentials CredentialsOf(const CallerMetadata& metadata, const PeerAddress& peer) {
  const auto value = [&](const char* name) {
    const auto entry = metadata.find(name);
    return entry == metadata.end() ? std::string_view()
                                   : std::string_view(entry->second.data(), entry->second.size());
  };
  return {.authorization = value("authorization"),
          .api_key = value("x-api-key"),
          .certificate_names = peer.certificate_names.get(),
          .repeats = metadata.count("authorization") > 1 || metadata.count("x-api-key") > 1};
}

// The values of all entries of this name, in their order, with commas between them.
inline std::string AllEntries(const CallerMetadata& metadata, const char* name) {
  std::string values;
  const auto [first, last] = metadata.equal_range(name);
  for (auto entry = first; entry != last; ++entry) {
    if (!values.empty()) values += ", ";
    values.append(entry->second.data(), entry->second.size());
  }
  return values;
}

// A view into `metadata`; empty if the key is missing or repeated.
inline std::string_view TraceparentOf(const CallerMetadata& metadata) {
  const auto [first, last] = metadata.equal_range("traceparent");
  if (first == last || std::next(first) != last) return "";
  return std::string_view(first->second.data(), first->second.size());
}

}  // namespace upscaled::server
