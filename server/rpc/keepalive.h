// Ends of connections that their clients left without a word.
#pragma once

#include <grpcpp/server_builder.h>

#include "absl/time/time.h"

namespace upscaled::server {

// Ends a connection whose client does not answer a ping within 20 s; a silent one is asked once a
// minute.
inline void SetKeepalive(grpc::ServerBuilder& builder) {
  constexpr absl::Duration kTime = absl::Seconds(60), kTimeout = absl::Seconds(20);
  const auto milliseconds = [](absl::Duration time) {
    return static_cast<int>(absl::ToInt64Milliseconds(time));
  };
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(kTime));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(kTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

}  // namespace upscaled::server
