// Options of SpreadClient, apart from its engine.
#pragma once

#include "absl/time/time.h"
#include "client/upscale_client.h"

namespace upscaled::client {

struct SpreadOptions {
  int calls = 8;                                               // at a time, a tile each
  absl::Duration timeout = absl::InfiniteDuration();           // of an image
  int max_message_bytes = ChannelOptions().max_message_bytes;  // as the client's channel
};

}  // namespace upscaled::client
