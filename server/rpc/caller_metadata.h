// What a caller shows of itself in the metadata of gRPC.
#pragma once

#include <map>
#include <string_view>

#include <grpcpp/support/string_ref.h>

#include "server/identity/api_key.h"

namespace upscaled::server {

using CallerMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Views into `metadata`.
inline Credentials CredentialsOf(const CallerMetadata& metadata) {
  const auto value = [&](const char* name) {
    const auto entry = metadata.find(name);
    return entry == metadata.end() ? std::string_view()
                                   : std::string_view(entry->second.data(), entry->second.size());
  };
  return {.authorization = value("authorization"), .api_key = value("x-api-key")};
}

}  // namespace upscaled::server
